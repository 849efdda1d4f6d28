"""The awaited calls, events and timers in the status of an instance."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from holdfast import App, Context
from holdfast.orchestration.core.waiting import MAX_WAITING
from tests.support.simulated import on_simulated_host
from tests.unit.orchestration.redeployment import Stage


def an_app() -> App:
    app = App()

    @app.orchestration
    async def child(ctx: Context) -> None:
        await ctx.event("never")

    @app.orchestration(mailboxes=["letters"])
    async def everything(ctx: Context) -> None:
        async with asyncio.timeout(3600):
            await asyncio.gather(
                ctx.call("work"), ctx.event("approved"), ctx.receive("letters"), ctx.sub(child), asyncio.sleep(60)
            )

    @app.orchestration(mailboxes=["letters"])
    async def in_turn(ctx: Context) -> str:
        await ctx.event("first")
        await ctx.receive("letters")
        try:
            async with asyncio.timeout(5):
                await ctx.call("work")
        except TimeoutError:
            pass
        await ctx.event("last")
        return "ended"

    @app.orchestration
    async def wide(ctx: Context) -> None:
        await asyncio.gather(*(ctx.call("work", number) for number in range(3 * MAX_WAITING)))

    return app


on_stage = on_simulated_host(partial(Stage, an_app))


async def waiting_for(stage: Stage) -> list[dict[str, Any]]:
    shown: list[dict[str, Any]] = (await stage.ask("i", "Status"))["waiting_for"]
    return shown


async def in_short(stage: Stage) -> list[tuple[str, str | None]]:
    return [(one["kind"], one["name"]) for one in await waiting_for(stage)]


@on_stage
async def test_each_kind_is_shown_with_its_event_and_its_times(stage: Stage) -> None:
    await stage.begin("i", "everything")
    events = (await stage.ask("i", "History"))["events"]
    shown = {(one["kind"], one["name"]): one for one in await waiting_for(stage)}
    timers = [one for one in await waiting_for(stage) if one["kind"] == "timer"]
    assert set(shown) == {
        *(("activity", "work"), ("event", "approved"), ("mailbox", "letters"), ("sub", "child"), ("timer", None))
    }
    assert shown["mailbox", "letters"]["scheduled_seq"] is None
    for (kind, name), one in shown.items():
        assert one["since"] == events[0]["timestamp"]
        if kind not in ("mailbox", "timer"):
            assert events[one["scheduled_seq"] - 1]["name"] == name
            assert "due_at" not in one
    assert {(one["scheduled_seq"], one["due_at"]) for one in timers} == {
        (event["seq"], event["fire_at"]) for event in events if event["type"] == "TimerCreated"
    }


@on_stage
async def test_it_changes_with_each_step_and_is_empty_at_the_end(stage: Stage) -> None:
    await stage.begin("i", "in_turn")
    assert await in_short(stage) == [("event", "first")]
    await stage.ask("i", "RaiseEvent", name="first")
    assert await in_short(stage) == [("mailbox", "letters")]
    await stage.ask("i", "RaiseEvent", name="letters")
    assert await in_short(stage) == [("timer", None), ("activity", "work")]
    await asyncio.sleep(10)
    # Withdrawn, although it has no result yet.
    assert await in_short(stage) == [("event", "last")]
    await stage.ask("i", "RaiseEvent", name="last")
    assert await in_short(stage) == []


@on_stage
async def test_it_is_known_without_the_code(stage: Stage) -> None:
    await stage.begin("i", "everything")
    before = await waiting_for(stage)
    replays = stage.value("holdfast_replays_total", orchestration="everything")
    await stage.deploy(App(), check=False)
    assert await waiting_for(stage) == before
    assert stage.value("holdfast_replays_total", orchestration="everything") == replays
    await stage.deploy(App())
    assert await stage.status("i") == "BLOCKED"
    assert await waiting_for(stage) == before


@on_stage
async def test_it_is_bounded(stage: Stage) -> None:
    await stage.begin("i", "wide")
    shown = await waiting_for(stage)
    assert [one["scheduled_seq"] for one in shown] == list(range(2, MAX_WAITING + 2))
