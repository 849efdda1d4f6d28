"""Keeps the most recently used instances in memory between their turns, and evicts the others.

An evicted instance releases its state and its code; both are restored from the store when needed. The memory of a
process therefore depends on its activity, not on the number of waiting instances.
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections import OrderedDict
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, Protocol

from holdfast.kinds import ORCHESTRATION_TYPE
from holdfast.logs import counted
from holdfast.runtime.batching import CallBatcher

if TYPE_CHECKING:
    from holdfast.runtime.contract import HostClient

log = logging.getLogger(__name__)

MAX_CACHED_INSTANCES = 2000
# How many of the least recently used instances are considered for eviction at each use.
_CONSIDERED = 4


class Evictable(Protocol):
    @property
    def address(self) -> str: ...

    def has_unsaved_arrivals(self) -> bool:
        """Returns whether effects have arrived without this being saved."""
        ...

    def evict(self) -> bool:
        """Releases its memory. Returns False when it has unsaved state or is busy."""
        ...


class InstanceCache:
    """The least-recently-used cache of the instances of one process."""

    _of: ClassVar[weakref.WeakKeyDictionary[HostClient, InstanceCache]] = weakref.WeakKeyDictionary()

    def __init__(self, most: int = MAX_CACHED_INSTANCES) -> None:
        self._most = most
        # Weak references: the cache must not keep a deactivated actor alive.
        self._cached: OrderedDict[weakref.ref[Evictable], None] = OrderedDict()

    @classmethod
    def of(cls, client: HostClient) -> InstanceCache:
        known = cls._of.get(client)
        if known is None:
            known = cls._of[client] = cls()
        return known

    def used(self, instance: Evictable) -> None:
        mark = weakref.ref(instance)
        self._cached[mark] = None
        self._cached.move_to_end(mark)
        for oldest in list(islice(self._cached, max(0, min(_CONSIDERED, len(self._cached) - self._most)))):
            cached = oldest()
            if cached is None or cached.evict():
                del self._cached[oldest]
            else:
                # Move it to the end, so that others are considered next.
                self._cached.move_to_end(oldest)

    def left(self, instance: Evictable) -> None:
        self._cached.pop(weakref.ref(instance), None)

    def with_unsaved_arrivals(self) -> list[str]:
        """Returns the actor ids of the instances of which some effects have arrived without this being saved."""
        instances = (mark() for mark in self._cached)
        return [found.address for found in instances if found is not None and found.has_unsaved_arrivals()]


async def save_arrivals(client: HostClient, seconds: float) -> None:
    """Makes the instances in memory save which effects have arrived, within ``seconds``.

    For a graceful shutdown: the next process would send the effects in their outboxes again.
    """
    unsaved = InstanceCache.of(client).with_unsaved_arrivals()
    if not unsaved:
        return
    instances = CallBatcher.of(client, ORCHESTRATION_TYPE)
    calls = [asyncio.ensure_future(instances.call(address, "Rescue")) for address in unsaved]
    _, late = await asyncio.wait(calls, timeout=seconds)
    for call in late:
        call.cancel()
    results = await asyncio.gather(*calls, return_exceptions=True)
    if failed := sum(isinstance(result, BaseException) for result in results):
        log.warning(
            "%s did not save at the shutdown which effects have arrived; some activities may run twice",
            counted(failed, "instance"),
        )
