"""An actor is activated by its first call, deactivated when it has been idle, and finds its state again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.conformance.hosts import on_every_host
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.stacks.base import Stack


@on_every_host
async def test_an_idle_actor_is_deactivated_and_activated_again_with_its_state(stack: Stack) -> None:
    async def lives() -> list[str]:
        seen: list[str] = await stack.call("Witness", "any", "lives", "idle")
        return seen

    async def deactivated() -> bool:
        return (await lives())[-1] == "deactivated"

    assert await stack.call("Mortal", "idle", "touch") == 1
    assert await stack.call("Mortal", "idle", "touch") == 2
    assert await lives() == ["activated"]
    await eventually(deactivated)
    assert await lives() == ["activated", "deactivated"]
    assert await stack.call("Mortal", "idle", "touch") == 3
    assert await lives() == ["activated", "deactivated", "activated"]


@on_every_host
async def test_an_actor_in_use_is_not_deactivated(stack: Stack) -> None:
    for _ in range(6):
        await stack.call("Mortal", "busy", "touch")
        await stack.pass_time(stack.idle_timeout / 3)
    assert await stack.call("Witness", "any", "lives", "busy") == ["activated"]


@on_every_host
async def test_an_actor_whose_turn_is_long_is_not_deactivated_in_it(stack: Stack) -> None:
    """daprd 1.18.2 alone would measure from the begin of the turn, break it off, and run it again."""
    await stack.call("Mortal", "asleep", "touch")
    await stack.call("Mortal", "asleep", "sleep", stack.idle_timeout + 1.5)
    assert await stack.call("Mortal", "asleep", "touch") == 2
    assert await stack.call("Witness", "any", "lives", "asleep") == ["activated"]


@on_every_host
async def test_state_survives_the_process(stack: Stack) -> None:
    await stack.call("Counter", "survivor", "Add", 41)
    await stack.call("Keeper", "survivor", "put", {"value": {"kept": True}})
    await stack.kill_app()
    await stack.start_app()
    assert await stack.call("Counter", "survivor", "Add", 1) == 42
    assert await stack.call("Keeper", "survivor", "get", "value") == [{"kept": True}]
