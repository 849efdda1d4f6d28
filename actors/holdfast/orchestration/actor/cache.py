"""Keeps the most recently used instances in memory between their turns, and evicts the others.

An evicted instance releases its state and its code; both are restored from the store when needed. The memory of a
process therefore depends on its activity, not on the number of waiting instances, nor on the size of their inputs.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, Protocol

if TYPE_CHECKING:
    from holdfast.runtime.contract import HostClient

MAX_CACHED_INSTANCES = 2000
#: The most bytes of inputs of the instances in memory. As objects they take about as much again.
MAX_CACHED_BYTES = 64 * 1024 * 1024
# How many of the least recently used instances are considered for eviction at each use.
_CONSIDERED = 4


class Evictable(Protocol):
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
        """Notes that an instance was used, and how large its input is."""
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

    def _is_full(self) -> bool:
        return len(self._sizes) > self._most or self._bytes > self._most_bytes

    def _drop(self, mark: weakref.ref[Evictable]) -> None:
        self._bytes -= self._sizes.pop(mark, 0)
