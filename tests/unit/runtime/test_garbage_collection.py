"""When garbage is collected, so that no collection holds the event loop for long."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from holdfast.runtime.garbage_collection import LONGEST_SECONDS, GarbageCollection
from holdfast.runtime.simulated import VirtualTimeLoop

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

IMPORTED = 100_000
#: What one object takes, so that the limit is reached with 500,000 of them.
SECONDS_PER_OBJECT = LONGEST_SECONDS / 500_000


class Process:
    """A process with so many objects, some of which are garbage and some of which belong to idle actors."""

    def __init__(self, *, idle: int = 0) -> None:
        self.alive = IMPORTED
        self.exempted = 0
        self.garbage = 0
        self.idle = idle
        self.young: list[str] = []
        #: What each full collection took.
        self.full: list[float] = []

    def collect_young(self) -> None:
        self.young.append("young")

    def collect_middle(self) -> None:
        self.young.append("middle")

    def collect(self) -> float:
        self.full.append(self.objects() * SECONDS_PER_OBJECT)
        self.garbage = 0
        return self.full[-1]

    def objects(self) -> int:
        return self.alive - self.exempted + self.garbage + self.idle

    def exempt(self) -> None:
        self.exempted = self.alive + self.idle

    async def release_idle(self) -> int:
        released = (self.idle + 1) // 2
        self.idle -= released
        return released


def in_a_process(body: Callable[[Process], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    async def run() -> None:
        process = Process()
        collection = asyncio.create_task(GarbageCollection(process.release_idle, process).run())
        await asyncio.sleep(1)
        assert process.full == [IMPORTED * SECONDS_PER_OBJECT]
        process.full.clear()
        await body(process)
        assert max(process.full, default=0.0) <= LONGEST_SECONDS
        collection.cancel()

    def test() -> None:
        VirtualTimeLoop.run(run())

    return test


@in_a_process
async def test_what_was_imported_is_scanned_once(process: Process) -> None:
    process.garbage = 1000
    await asyncio.sleep(60)
    assert process.full == [1000 * SECONDS_PER_OBJECT]


@in_a_process
async def test_young_objects_are_collected_though_as_many_are_freed_as_are_made(process: Process) -> None:
    process.young.clear()
    await asyncio.sleep(2)
    assert sorted(process.young) == ["middle"] * 4 + ["young"] * 4


@in_a_process
async def test_garbage_is_collected_when_it_has_become_a_fifth_of_all(process: Process) -> None:
    process.alive += 200_000
    await asyncio.sleep(30)
    assert len(process.full) == 1
    process.garbage = 40_000
    await asyncio.sleep(30)
    assert len(process.full) == 1
    process.garbage = 60_000
    await asyncio.sleep(30)
    assert (len(process.full), process.garbage) == (2, 0)


@in_a_process
async def test_idle_actors_are_released_until_a_collection_is_short(process: Process) -> None:
    process.idle = 4_000_000
    process.garbage = 100_000
    await asyncio.sleep(30)
    assert (process.idle, process.garbage, process.exempted) == (250_000, 0, IMPORTED)


@in_a_process
async def test_actors_are_not_released_all_the_time(process: Process) -> None:
    process.idle = 4_000_000
    await asyncio.sleep(15)
    process.idle = 4_000_000
    await asyncio.sleep(45)
    assert process.idle == 4_000_000
    await asyncio.sleep(60)
    assert process.idle < 4_000_000


@in_a_process
async def test_what_is_in_use_is_not_scanned_when_that_would_take_too_long(process: Process) -> None:
    process.alive += 3_000_000
    await asyncio.sleep(30)
    assert (process.full, process.objects()) == ([], 0)
    # What comes then is looked at again, but for what was there.
    process.garbage = 1000
    await asyncio.sleep(90)
    assert (process.full, process.garbage) == ([1000 * SECONDS_PER_OBJECT], 0)
