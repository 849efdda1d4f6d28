"""The limits of the mail that an instance has not read: what is beyond them is refused, and nothing is lost."""

from __future__ import annotations

import asyncio
from functools import partial
from random import Random
from typing import Any

import pytest

from holdfast import App, Context
from holdfast.errors import Capacity
from holdfast.orchestration.core.instance import Verdict
from holdfast.orchestration.core.limits import DEFAULT_LIMITS, Limits
from holdfast.orchestration.core.messages import RaiseEvent, Resume, Start, Suspend
from tests.support.simulated import on_simulated_host
from tests.unit.orchestration.driver import Driver
from tests.unit.orchestration.redeployment import Stage

FEW = Limits(unread_mail=3, unread_bytes=100)
MEBIBYTE = 1024 * 1024
#: Letters of this length that fit into the inbox of a BLOCKED instance.
LONG = MEBIBYTE - 2
FIT = DEFAULT_LIMITS.unread_bytes // MEBIBYTE


def an_app() -> App:
    app = App()

    @app.orchestration(mailboxes=["letters", "others"])
    async def reader(ctx: Context, number: int) -> list[Any]:
        """Receives letters when it is told to go."""
        await ctx.event("go")
        received = [await ctx.receive("letters") for _ in range(number)]
        return [letter[:3] if isinstance(letter, str) else letter for letter in received]

    @app.orchestration(mailboxes=["letters"])
    async def one_each(ctx: Context, received: list[Any]) -> list[Any]:
        """Receives one letter in each execution."""
        received.append(await ctx.receive("letters"))
        if received[-1] != "end":
            ctx.continue_as_new(received)
        return received

    @app.orchestration(requests=["add"])
    async def adding(ctx: Context) -> None:
        """Takes a request, and answers it when it is told to go."""
        while True:
            request = await ctx.request("add")
            await ctx.event("go")
            request.reply(request.data)

    @app.orchestration(mailboxes=["letters"], requests=["add"])
    async def mixed(ctx: Context) -> None:
        while True:
            if await ctx.event("read") == "letter":
                await ctx.receive("letters")
            else:
                request = await ctx.request("add")
                if request.data % 2:
                    request.reply()
                elif request.data % 4:
                    ctx.continue_as_new()

    return app


def begun(name: str, cold: bool, given: Any = None, limits: Limits = FEW) -> Driver:
    driver = Driver(an_app(), cold=cold, limits=limits)
    driver.start(name, given)
    return driver


def test_an_event_beyond_the_number_is_refused_until_one_is_received(cold: bool) -> None:
    driver = begun("reader", cold, 5)
    for number in range(3):
        assert driver.raise_event(("letters", "letters", "others")[number], number, f"id-{number}") is Verdict.RECORDED
    before = list(driver.events)
    for box in ("letters", "others"):
        refused = driver.raise_event(box, 3, "id-3")
        assert isinstance(refused, Capacity)
        assert refused.details == {"retry_after": 1}
        assert "3 unread events and requests of 3 bytes" in refused.message
    assert driver.events == before
    # A repeat of one that was accepted is none.
    assert driver.raise_event("letters", 0, "id-0") is Verdict.DUPLICATE
    driver.raise_event("go")
    # The refused one was not remembered as received.
    assert driver.raise_event("letters", 3, "id-3") is Verdict.RECORDED
    for number in (4, 5):
        driver.raise_event("letters", number)
    assert driver.output == [0, 1, 3, 4, 5]


def test_an_event_beyond_the_bytes_is_refused_and_a_smaller_one_is_not(cold: bool) -> None:
    driver = begun("reader", cold, 2)
    assert driver.raise_event("letters", "x" * 80) is Verdict.RECORDED
    assert isinstance(driver.raise_event("letters", "x" * 17), Capacity)
    assert driver.raise_event("letters", "x" * 16) is Verdict.RECORDED
    assert isinstance(driver.raise_event("letters", 1), Capacity)
    driver.raise_event("go")
    assert driver.output == ["xxx", "xxx"]


def test_one_event_alone_that_is_too_large_is_refused() -> None:
    driver = begun("reader", False, 2)
    assert isinstance(driver.raise_event("letters", "x" * 99), Capacity)
    assert driver.raise_event("letters", "x" * 98) is Verdict.RECORDED


def test_events_that_code_waits_for_need_no_room(cold: bool) -> None:
    driver = begun("reader", cold, 3)
    for number in range(3):
        driver.raise_event("letters", number)
    assert driver.raise_event("go", "x" * 1000) is Verdict.RECORDED
    assert driver.output == [0, 1, 2]


def test_mail_during_a_suspension_counts(cold: bool) -> None:
    driver = begun("one_each", cold, [])
    driver.deliver(Suspend())
    for number in range(3):
        assert driver.raise_event("letters", number) is Verdict.RECORDED
    assert isinstance(driver.raise_event("letters", 3), Capacity)
    driver.deliver(Resume())
    for letter in (*range(3, 9), "end"):
        assert driver.raise_event("letters", letter) is Verdict.RECORDED
    assert driver.output == [*range(9), "end"]


def test_mail_that_is_handed_on_to_the_next_execution_counts(cold: bool) -> None:
    app = App()

    @app.orchestration(mailboxes=["letters", "others"])
    async def handing_on(ctx: Context) -> None:
        await ctx.receive("letters")
        ctx.continue_as_new()

    driver = Driver(app, cold=cold, limits=FEW)
    driver.start("handing_on")
    driver.raise_event("others")
    driver.raise_event("others")
    for _ in range(5):
        assert driver.raise_event("letters") is Verdict.RECORDED
    assert driver.instance.execution_id == 6
    assert driver.raise_event("others") is Verdict.RECORDED
    assert isinstance(driver.raise_event("others"), Capacity)


def test_a_request_counts_until_it_is_answered(cold: bool) -> None:
    driver = begun("adding", cold)
    for request_id in ("a", "b", "c"):
        assert driver.request("add", 1, request_id) is Verdict.RECORDED
    assert isinstance(driver.request("add", 1, "d"), Capacity)
    assert driver.request("add", 1, "a") is Verdict.DUPLICATE
    driver.raise_event("go")
    assert driver.answer("a") == 1
    assert driver.request("add", 1, "d") is Verdict.RECORDED
    assert isinstance(driver.request("add", 1, "e"), Capacity)


def test_mail_that_was_acknowledged_before_is_not_refused() -> None:
    driver = begun("reader", False, 4)
    letters = [RaiseEvent(name="letters", data=str(number)) for number in range(4)]
    assert driver.instance.deliver(letters, driver.now, acknowledged=True).replies == [Verdict.RECORDED] * 4
    assert isinstance(driver.raise_event("letters", 4), Capacity)


def test_the_event_of_a_start_that_does_not_fit_undoes_the_start() -> None:
    driver = Driver(an_app(), limits=FEW)
    event = RaiseEvent(name="letters", data="1" * 101)
    [reply] = driver.deliver(Start(name="reader", input="1", seed="seed", event=event))
    assert isinstance(reply, Capacity)
    assert driver.instance.started is None


@pytest.mark.parametrize("seed", range(30))
def test_a_restored_instance_counts_as_the_one_that_stayed_in_memory(seed: int) -> None:
    chance = Random(seed)
    drivers = [begun("mixed", cold, limits=Limits(unread_mail=6, unread_bytes=40)) for cold in (False, True)]
    for number in range(60):
        which, size = chance.choice(["letters", "add", "read", "read", "suspend", "resume"]), chance.randrange(1, 12)
        kind = chance.choice(["letter", "request"])
        replies = []
        for driver in drivers:
            if which == "letters":
                reply: Any = driver.raise_event("letters", "x" * size)
            elif which == "add":
                reply = driver.request("add", number, f"r-{number}")
            elif which == "read":
                reply = driver.raise_event("read", kind)
            else:
                [reply] = driver.deliver(Suspend() if which == "suspend" else Resume())
            replies.append(reply if isinstance(reply, Verdict) else type(reply))
        assert replies[0] == replies[1]
        kept, restored = (driver.instance._execution for driver in drivers)
        assert kept is not None
        assert restored is not None
        assert kept.mailboxes.unread == restored.mailboxes.unread


on_stage = on_simulated_host(partial(Stage, an_app))


@on_stage
async def test_a_blocked_instance_keeps_no_more_than_it_has_room_for(stage: Stage) -> None:
    await stage.begin("i", "reader", FIT + 2)
    await stage.ask("i", "RaiseEvent", name="go")
    await stage.deploy(App())

    async def raised(number: int, size: int = LONG) -> Any:
        data = f"{number:03}{'x' * (size - 3)}"
        answer = await stage.ask("i", "RaiseEvent", name="letters", data=data, event_id=f"id-{number}")
        return answer.get("error_code") or (answer["outcome"], answer["delivered"])

    assert [await raised(number) for number in range(FIT)] == [("recorded", True)] * FIT
    assert await raised(FIT) == "CAPACITY"
    # Repeats are recognised, also by a process that has not seen the first.
    assert await raised(0) == ("duplicate", True)
    await stage.deploy(App())
    assert await raised(0) == ("duplicate", True)
    assert await raised(FIT) == "CAPACITY"
    assert (await stage.ask("i", "Suspend"))["outcome"] == "recorded"
    assert (await stage.ask("i", "Resume"))["outcome"] == "recorded"
    await stage.deploy()
    await asyncio.sleep(5)
    assert await raised(FIT) == ("recorded", True)
    assert await raised(FIT + 1) == ("recorded", True)
    assert (await stage.ask("i", "Status"))["output"] == [f"{number:03}" for number in range(FIT + 2)]
