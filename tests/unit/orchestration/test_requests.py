"""Requests that the code of an instance answers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel

from holdfast import App, Context
from holdfast.errors import InvalidRequest, NotFound, OrchestrationEnded
from holdfast.orchestration.core import history
from holdfast.orchestration.core.instance import Blocked, Verdict
from holdfast.orchestration.core.messages import Cancel, MakeRequest, Resume, Suspend
from tests.unit.orchestration.driver import Driver

if TYPE_CHECKING:
    from holdfast import Request


class Line(BaseModel):
    article: str
    number: int = 1


@pytest.fixture
def shop(app: App) -> App:
    @app.orchestration(requests={"add-line": Line}, mailboxes=["notes"])
    async def cart(ctx: Context, size: int) -> list[str]:
        lines: list[str] = []
        while len(lines) < size:
            request: Request[Line] = await ctx.request("add-line")
            if request.data.number < 1:
                request.reject("Order one at least.")
                continue
            lines.append(request.data.article)
            request.reply({"lines": len(lines)})
        return lines

    return app


def line(article: str, number: int = 1) -> dict[str, Any]:
    return {"article": article, "number": number}


def test_requests_are_answered_in_order(shop: App, cold: bool) -> None:
    driver = Driver(shop, cold=cold)
    driver.start("cart", 3)
    for number, article in enumerate(("oar", "sail", "rope")):
        assert driver.request("add-line", line(article), str(number)) is Verdict.RECORDED
        assert driver.answer(str(number)) == {"lines": number + 1}
    assert driver.output == ["oar", "sail", "rope"]
    assert driver.types == [
        "OrchestrationStarted",
        *["RequestReceived", "RequestAnswered"] * 3,
        "OrchestrationCompleted",
    ]


def test_a_rejected_request_has_the_message_of_the_code(shop: App, cold: bool) -> None:
    driver = Driver(shop, cold=cold)
    driver.start("cart", 1)
    driver.request("add-line", line("oar", 0), "zero")
    assert driver.answer("zero") == ("Order one at least.", None)
    driver.request("add-line", line("oar"), "one")
    assert driver.output == ["oar"]


def test_the_same_request_is_received_once(shop: App, cold: bool) -> None:
    driver = Driver(shop, cold=cold)
    driver.start("cart", 2)
    replies = [driver.request("add-line", line(article), "1") for article in ("oar", "oar", "other")]
    assert replies == [Verdict.RECORDED, Verdict.DUPLICATE, Verdict.DUPLICATE]
    driver.deliver(Suspend())
    again = MakeRequest(name="add-line", data='{"article": "sail"}', request_id="2")
    assert driver.deliver(again, again) == [Verdict.RECORDED, Verdict.DUPLICATE]
    driver.deliver(Resume())
    assert driver.output == ["oar", "sail"]


def test_what_is_wrong_is_refused_at_the_door(shop: App, cold: bool) -> None:
    driver = Driver(shop, cold=cold)
    driver.start("cart", 1)
    wrong = driver.request("add-line", {"number": 1})
    assert isinstance(wrong, InvalidRequest)
    assert "the request add-line: article: Field required" in wrong.message
    for name in ("remove-line", "notes"):
        unknown = driver.request(name)
        assert isinstance(unknown, NotFound)
        assert f"no request {name}" in unknown.message
    assert driver.types == ["OrchestrationStarted"]
    driver.request("add-line", line("oar"))
    assert isinstance(driver.request("add-line", line("oar"), "late"), OrchestrationEnded)


def test_a_request_that_does_not_fit_the_type_of_the_call_is_refused_and_the_next_one_taken(
    app: App, cold: bool
) -> None:
    @app.orchestration(requests=["double"])
    async def doubling(ctx: Context) -> int:
        await ctx.event("go")
        request = await ctx.request("double", int)
        request.reply(2 * request.data)
        return request.data

    driver = Driver(app, cold=cold)
    driver.start("doubling")
    driver.request("double", "two", "wrong")
    driver.request("double", 2, "right")
    driver.raise_event("go")
    message, code = driver.answer("wrong")
    assert (message[:20], code) == ("the request double: ", "INVALID_REQUEST")
    assert driver.answer("right") == 4
    assert driver.output == 2


def test_several_requests_are_open_at_once(app: App, cold: bool) -> None:
    @app.orchestration(requests=["quote"])
    async def quoting(ctx: Context) -> None:
        async def answer(request: Request[str]) -> None:
            request.reply(await ctx.call("price", request.data))

        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(answer(await ctx.request("quote", str)))

    driver = Driver(app, cold=cold)
    driver.start("quoting")
    for article in ("oar", "sail", "rope"):
        driver.request("quote", article, article)
    scheduled = {event.input: event.seq for event in driver.events if isinstance(event, history.ActivityScheduled)}
    for article in ("rope", "oar", "sail"):
        assert driver.answer(article) is None
        assert driver.request("quote", article, article) is Verdict.DUPLICATE
        driver.complete(scheduled[f'"{article}"'], f"price of {article}")
        assert driver.answer(article) == f"price of {article}"


def test_a_request_is_answered_once(app: App) -> None:
    @app.orchestration(requests=["ask"])
    async def asked(ctx: Context) -> list[str]:
        request = await ctx.request("ask")
        found = []
        try:
            request.reply(object())  # not JSON: it can still be answered
        except TypeError:
            found.append("no JSON")
        request.reply([1, 2])
        for answer in (request.reply, request.reject):
            try:
                answer("late")
            except RuntimeError as error:
                found.append(str(error))
        return found

    driver = Driver(app)
    driver.start("asked")
    driver.request("ask", None, "r-1")
    assert driver.output == ["no JSON", *["The request r-1 was answered before."] * 2]
    assert driver.answer("r-1") == [1, 2]


def test_requests_without_a_declaration_are_named(app: App) -> None:
    @app.orchestration
    async def careless(ctx: Context) -> None:
        await ctx.request("ask")

    driver = Driver(app)
    driver.start("careless")
    assert "requests=['ask']" in driver.error.message


def test_a_cancelled_instance_can_answer_while_it_cleans_up(app: App, cold: bool) -> None:
    @app.orchestration(requests=["ask"])
    async def closing(ctx: Context) -> None:
        request = await ctx.request("ask")
        try:
            await ctx.event("never")
        finally:
            request.reject("closed")

    driver = Driver(app, cold=cold)
    driver.start("closing")
    driver.request("ask")
    assert driver.answer() is None
    driver.deliver(Cancel())
    assert driver.answer() == ("closed", None)


def test_unread_requests_are_taken_along(app: App, cold: bool) -> None:
    @app.orchestration(requests=["next"], mailboxes=["next"])
    async def one_each(ctx: Context, number: int) -> int:
        request = await ctx.request("next")
        request.reply(number)
        if number < 4:
            ctx.continue_as_new(number + 1)
        return number

    driver = Driver(app, cold=cold)
    driver.start("one_each", 0)
    driver.deliver(Suspend())
    for number in range(4):
        driver.request("next", None, str(number))
        driver.raise_event("next")
    driver.deliver(Resume())
    assert driver.request("next", None, "2") is Verdict.DUPLICATE
    driver.request("next", None, "4")
    assert [driver.answer(str(number)) for number in range(5)] == [0, 1, 2, 3, 4]
    assert driver.output == 4


def test_a_request_that_was_taken_and_not_answered_comes_first_in_the_next_execution(app: App, cold: bool) -> None:
    @app.orchestration(requests=["next"])
    async def postponing(ctx: Context, round: int) -> list[str]:  # noqa: A002
        taken = [await ctx.request("next", str) for _ in range(3)]
        if round == 0:
            taken[1].reply("at once")
            ctx.continue_as_new(1)
        for request in taken:
            request.reply(request.data)
        return [request.data for request in taken]

    driver = Driver(app, cold=cold)
    driver.start("postponing", 0)
    driver.deliver(Suspend())
    for name in "abcd":
        driver.request("next", name, name)
    driver.deliver(Resume())
    assert driver.output == ["a", "c", "d"]
    assert [driver.answer(name) for name in "abcd"] == ["a", "at once", "c", "d"]


def test_code_that_takes_a_request_and_continues_as_new_without_an_answer_does_not_run_for_ever(app: App) -> None:
    @app.orchestration(requests=["next"])
    async def evading(ctx: Context) -> None:
        await ctx.request("next")
        ctx.continue_as_new()

    driver = Driver(app)
    driver.start("evading")
    driver.request("next")
    assert driver.error.kind == "never_yields"


def asks(requests: Any, wait_first: bool = False) -> App:
    app = App()

    @app.orchestration(requests=requests)
    async def asked(ctx: Context) -> Any:
        if wait_first:
            await ctx.event("go")
        request = await ctx.request("ask")
        request.reply(request.data)
        return request.data

    return app


def blocked_by(driver: Driver, app: App) -> dict[str, Any]:
    with pytest.raises(Blocked) as blocked:
        driver.rebuild(app)
    return blocked.value.reason


@pytest.mark.parametrize("suspended", [False, True])
def test_a_request_that_is_no_longer_declared_blocks_where_the_code_waits(suspended: bool) -> None:
    driver = Driver(asks(["ask"]))
    driver.start("asked")
    if suspended:
        driver.deliver(Suspend())
        driver.request("ask", 1)
    reason = blocked_by(driver, asks(["another"]))
    assert (reason["kind"], reason["expected"], reason["found"]) == (
        *("undeclared_request", "the request ask", "no request ask"),
    )
    assert "requests=['ask']" in reason["message"]
    assert "test_requests.py" in reason["line"]
    assert "await ctx.request" in reason["line"]
    driver.rebuild(asks(["ask"]))


def test_an_unread_request_that_is_no_longer_declared_blocks() -> None:
    driver = Driver(asks(["ask"], wait_first=True))
    driver.start("asked")
    driver.request("ask", 1)
    assert blocked_by(driver, asks([], wait_first=True))["kind"] == "undeclared_request"


def test_a_request_that_nothing_has_asked_for_may_be_removed() -> None:
    driver = Driver(asks(["ask", "more"]))
    driver.start("asked")
    driver.rebuild(asks(["ask"]))
    assert isinstance(driver.request("more"), NotFound)
    driver.request("ask", 1)
    assert driver.output == 1


def test_a_recorded_request_that_no_longer_fits_its_type_blocks() -> None:
    driver = Driver(asks({"ask": int}, wait_first=True))
    driver.start("asked")
    driver.request("ask", 1)
    driver.rebuild(asks({"ask": Line}, wait_first=True))
    with pytest.raises(Blocked) as blocked:
        driver.raise_event("go")
    assert (blocked.value.reason["kind"], blocked.value.reason["expected"]) == ("unfit_value", "the request r (ask)")
    driver.rebuild(asks({"ask": int}, wait_first=True))
    driver.raise_event("go")
    reason = blocked_by(driver_before_the_end(), asks({"ask": Line}))
    assert reason["kind"] == "unfit_value"


def driver_before_the_end() -> Driver:
    """Of an instance that has taken a request, and waits."""
    app = App()

    @app.orchestration(requests={"ask": int})
    async def asked(ctx: Context) -> Any:
        request = await ctx.request("ask")
        await ctx.event("go")
        return request.data

    driver = Driver(app)
    driver.start("asked")
    driver.request("ask", 1)
    return driver


def test_code_that_no_longer_answers_departs_from_its_history() -> None:
    def silent(ctx_answers: bool) -> App:
        app = App()

        @app.orchestration(requests=["ask"])
        async def asked(ctx: Context) -> Any:
            request = await ctx.request("ask")
            if ctx_answers:
                request.reply("yes")
            await ctx.event("go")

        return app

    driver = Driver(silent(ctx_answers=True))
    driver.start("asked")
    driver.request("ask", 1, "r-9")
    reason = blocked_by(driver, silent(ctx_answers=False))
    assert (reason["kind"], reason["expected"]) == ("non_determinism", "event 3, RequestAnswered (ask, r-9)")


def test_another_reply_in_a_replay_changes_nothing() -> None:
    def answering(reply: str) -> App:
        app = App()

        @app.orchestration(requests=["ask"])
        async def asked(ctx: Context) -> Any:
            request = await ctx.request("ask")
            request.reply(reply)
            return await ctx.event("go")

        return app

    driver = Driver(answering("first"))
    driver.start("asked")
    driver.request("ask")
    driver.rebuild(answering("second"))
    driver.raise_event("go", 1)
    assert (driver.answer(), driver.output) == ("first", 1)
