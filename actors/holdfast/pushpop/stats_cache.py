"""Caches the statistics of queues for listings: valid until a turn of this process changes the queue."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from holdfast.runtime.contract import HostClient

# Bounds memory; an evicted queue is read again.
MOST_QUEUES = 4096

Answer = dict[str, Any]


class Figures:
    """Statistics of queues whose actors may be in this process. A turn that changes a queue invalidates them."""

    _of: ClassVar[weakref.WeakKeyDictionary[HostClient, Figures]] = weakref.WeakKeyDictionary()

    def __init__(self) -> None:
        # While a queue is being read, its entry is a marker.
        self._kept: OrderedDict[str, Answer | Asking] = OrderedDict()

    @classmethod
    def of(cls, client: HostClient) -> Figures:
        """Returns the cache that this process shares for a client."""
        if client not in cls._of:
            cls._of[client] = cls()
        return cls._of[client]

    def touch(self, queue: str) -> None:
        """Invalidates a queue's statistics. Hot path: called for every push."""
        if queue in self._kept:
            del self._kept[queue]

    def get(self, queue: str) -> Answer | None:
        kept = self._kept.get(queue)
        return kept if isinstance(kept, dict) else None

    def asking(self, queue: str) -> Asking:
        """Marks the start of reading a queue's partitions."""
        mark = self._kept[queue] = Asking()
        self._kept.move_to_end(queue)
        if len(self._kept) > MOST_QUEUES:
            self._kept.popitem(last=False)
        return mark

    def keep(self, queue: str, asking: Asking, figures: Answer) -> None:
        """Stores the statistics, unless the queue has changed since ``asking`` was made."""
        if self._kept.get(queue) is asking:
            self._kept[queue] = figures


class Asking:
    """Marks one read of a queue's statistics."""
