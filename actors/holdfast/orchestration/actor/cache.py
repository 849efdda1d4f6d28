"""Keeps the most recently used instances in memory between their turns, and evicts the others.

An evicted instance releases its state and its code; both are restored from the store when needed. The memory of a
process therefore depends on its activity, not on the number of waiting instances.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, Protocol

if TYPE_CHECKING:
    from holdfast.runtime.contract import HostClient

MAX_CACHED_INSTANCES = 2000
# How many of the least recently used instances are considered for eviction at each use.
_CONSIDERED = 4


class Evictable(Protocol):
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
