"""Keeps the most recently used instances in memory between their turns, and evicts the others.

An evicted instance releases its state and its code; both are restored from the store when needed. The memory of a
process therefore depends on its activity, not on the number of waiting instances, nor on the size of their inputs and
mail.
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
#: The most bytes of inputs and unread mail of the instances in memory. As objects they take about as much again.
MAX_CACHED_BYTES = 64 * 1024 * 1024
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

    def __init__(self, most: int = MAX_CACHED_INSTANCES, most_bytes: int = MAX_CACHED_BYTES) -> None:
        self._most = most
        self._most_bytes = most_bytes
        # Weak references: the cache must not keep a deactivated actor alive.
        self._sizes: OrderedDict[weakref.ref[Evictable], int] = OrderedDict()
        self._bytes = 0

    @classmethod
    def of(cls, client: HostClient) -> InstanceCache:
        known = cls._of.get(client)
        if known is None:
            known = cls._of[client] = cls()
        return known

    def used(self, instance: Evictable, size: int = 0) -> None:
        """Notes that an instance was used, and the bytes of its input and its unread mail."""
        mark = weakref.ref(instance)
        self._drop(mark)
        self._sizes[mark] = size
        self._bytes += size
        if not self._is_full():
            return
        for oldest in list(islice(self._sizes, _CONSIDERED)):
            if oldest is mark or not self._is_full():
                return
            cached = oldest()
            if cached is None or cached.evict():
                self._drop(oldest)
            else:
                # Move it to the end, so that others are considered next.
                self._sizes.move_to_end(oldest)

    def left(self, instance: Evictable) -> None:
        self._drop(weakref.ref(instance))

    def with_unsaved_arrivals(self) -> list[str]:
        """Returns the actor ids of the instances of which some effects have arrived without this being saved."""
        instances = (mark() for mark in self._sizes)
        return [found.address for found in instances if found is not None and found.has_unsaved_arrivals()]

    def _is_full(self) -> bool:
        return len(self._sizes) > self._most or self._bytes > self._most_bytes

    def _drop(self, mark: weakref.ref[Evictable]) -> None:
        self._bytes -= self._sizes.pop(mark, 0)


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
