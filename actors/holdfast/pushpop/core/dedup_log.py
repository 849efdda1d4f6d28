"""A log of recent dedup ids and the value of each.

The log is stored in chunks, so remembering an id rewrites only the last chunk. All ids are also held in memory while
the queue is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.runtime.reads import Reads

CHUNK = 100


class DedupLog:
    """Remembers ids for a window of time. ``prefix`` starts the keys of its state values."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self._known: dict[str, tuple[Any, float]] = {}
        #: For each chunk, when its last entry was added.
        self._ends: dict[int, float] = {}
        self._tail: list[list[Any]] = []
        self._next = 0
        self._changed: dict[str, Any] = {}

    def get(self, dedup_id: str, now: float, window: float) -> Any:
        """Returns the value of the id, or None if it was not seen within the window."""
        found = self._known.get(dedup_id)
        return None if found is None or found[1] + window <= now else found[0]

    def remember(self, dedup_id: str, value: Any, now: float) -> None:
        if not self._tail or len(self._tail) >= CHUNK:
            self._tail = []
            self._next += 1
        number = self._next - 1
        self._tail.append([dedup_id, value, now])
        # Moved to the end, so that the dictionary stays ordered by time. An older entry has left the window.
        self._known.pop(dedup_id, None)
        self._known[dedup_id] = (value, now)
        self._ends[number] = max(now, self._ends.get(number, now))
        self._changed[self._key(number)] = self._tail

    def forget(self, now: float, window: float) -> None:
        """Drops the chunks and ids that are entirely outside the window."""
        for number, end in list(self._ends.items()):
            if end + window > now:
                break
            del self._ends[number]
            self._changed[self._key(number)] = None
            if number == self._next - 1:
                self._tail = []
        while self._known:
            dedup_id, (_, at) = next(iter(self._known.items()))
            if at + window > now:
                break
            del self._known[dedup_id]

    def erase(self) -> None:
        """Drops all ids."""
        self._changed |= dict.fromkeys(self._key(number) for number in self._ends)
        self._known.clear()
        self._ends.clear()
        self._tail = []
        self._next = 0

    def next_end(self, window: float) -> float | None:
        """Returns when the next chunk can be dropped."""
        return next(iter(self._ends.values())) + window if self._ends else None

    def changes(self) -> dict[str, Any]:
        changed, self._changed = self._changed, {}
        return changed

    def to_json(self) -> list[int] | None:
        """Returns the range of chunks: the first number, and the last plus one."""
        return [next(iter(self._ends), self._next), self._next] if self._next else None

    @classmethod
    def restore(cls, prefix: str, value: list[int] | None) -> Reads[DedupLog]:
        dedup = cls(prefix)
        if value is None:
            return dedup
        first, dedup._next = value
        numbers = range(first, dedup._next)
        if not numbers:
            return dedup
        chunks = yield tuple(dedup._key(number) for number in numbers)
        for number, chunk in zip(numbers, chunks, strict=True):
            for dedup_id, meant, at in chunk or ():
                dedup._known.pop(dedup_id, None)
                dedup._known[dedup_id] = (meant, at)
                dedup._ends[number] = max(at, dedup._ends.get(number, at))
        dedup._tail = list(chunks[-1] or ())
        return dedup

    def _key(self, number: int) -> str:
        return f"{self.prefix}-{number}"
