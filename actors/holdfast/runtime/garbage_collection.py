"""Garbage collections that do not hold the event loop for long.

Most objects of a server are freed by reference counting. Python's cyclic garbage collector finds the others. Two things
make it hold the event loop (CPython 3.11 to 3.13), so most collections are started here:

- A full collection scans all objects in one step, whatever their number.
- A young collection is due when enough objects were allocated *more than freed*. Where new actors take the place of old
  ones, both numbers are equal, so the young generation grows until it has all of them.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import time
from typing import TYPE_CHECKING, Protocol

from holdfast.logs import counted

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

log = logging.getLogger(__name__)

#: The longest expected duration of a full collection. Half of what a request may hold the event loop, because the
#: estimate is not exact.
LONGEST_SECONDS = 0.05

# Allocations before a young collection, and young collections before a middle one. Python's default of 700 allocations
# took a tenth of all CPU time.
_YOUNG, _MIDDLE = 3_000, 10
_NEVER = 2**31 - 1
# The pause between collections of the young and of the middle generation. An actor has about 50 objects, so a pause of
# a second would let them grow to 50,000 and more.
_PAUSE_SECONDS = 0.25
# The pause before the next full collection is considered, and the pause when the last one would have taken too long:
# actors that were released are activated again if they are in use, which should not happen all the time.
_FULL_SECONDS = 10.0
_LONG_FULL_SECONDS = 60.0
# A full collection is worth its time when the objects have grown by this share since the last one.
_WORTHWHILE = 0.25
# Fixed costs distort the measured duration of smaller collections.
_LEAST_MEASURED = 50_000


def is_incremental() -> bool:
    """Returns whether this Python collects garbage in short steps by itself."""
    return sys.version_info >= (3, 14)


class Collector(Protocol):
    """The garbage collector of the process."""

    def collect_young(self) -> None:
        """Collects the young generation."""
        ...

    def collect_middle(self) -> None:
        """Collects the young and the middle generation."""
        ...

    def collect(self) -> float:
        """Runs a full collection, and returns its CPU time in seconds."""
        ...

    def objects(self) -> int:
        """Returns the number of objects that a full collection scans."""
        ...

    def exempt(self) -> None:
        """Exempts all current objects from future collections."""
        ...


class GarbageCollection:
    """Runs full garbage collections while they are short.

    If one would take longer, idle actors are released first: ``release_idle`` deactivates half of them and returns how
    many it deactivated. If that does not help, the memory is in use. Its objects are then exempted from later
    collections. They are still freed by reference counting, except for those in reference cycles.
    """

    def __init__(self, release_idle: Callable[[], Awaitable[int]], collector: Collector) -> None:
        self._release_idle = release_idle
        self._collector = collector
        self._survivors = 0
        self._seconds_per_object = 0.0

    async def run(self) -> None:
        """Exempts the imported modules, then collects garbage until it is cancelled."""
        self._collect(self._collector.objects())
        self._exempt()
        clock = asyncio.get_running_loop().time
        full_at = clock() + _FULL_SECONDS
        while True:
            await asyncio.sleep(_PAUSE_SECONDS)
            self._collector.collect_young()
            await asyncio.sleep(_PAUSE_SECONDS)
            self._collector.collect_middle()
            if clock() >= full_at:
                full_at = clock() + await self.consider()

    async def consider(self) -> float:
        """Runs a full collection if it is worthwhile. Returns the seconds until the next one should be considered."""
        objects = self._collector.objects()
        if objects - self._survivors <= self._survivors * _WORTHWHILE:
            return _FULL_SECONDS
        if not self._is_long(objects):
            self._collect(objects)
            return _FULL_SECONDS
        while self._is_long(objects) and (released := await self._release_idle()):
            log.debug("released %s from memory before a garbage collection", counted(released, "idle actor"))
            objects = self._collector.objects()
        if self._is_long(objects):
            log.info("%s are in use: exempt from further garbage collections", counted(objects, "object"))
            self._exempt()
        else:
            self._collect(objects)
        return _LONG_FULL_SECONDS

    def _exempt(self) -> None:
        self._collector.exempt()
        self._survivors = 0

    def _is_long(self, objects: int) -> bool:
        return objects * self._seconds_per_object > LONGEST_SECONDS

    def _collect(self, objects: int) -> None:
        measured = self._collector.collect() / max(objects, _LEAST_MEASURED)
        # Falls slowly: on a busy machine, measurements vary.
        self._seconds_per_object = max(measured, 0.8 * self._seconds_per_object)
        self._survivors = self._collector.objects()


class PythonCollector:
    """The garbage collector of CPython 3.11 to 3.13, with automatic full collections off."""

    def __init__(self) -> None:
        gc.set_threshold(_YOUNG, _MIDDLE, _NEVER)

    def collect_young(self) -> None:
        gc.collect(0)

    def collect_middle(self) -> None:
        gc.collect(1)

    def collect(self) -> float:
        began = time.thread_time()
        gc.collect()
        return time.thread_time() - began

    def objects(self) -> int:
        return len(gc.get_objects())

    def exempt(self) -> None:
        gc.freeze()
