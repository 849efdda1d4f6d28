"""Timers are in memory only: they fire, are replaced and cancelled, and die with the activation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.conformance.hosts import on_every_host
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.stacks.base import Stack


async def start(stack: Stack, actor: str, due: float, **timer: Any) -> None:
    await stack.call("Timed", actor, "start", {"name": "main", "due": due, **timer})


async def ticks(stack: Stack, actor: str, at_least: int = 1) -> list[Any]:
    async def enough() -> list[Any]:
        seen: list[Any] = await stack.call("Timed", actor, "ticks")
        return seen if len(seen) >= at_least else []

    return await eventually(enough)


async def after(stack: Stack, actor: str, due: float) -> list[Any]:
    """Waits until a marker timer of the same actor has ticked, and returns the other ticks."""
    await stack.call("Timed", actor, "start", {"name": "marker", "due": due, "data": "marker"})

    async def marked() -> list[Any]:
        seen: list[Any] = await stack.call("Timed", actor, "ticks")
        return seen if "marker" in seen else []

    return [tick for tick in await eventually(marked) if tick != "marker"]


@on_every_host
async def test_a_timer_fires_once_with_its_data(stack: Stack) -> None:
    data = {"text": "2024-01-01", "span": "5s", "nested": [None, 1.5, {"": True}]}
    await start(stack, "once", 0.5, data=data)
    assert await after(stack, "once", due=1.5) == [data]


@on_every_host
async def test_a_timer_due_while_the_turn_that_started_it_still_runs_fires_after_it(stack: Stack) -> None:
    await start(stack, "at-once", 0, data="tick", stay=0.5)
    assert await ticks(stack, "at-once") == ["tick"]


@on_every_host
async def test_a_timer_fires_again_and_again_until_it_is_cancelled(stack: Stack) -> None:
    await start(stack, "periodic", 0.2, period=0.3, data="tick")
    await ticks(stack, "periodic", at_least=3)
    await stack.call("Timed", "periodic", "stop", "main")
    count = len(await stack.call("Timed", "periodic", "ticks"))
    assert len(await after(stack, "periodic", due=1.2)) == count


@on_every_host
async def test_a_timer_started_again_replaces_the_first(stack: Stack) -> None:
    await start(stack, "replaced", 0.5, data="first")
    await start(stack, "replaced", 1, data="second")
    assert await after(stack, "replaced", due=1.5) == ["second"]


@on_every_host
async def test_a_cancelled_timer_does_not_fire(stack: Stack) -> None:
    await start(stack, "cancelled", 0.5)
    await stack.call("Timed", "cancelled", "stop", "main")
    assert await after(stack, "cancelled", due=1) == []
    await stack.call("Timed", "cancelled", "stop", "never started")


@on_every_host
async def test_timers_die_with_an_idle_actor(stack: Stack) -> None:
    await start(stack, "idle", stack.idle_timeout + 3, data="too late")
    await stack.pass_time(stack.idle_timeout + 4)
    assert await after(stack, "idle", due=1) == []


@on_every_host
async def test_timers_die_with_the_process(stack: Stack) -> None:
    await start(stack, "killed", 0.3, period=0.3, data="tick")
    await ticks(stack, "killed")
    await stack.kill_app()
    await stack.start_app()
    count = len(await stack.call("Timed", "killed", "ticks"))
    assert len(await after(stack, "killed", due=1.5)) == count
