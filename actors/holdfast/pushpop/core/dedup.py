"""Deduplication of pushes by dedup id, and in a queue of several partitions, the partition of each id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.errors import Conflict
from holdfast.pushpop.core.dedup_log import DedupLog

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.pushpop.core.items import Pushed
    from holdfast.runtime.reads import Reads

# A claim outlasts its id, because the push comes later, in another partition, by another clock.
CLAIM_LEEWAY = 60.0


class Deduplicator:
    """Finds items that were pushed before. ``window`` is how many seconds an id is remembered; 0 turns this off."""

    def __init__(self, partition: int) -> None:
        self._partition = partition
        self._items = DedupLog("dedup")
        self._claims = DedupLog("claims")

    def select_new(self, items: Sequence[Pushed], now: float, window: float) -> list[int]:
        """Returns the numbers of the items that are new."""
        new = []
        seen: set[str] = set()
        for number, item in enumerate(items):
            if item.dedup_id is not None and window:
                if item.dedup_id in seen or self._items.get(item.dedup_id, now, window) is not None:
                    continue
                if self._claims.get(item.dedup_id, now, window + CLAIM_LEEWAY) not in (None, self._partition):
                    raise Conflict(f"The dedup_id of item {number} belongs to another partition of the queue.")
                seen.add(item.dedup_id)
            new.append(number)
        return new

    def settle(self, items: Sequence[Pushed], ids: list[str], now: float, window: float) -> None:
        """Remembers the ids of new items, and fills in the ids of the duplicates, which are empty."""
        for number, item in enumerate(items):
            if item.dedup_id is not None and window:
                if ids[number]:
                    self._items.remember(item.dedup_id, ids[number], now)
                else:
                    ids[number] = self._items.get(item.dedup_id, now, window)

    def claim(self, dedup_ids: Sequence[str], partition: int, now: float, window: float) -> list[int]:
        """Returns the partition of each dedup id; new ids are assigned to ``partition``."""
        if not window:
            return [partition for _ in dedup_ids]
        belongs = []
        for dedup_id in dedup_ids:
            home = self._claims.get(dedup_id, now, window + CLAIM_LEEWAY)
            if home is None:
                pushed_here = self._items.get(dedup_id, now, window) is not None  # before there were others
                home = self._partition if pushed_here else partition
            # Renewed, because the push that follows may be the first one that is stored. Half of the leeway is enough
            # for that push to arrive, and saves a write when claims follow each other soon.
            if self._claims.get(dedup_id, now, CLAIM_LEEWAY / 2) is None:
                self._claims.remember(dedup_id, home, now)
            belongs.append(home)
        return belongs

    def forget(self, now: float, window: float) -> None:
        """Drops the ids that are outside the window."""
        self._items.forget(now, window)
        self._claims.forget(now, window + CLAIM_LEEWAY)

    def erase(self) -> None:
        """Drops all ids and claims."""
        self._items.erase()
        self._claims.erase()

    def next_end(self, window: float) -> float | None:
        """Returns when the next id leaves its window."""
        ends = (self._items.next_end(window), self._claims.next_end(window + CLAIM_LEEWAY))
        return min((end for end in ends if end is not None), default=None)

    def changes(self) -> dict[str, Any]:
        return self._items.changes() | self._claims.changes()

    def to_json(self) -> dict[str, Any]:
        """Returns its part of the metadata."""
        parts = (("_dedup", self._items.to_json()), ("_claims", self._claims.to_json()))
        return {key: part for key, part in parts if part}

    @classmethod
    def restore(cls, partition: int, metadata: dict[str, Any]) -> Reads[Deduplicator]:
        duplicates = cls(partition)
        duplicates._items = yield from DedupLog.restore("dedup", metadata.get("_dedup"))
        duplicates._claims = yield from DedupLog.restore("claims", metadata.get("_claims"))
        return duplicates
