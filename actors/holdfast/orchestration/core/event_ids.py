"""Deduplication of raised events: the last event ids of all executions of an instance.

Ids are kept as short digests, because they may be long. The ids of the current execution are in its history; the ids
of earlier executions are stored in a few state values, used as a ring.
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.runtime.reads import Reads

#: How many of the last ids are remembered.
MAX_EVENT_IDS = 1000
# Ids in one state value, and the number of values: one more than needed, because one of them is being filled.
_IN_VALUE = 250
_VALUES = MAX_EVENT_IDS // _IN_VALUE + 1


class EventIds:
    """The event ids that an instance in memory remembers, oldest first."""

    def __init__(self, digests: list[str] | None = None) -> None:
        self._digests: dict[str, None] = dict.fromkeys(digests or ())
        #: The digests of the current execution.
        self._new: list[str] = []

    def __contains__(self, event_id: str) -> bool:
        return digest(event_id) in self._digests

    def add(self, event_id: str) -> None:
        known = digest(event_id)
        self._digests[known] = None
        self._new.append(known)
        if len(self._digests) > MAX_EVENT_IDS:
            del self._digests[next(iter(self._digests))]

    def take_new(self) -> list[str]:
        """Returns, once, the digests of the execution that has ended, whose history is kept for a limited time."""
        new, self._new = self._new, []
        return new


class StoredEventIds:
    """The stored digests of earlier executions."""

    def __init__(self, count: int = 0) -> None:
        #: The number of digests added so far; only the last ones are kept.
        self.count = count
        #: The value that is being filled; loaded by :meth:`read`.
        self._filling: list[str] = []
        self._changed: dict[str, Any] = {}

    def add(self, digests: list[str]) -> None:
        """Adds digests. :meth:`read` must have been called before."""
        for known in digests:
            if self.count % _IN_VALUE == 0:
                self._filling = []
            self._filling.append(known)
            self._changed[self._slot(self.count)] = self._filling
            self.count += 1

    def read(self) -> Reads[list[str]]:
        """Reads the last digests, oldest first."""
        if not self.count:
            return []
        newest = (self.count - 1) // _IN_VALUE
        slots = [self._slot(_IN_VALUE * number) for number in range(max(0, newest - _VALUES + 1), newest + 1)]
        unchanged = tuple(slot for slot in slots if slot not in self._changed)
        known: dict[str, Any] = dict(zip(unchanged, (yield unchanged), strict=True)) | self._changed
        self._filling = known[slots[-1]] = list(known[slots[-1]] or ())
        return [found for slot in slots for found in known[slot] or ()][-MAX_EVENT_IDS:]

    def changes(self) -> dict[str, Any]:
        changed, self._changed = self._changed, {}
        return changed

    def keys(self) -> list[str]:
        """Returns the keys of the stored values."""
        return [self._slot(_IN_VALUE * number) for number in range(min(_VALUES, -(-self.count // _IN_VALUE)))]

    @staticmethod
    def _slot(count: int) -> str:
        return f"event-ids-{count // _IN_VALUE % _VALUES}"


def digest(event_id: str) -> str:
    return b64encode(blake2b(event_id.encode(), digest_size=12).digest()).decode()
