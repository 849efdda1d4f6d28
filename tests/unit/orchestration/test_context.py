"""The properties and calls of ctx."""

from __future__ import annotations

import asyncio
import inspect
import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from pydantic import BaseModel, Field

from holdfast import App
from holdfast import Context as PublicContext
from holdfast.errors import ActivityFailed
from holdfast.orchestration.core.effects import RunActivity
from holdfast.orchestration.core.instance import Verdict
from holdfast.orchestration.core.messages import Start
from holdfast.orchestration.status import Status
from tests.unit.orchestration.driver import BEGINNING, Driver

if TYPE_CHECKING:
    from holdfast import Context


def test_what_is_awaited_are_coroutine_functions() -> None:
    for name in ("call", "sub", "event", "receive"):
        assert inspect.iscoroutinefunction(getattr(PublicContext, name))


def test_chance_and_time_are_those_of_the_history(app: App, cold: bool) -> None:
    @app.orchestration
    async def chance(ctx: Context) -> list[Any]:
        begin = ctx.now()
        assert begin.tzinfo is UTC
        drawn = [ctx.random(), ctx.uuid()]
        await asyncio.sleep(60)
        return [begin, *drawn, ctx.now(), ctx.random(), ctx.uuid(), ctx.instance_id, ctx.execution_id]

    outputs = []
    for name in ("one", "one", "other"):
        driver = Driver(app, name, cold=cold)
        driver.deliver(Start(name="chance", input="null", seed=name))
        outputs.append(driver.run())
    assert outputs[0] == outputs[1]
    begin, number, identity, end, *more = outputs[0]
    assert datetime.fromisoformat(begin) == datetime.fromtimestamp(BEGINNING, UTC)
    assert datetime.fromisoformat(end) == datetime.fromtimestamp(BEGINNING + 60, UTC)
    assert 0 <= number < 1
    assert UUID(identity).version == 4
    assert more[2:] == ["one", 1]
    assert len({number, identity, more[0], more[1], outputs[2][1], outputs[2][2]}) == 6


def test_the_status_is_what_was_set_last(app: App, cold: bool) -> None:
    @app.orchestration
    async def telling(ctx: Context) -> None:
        ctx.set_status({"done": 0})
        await asyncio.sleep(1)
        ctx.set_status({"done": 1})
        await asyncio.sleep(1)

    driver = Driver(app, cold=cold)
    driver.start("telling")
    assert driver.instance.custom_status == '{"done":0}'
    driver.wait()
    assert driver.instance.custom_status == '{"done":1}'


def test_nothing_is_logged_twice(app: App, cold: bool, caplog: pytest.LogCaptureFixture) -> None:
    replaying: list[bool] = []

    @app.orchestration
    async def telling(ctx: Context) -> None:
        ctx.log.info("begins %s", ctx.instance_id)
        replaying.append(ctx.is_replaying)
        await asyncio.sleep(1)
        ctx.log("woke %s", "up")

    driver = Driver(app, cold=cold)
    with caplog.at_level(logging.INFO):
        driver.start("telling")
        driver.wait()
    assert [record.getMessage() for record in caplog.records] == ["begins test", "woke up"]
    assert {record.filename for record in caplog.records} == {"test_context.py"}
    assert replaying == ([False, True] if cold else [False])


class Line(BaseModel):
    name: str
    price: float
    due: datetime


@dataclass
class Receipt:
    id: UUID
    lines: tuple[Line, ...]


def test_inputs_and_outputs_have_their_types(app: App, cold: bool) -> None:
    line = Line(name="oar", price=1.5, due=datetime(2030, 1, 1, tzinfo=UTC))

    @app.activity
    async def ship(line: Line) -> Receipt: ...

    @app.activity(queue="gpu", name="renamed")
    def draw() -> bytes: ...

    @app.orchestration
    async def typed(ctx: Context, lines: list[Line]) -> Receipt:
        receipt = await ctx.call(ship, lines[0])
        assert isinstance(receipt, Receipt)
        assert isinstance(receipt.lines, tuple)
        assert isinstance(receipt.id, UUID)
        assert await ctx.call(draw) == b"picture"
        other = await ctx.event("more", Line)
        assert isinstance(other.due, datetime)
        return Receipt(receipt.id, (*receipt.lines, other))

    identity = UUID(int=7)
    driver = Driver(app, cold=cold)
    driver.start("typed", [line])
    driver.complete(2, Receipt(identity, (line,)))
    driver.complete(4, b"picture")
    driver.raise_event("more", line)
    assert driver.output == {"id": str(identity), "lines": [line.model_dump(mode="json")] * 2}
    calls = [effect for effect in driver.effects if isinstance(effect, RunActivity)]
    assert [(call.name, call.queue, call.input) for call in calls] == [
        ("ship", "activities", line.model_dump_json()),
        ("renamed", "gpu", "null"),
    ]


def test_an_input_that_is_not_of_its_type_is_raised_where_it_is_given(app: App) -> None:
    @app.activity
    async def ship(line: Line) -> None: ...

    @app.orchestration
    async def wrong(ctx: Context) -> str:
        try:
            await ctx.call(ship, "a string")  # type: ignore[arg-type]
        except TypeError as error:
            return str(error)
        return "taken"

    driver = Driver(app)
    driver.start("wrong")
    assert "str cannot be written as JSON here" in driver.output


def test_an_output_that_cannot_be_written_fails_the_orchestration(app: App) -> None:
    @app.orchestration
    async def wrong(ctx: Context) -> Any:
        return object()

    driver = Driver(app)
    driver.start("wrong")
    assert driver.error.type == "TypeError"
    assert "object cannot be written as JSON" in driver.error.message


def test_an_input_may_be_left_out_where_it_has_a_default(app: App) -> None:
    @app.orchestration
    async def greeting(ctx: Context, name: str = "you") -> str:
        return f"hello {name}"

    @app.orchestration
    async def without(ctx: Context) -> str:
        return "nothing"

    for given, said in ((None, "hello you"), ("ann", "hello ann")):
        driver = Driver(app)
        driver.start("greeting", given)
        assert driver.output == said
    assert not isinstance(Driver(app).start("without", 5), Verdict)


def test_a_failed_activity_is_raised_where_it_is_awaited(app: App, cold: bool) -> None:
    @app.orchestration
    async def careful(ctx: Context) -> list[str | None]:
        try:
            await ctx.call("break")
        except ActivityFailed as error:
            return [str(error), error.type, error.kind, error.reason]
        return []

    driver = Driver(app, cold=cold)
    driver.start("careful")
    driver.fail(2, ValueError("no money"))
    assert driver.output == ["The activity break failed: ValueError: no money", "ValueError", "error", "no money"]


def test_an_event_goes_to_whoever_waited_longest(app: App, cold: bool) -> None:
    @app.orchestration
    async def crowd(ctx: Context) -> list[Any]:
        async def impatient() -> str:
            try:
                async with asyncio.timeout(1):
                    return f"{await ctx.event('call')}"
            except TimeoutError:
                return "gave up"

        return list(await asyncio.gather(impatient(), ctx.event("call"), ctx.event("call"), ctx.event("other")))

    driver = Driver(app, cold=cold)
    driver.start("crowd")
    driver.wait()
    for number in range(2):
        assert driver.raise_event("call", number) is Verdict.RECORDED
    assert driver.raise_event("call", 2) is Verdict.NO_SUBSCRIBER
    driver.raise_event("other", "o")
    assert driver.output == ["gave up", 0, 1, "o"]


def test_a_mailbox_keeps_all_in_order_from_the_start_on(app: App, cold: bool) -> None:
    @app.orchestration(mailboxes=["orders", "returns"])
    async def shop(ctx: Context) -> list[Any]:
        await ctx.call("open")
        taken = [await ctx.receive("orders", int) for _ in range(3)]
        return [*taken, await ctx.receive("returns"), *await asyncio.gather(*(ctx.receive("orders") for _ in range(2)))]

    driver = Driver(app, cold=cold)
    driver.start("shop")
    assert [driver.raise_event("orders", number) for number in range(2)] == [Verdict.RECORDED] * 2
    driver.raise_event("returns", "r")
    driver.complete(2)
    for number in range(2, 5):
        driver.raise_event("orders", number)
    assert driver.output == [0, 1, 2, "r", 3, 4]


def test_the_same_event_sent_twice_is_one(app: App, cold: bool) -> None:
    @app.orchestration(mailboxes=["orders"])
    async def shop(ctx: Context) -> list[Any]:
        return [await ctx.receive("orders") for _ in range(3)] + [await ctx.event("close")]

    driver = Driver(app, cold=cold)
    driver.start("shop")
    replies = [driver.raise_event("orders", number, f"id-{number}") for number in (0, 0, 1, 0, 1, 2)]
    assert [reply is Verdict.RECORDED for reply in replies] == [True, False, True, False, False, True]
    driver.raise_event("close", "c")
    assert driver.output == [0, 1, 2, "c"]


def test_mailboxes_and_events_are_not_mixed_up(app: App) -> None:
    @app.orchestration(mailboxes=["orders"])
    async def shop(ctx: Context, ask: str) -> None:
        await (ctx.receive("undeclared") if ask == "receive" else ctx.event("orders"))

    for ask, hint in (("receive", "mailboxes=['undeclared']"), ("event", "ctx.receive('orders')")):
        driver = Driver(app)
        driver.start("shop", ask)
        assert hint in driver.error.message


def test_continue_as_new(app: App, cold: bool) -> None:
    @app.orchestration(mailboxes=["orders"])
    async def perpetual(ctx: Context, total: int) -> int:
        if total < 6:
            total += await ctx.receive("orders", int)
            await ctx.call("step", total)
            ctx.continue_as_new(total)
        return ctx.execution_id

    driver = Driver(app, cold=cold)
    driver.start("perpetual", 0)
    for number in (1, 2, 3, 4):
        driver.raise_event("orders", number, f"id-{number}")
    late = driver.completion(driver.history[2].seq, None)
    assert driver.deliver(late) == [Verdict.RECORDED]
    assert driver.instance.execution_id == 2
    assert driver.types == ["OrchestrationStarted", "ActivityScheduled"]
    assert driver.deliver(late) == [Verdict.OTHER_EXECUTION]
    assert driver.raise_event("orders", 1, "id-1") is Verdict.DUPLICATE
    driver.complete(2)
    driver.complete(2)
    assert driver.output == 4
    assert [event.input for event in driver.events if event.type == "OrchestrationStarted"] == ["0", "1", "3", "6"]  # type: ignore[attr-defined]
    assert driver.status is Status.COMPLETED


def test_continue_as_new_from_within_a_task_group(app: App) -> None:
    @app.orchestration
    async def perpetual(ctx: Context, number: int) -> int:
        if number == 0:
            return ctx.execution_id
        async with asyncio.TaskGroup() as group:
            group.create_task(ctx.event("never"))
            try:
                ctx.continue_as_new(number - 1)
            except Exception:
                pytest.fail("it is no Exception")

    driver = Driver(app)
    driver.start("perpetual", 3)
    assert driver.output == 4


def test_to_continue_as_new_for_ever_is_never_to_wait(app: App, cold: bool) -> None:
    @app.orchestration
    async def spinning(ctx: Context) -> None:
        ctx.continue_as_new()

    driver = Driver(app, cold=cold)
    driver.start("spinning")
    assert driver.error.kind == "never_yields"


def test_to_exit_is_to_fail(app: App) -> None:
    @app.orchestration
    async def leaving(ctx: Context) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(1))
            raise SystemExit(3)

    driver = Driver(app)
    driver.start("leaving")
    assert driver.error.message == "SystemExit(3)"


def test_what_is_left_running_is_cancelled_and_waited_for_as_asyncio_does_at_its_end(app: App, cold: bool) -> None:
    @app.orchestration
    async def careless(ctx: Context) -> str:
        async def background() -> None:
            try:
                await asyncio.sleep(1000)
            finally:
                await ctx.call("clean up")

        asyncio.create_task(background())
        asyncio.create_task(ctx.call("forgotten"))
        await asyncio.sleep(1)
        return "done"

    driver = Driver(app, cold=cold)
    driver.start("careless")
    driver.wait()
    assert driver.status is Status.RUNNING
    assert driver.types[-1] == "ActivityScheduled"
    driver.complete(driver.history[-1].seq)
    assert driver.output == "done"


def test_what_is_asked_and_withdrawn_in_one_step_was_never_asked(app: App, cold: bool) -> None:
    @app.orchestration
    async def hasty(ctx: Context) -> str:
        for _ in range(3):
            async with asyncio.timeout(60):
                await asyncio.sleep(0)
        task = asyncio.create_task(ctx.call("never"))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(5)
        return "done"

    driver = Driver(app, cold=cold)
    driver.start("hasty")
    assert driver.types == ["OrchestrationStarted", "TimerCreated"]
    assert driver.run() == "done"


def test_what_is_no_activity_cannot_be_called(app: App) -> None:
    async def plain() -> None: ...

    @app.orchestration
    async def wrong(ctx: Context, sub: bool) -> None:
        await (ctx.sub(plain) if sub else ctx.call(plain))  # type: ignore[call-overload]

    for sub, hint in ((False, "@app.activity"), (True, "@app.orchestration")):
        driver = Driver(app)
        driver.start("wrong", sub)
        assert hint in driver.error.message


def test_an_input_that_no_longer_fits_fails_the_next_execution(app: App) -> None:
    class Positive(BaseModel):
        number: int = Field(gt=0)

    @app.orchestration
    async def down(ctx: Context, given: Positive) -> None:
        ctx.continue_as_new(Positive.model_construct(number=given.number - 1))

    driver = Driver(app)
    driver.start("down", {"number": 2})
    assert driver.instance.execution_id == 3
    assert driver.error.type == "ValidationError"


def test_an_error_that_cannot_be_told_is_still_one(app: App) -> None:
    class Unspeakable(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    @app.orchestration
    async def failing(ctx: Context, half: bool) -> None:
        raise ValueError("half a pair: \ud83d") if half else Unspeakable

    for half, said in ((True, "half a pair: ?"), (False, "cannot be read")):
        driver = Driver(app)
        driver.start("failing", half)
        driver.rebuild()
        assert said in driver.error.message
