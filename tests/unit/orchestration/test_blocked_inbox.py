"""Messages that an instance accepts while it is BLOCKED, and how they are delivered when its code is back."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import App, Context
from holdfast.errors import Unavailable
from holdfast.kinds import ORCHESTRATION_TYPE
from holdfast.orchestration.actor.actor import OrchestrationActor
from holdfast.orchestration.storage.blocking import RETRY_SECONDS
from tests.support.simulated import on_simulated_host
from tests.unit.orchestration.redeployment import ROWS, Stage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LETTERS = 200
MANY = 50


def an_app() -> App:
    app = App()

    @app.orchestration
    async def approval(ctx: Context) -> Any:
        try:
            async with asyncio.timeout(60):
                return await ctx.event("approved")
        except TimeoutError:
            return "too late"

    @app.orchestration
    async def counted(ctx: Context) -> int:
        return await ctx.event("number", int)

    @app.orchestration(mailboxes=["letters"])
    async def reader(ctx: Context, number: int) -> list[Any]:
        return [await ctx.receive("letters") for _ in range(number)]

    @app.orchestration(mailboxes=["letters"])
    async def one_each(ctx: Context, number: int) -> int:
        """Receives one letter in each execution."""
        if number == 0:
            await ctx.event("go")
        if await ctx.receive("letters") != "end":
            ctx.continue_as_new(number + 1)
        return number

    @app.orchestration
    async def caller(ctx: Context) -> list[Any]:
        return list(await asyncio.gather(ctx.call("work", 1), ctx.call("work", 2)))

    return app


on_stage = on_simulated_host(partial(Stage, an_app))


@pytest.fixture
def calls_to_itself(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The calls of instances to themselves. Fails after MANY: an endless chain would stop the virtual clock."""
    made: list[str] = []
    call = OrchestrationActor._call_myself

    async def counted(actor: OrchestrationActor, method: str, data: dict[str, Any]) -> None:
        made.append(method)
        assert len(made) < MANY
        await call(actor, method, data)

    monkeypatch.setattr(OrchestrationActor, "_call_myself", counted)
    return made


def turns(stage: Stage) -> float:
    found = stage.value("holdfast_turn_duration_seconds_count", actor_type=ORCHESTRATION_TYPE)
    assert found
    return found


@on_stage
async def test_what_came_in_time_is_delivered_before_timers_that_fell_due_meanwhile(stage: Stage) -> None:
    await stage.begin("i", "approval")
    await stage.deploy(App())
    await stage.recorded("i", "RaiseEvent", name="approved", data="yes")
    await asyncio.sleep(100)
    await stage.deploy()
    assert (await stage.ask("i", "Status"))["output"] == "yes"


@on_stage
async def test_timers_that_fell_due_fire_when_nothing_came(stage: Stage) -> None:
    await stage.begin("i", "approval")
    await stage.deploy(App())
    await stage.recorded("i", "RaiseEvent", name="refused")
    await asyncio.sleep(100)
    await stage.deploy()
    await asyncio.sleep(1)
    assert (await stage.ask("i", "Status"))["output"] == "too late"


@on_stage
async def test_many_messages_are_delivered_in_few_turns(stage: Stage) -> None:
    await stage.begin("i", "reader", 3 * LETTERS)
    await stage.deploy(App())
    for number in range(3 * LETTERS):
        await stage.recorded("i", "RaiseEvent", name="letters", data=number)
    await stage.deploy(check=False)
    await stage.ask("i", "Check")
    before = turns(stage)
    await asyncio.sleep(5)
    assert (await stage.ask("i", "Status"))["output"] == list(range(3 * LETTERS))
    assert turns(stage) - before <= 6
    assert not [key for key in stage.keys("i") if key.startswith("inbox")]


async def blocked_before_its_execution_began(stage: Stage) -> None:
    """Deploys nothing after a crash between two turns of an instance that continues as new again and again."""
    storage = stage.host.storage
    await stage.begin("i", "one_each", 0)
    for number in range(LETTERS):
        await stage.recorded("i", "RaiseEvent", name="letters", data=number)
    saved: list[dict[str, Any]] = []
    storage.committed = lambda _: saved.append(dict(storage.rows))
    await stage.recorded("i", "RaiseEvent", name="go")
    await stage.host.stop()
    [*_, rows] = [rows for rows in saved if b'"first_step_done":false' in rows[f"{ROWS}i||instance"][0]]
    storage.rows = rows
    await stage.deploy(App())
    assert await stage.status("i") == "BLOCKED"


def test_one_whose_execution_has_yet_to_begin_rests_while_it_is_blocked(calls_to_itself: list[str]) -> None:
    async def body(stage: Stage) -> None:
        await blocked_before_its_execution_began(stage)
        await asyncio.sleep(2 * RETRY_SECONDS)
        assert len(calls_to_itself) < MANY
        await stage.recorded("i", "RaiseEvent", name="letters", data="end")
        await stage.deploy()
        await asyncio.sleep(5)
        assert (await stage.ask("i", "Status"))["output"] == LETTERS

    on_stage(body)()


def test_one_whose_execution_has_yet_to_begin_rests_when_it_is_cancelled(calls_to_itself: list[str]) -> None:
    async def body(stage: Stage) -> None:
        await blocked_before_its_execution_began(stage)
        await stage.recorded("i", "Cancel")
        await asyncio.sleep(2 * RETRY_SECONDS)
        assert await stage.status("i") == "CANCELLED"
        assert len(calls_to_itself) < MANY

    on_stage(body)()


@on_stage
async def test_an_inbox_that_cannot_be_read_once_is_delivered_later(stage: Stage) -> None:
    await stage.begin("i", "caller")
    items = await stage.take(2)
    await stage.deploy(App())
    await stage.outcome(items[0], "1")
    await stage.deploy(check=False)
    load = stage.host.storage.load

    async def failing(keys: Sequence[str]) -> Mapping[str, bytes]:
        if any("inbox" in key for key in keys):
            raise Unavailable
        return await load(keys)

    stage.host.storage.load = failing  # type: ignore[method-assign]
    place = {key: items[1][key] for key in ("execution_id", "scheduled_seq", "incarnation")}
    assert (await stage.ask("i", "IsAwaited", **place))["error_code"] == "UNAVAILABLE"
    stage.host.storage.load = load  # type: ignore[method-assign]
    await asyncio.sleep(2 * RETRY_SECONDS)
    assert await stage.status("i") == "RUNNING"
    await stage.outcome(items[1], "2")
    assert (await stage.ask("i", "Status"))["output"] == [1, 2]


def test_a_message_that_the_code_refuses_afterwards_is_logged_without_its_content(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def body(stage: Stage) -> None:
        await stage.begin("i", "counted")
        await stage.deploy(App())
        await stage.recorded("i", "RaiseEvent", name="number", data="a secret")
        await stage.recorded("i", "RaiseEvent", name="number", data=7)
        await stage.deploy()
        assert (await stage.ask("i", "Status"))["output"] == 7
        assert "orchestration i rejects a message that arrived while it was BLOCKED (RaiseEvent)" in caplog.text
        assert "a secret" not in caplog.text

    with caplog.at_level(logging.WARNING):
        on_stage(body)()
