"""The idle actors that a Dapr host keeps in memory."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

from holdfast.runtime.contract import ActorAddress
from holdfast.runtime.dapr.activations import Activations
from holdfast.runtime.simulated import VirtualTimeLoop

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from dapr.actor import ActorId
    from dapr.actor.runtime.manager import ActorManager

MAX_IDLE = 10


class Idle:
    can_leave = True


class Manager:
    """The part of the SDK's manager that is used."""

    def __init__(self) -> None:
        self._active_actors: dict[str, Idle] = {}

    @property
    def active(self) -> list[str]:
        return list(self._active_actors)

    async def deactivate_actor(self, actor_id: ActorId) -> None:
        del self._active_actors[actor_id.id]


class Used:
    """Activations, and the actors they are about."""

    def __init__(self) -> None:
        self.manager = Manager()
        managers = cast("dict[str, ActorManager]", {"Idler": self.manager})
        self.activations = Activations(managers, idle_timeout=60.0, max_idle=MAX_IDLE)

    async def call(self, actor_id: str) -> Idle:
        address = ActorAddress("Idler", actor_id)
        await self.activations.acquire(address)
        actor = self.manager._active_actors.setdefault(actor_id, Idle())
        self.activations.released(address)
        await asyncio.sleep(0.001)
        return actor


def with_actors(body: Callable[[Used], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    async def run() -> None:
        used = Used()
        await body(used)
        await used.activations.end()

    def test() -> None:
        VirtualTimeLoop.run(run())

    return test


@with_actors
async def test_no_more_than_the_limit_stay_in_memory(used: Used) -> None:
    for number in range(5 * MAX_IDLE):
        await used.call(f"a{number}")
    await asyncio.sleep(1)
    assert used.manager.active == [f"a{number}" for number in range(4 * MAX_IDLE, 5 * MAX_IDLE)]
    await asyncio.sleep(60)
    assert used.manager.active == []


@with_actors
async def test_actors_that_work_or_have_timers_are_not_deactivated_early(used: Used) -> None:
    for number in range(MAX_IDLE - 1):
        (await used.call(f"busy{number}")).can_leave = False
    await used.call("timed")
    used.activations.activation_id(ActorAddress("Idler", "timed"))
    for number in range(5 * MAX_IDLE):
        await used.call(f"a{number}")
    await asyncio.sleep(1)
    assert sorted(used.manager.active) == [*(f"busy{number}" for number in range(MAX_IDLE - 1)), "timed"]


@with_actors
async def test_the_half_that_was_not_used_for_longest_can_be_released(used: Used) -> None:
    (await used.call("a0")).can_leave = False
    for number in range(1, MAX_IDLE):
        await used.call(f"a{number}")
    assert await used.activations.release_idle() == MAX_IDLE // 2 - 1
    assert used.manager.active == ["a0", *(f"a{number}" for number in range(MAX_IDLE // 2, MAX_IDLE))]
