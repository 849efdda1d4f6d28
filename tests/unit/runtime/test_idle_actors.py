"""The idle actors that an in-process host keeps in memory."""

from __future__ import annotations

import asyncio
import gc
import json
import weakref
from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar

from dapr.actor import ActorInterface, actormethod

from holdfast.runtime.simulated import SimulatedHost, VirtualTimeLoop
from holdfast.runtime.unit_of_work import DurableActor

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

MAX_IDLE = 10


class IdlerInterface(ActorInterface):
    @actormethod(name="Add")
    async def add(self) -> int: ...

    @actormethod(name="Tick")
    async def tick(self, seconds: float) -> None: ...


class Idler(DurableActor, IdlerInterface):
    seen: ClassVar[weakref.WeakSet[Idler]] = weakref.WeakSet()
    ticked: ClassVar[list[str]] = []
    working = False

    @classmethod
    def of(cls, actor_id: str) -> Idler:
        return next(actor for actor in cls.seen if actor.id.id == actor_id)

    @property
    def can_leave(self) -> bool:
        return super().can_leave and not self.working

    async def _on_activate(self) -> None:
        self.seen.add(self)

    async def add(self) -> int:
        async with self.work.turn() as turn:
            total: int = (await turn.load("total") or 0) + 1
            turn.put("total", total)
        return total

    async def tick(self, seconds: float) -> None:
        await self.register_timer("t", self.on_tick, None, timedelta(seconds=seconds), timedelta(hours=1))

    async def on_tick(self, state: Any) -> None:
        self.ticked.append(self.id.id)


def on_a_host(body: Callable[[SimulatedHost], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    async def run() -> None:
        Idler.seen.clear()
        Idler.ticked.clear()
        host = SimulatedHost(idle_timeout=60.0, max_idle=MAX_IDLE)
        await host.register(Idler)
        await host.start()
        await body(host)
        await host.stop()

    def test() -> None:
        VirtualTimeLoop.run(run())

    return test


async def add(host: SimulatedHost, actor: str) -> int:
    total: int = json.loads(await host.client.invoke_method("Idler", actor, "Add"))
    return total


async def active(host: SimulatedHost) -> int:
    return (await host.active_counts())["Idler"]


@on_a_host
async def test_no_more_than_the_limit_stay_in_memory_and_none_is_forgotten(host: SimulatedHost) -> None:
    for number in range(5 * MAX_IDLE):
        assert await add(host, f"a{number}") == 1
    await asyncio.sleep(1)
    assert await active(host) == MAX_IDLE
    for number in range(5 * MAX_IDLE):
        assert await add(host, f"a{number}") == 2


@on_a_host
async def test_those_used_last_stay(host: SimulatedHost) -> None:
    for number in range(5 * MAX_IDLE):
        await add(host, "often")
        await add(host, f"a{number}")
    await asyncio.sleep(1)
    assert "often" in {actor.id.id for actor in Idler.seen}


@on_a_host
async def test_an_actor_that_waits_for_its_timer_is_not_sent_away_early(host: SimulatedHost) -> None:
    await host.client.invoke_method("Idler", "timed", "Tick", b"30")
    for number in range(5 * MAX_IDLE):
        await add(host, f"a{number}")
    await asyncio.sleep(31)
    assert Idler.ticked == ["timed"]


@on_a_host
async def test_an_actor_that_still_works_is_not_sent_away_early(host: SimulatedHost) -> None:
    for number in range(MAX_IDLE):
        await add(host, f"busy{number}")
        Idler.of(f"busy{number}").working = True
    for number in range(5 * MAX_IDLE):
        await add(host, f"a{number}")
    await asyncio.sleep(1)
    # One more is kept, until it is found that it could go.
    assert MAX_IDLE <= await active(host) <= MAX_IDLE + 1
    for number in range(MAX_IDLE):
        Idler.of(f"busy{number}").working = False
    for number in range(2 * MAX_IDLE):
        await add(host, f"a{number}")
    await asyncio.sleep(1)
    assert {actor.id.id for actor in Idler.seen} == {f"a{number}" for number in range(MAX_IDLE, 2 * MAX_IDLE)}


@on_a_host
async def test_the_half_that_was_not_used_for_longest_can_be_released(host: SimulatedHost) -> None:
    await host.client.invoke_method("Idler", "a0", "Tick", b"30")
    for number in range(1, MAX_IDLE):
        await add(host, f"a{number}")
    Idler.of("a1").working = True
    assert await host.release_idle() == MAX_IDLE // 2 - 2
    assert {actor.id.id for actor in Idler.seen} == {"a0", "a1", *(f"a{n}" for n in range(MAX_IDLE // 2, MAX_IDLE))}
    assert await add(host, "a2") == 2


@on_a_host
async def test_many_that_go_idle_together_all_leave(host: SimulatedHost) -> None:
    for number in range(MAX_IDLE):
        await add(host, f"a{number}")
    await asyncio.sleep(61)
    assert await active(host) == 0


@on_a_host
async def test_an_actor_that_left_needs_no_garbage_collector_to_be_gone(host: SimulatedHost) -> None:
    gc.disable()
    try:
        await add(host, "gone")
        assert len(Idler.seen) == 1
        await asyncio.sleep(61)
        assert len(Idler.seen) == 0
    finally:
        gc.enable()
