"""What was pushed before: the items that dedup ids stand for, and in a queue of several partitions, where those are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.errors import Conflict
from holdfast.pushpop.dedup import Dedup

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.pushpop.items import Pushed
    from holdfast.pushpop.steps import Steps

# A claim outlasts the id it is for: that is pushed later, in another partition, by another clock.
CLAIM_LEEWAY = 60.0


class Duplicates:
    """``window`` is how many seconds an id is remembered; with none, nothing is a duplicate."""

    def __init__(self, partition: int) -> None:
        self._partition = partition
        self._items = Dedup("dedup")
        self._claims = Dedup("claims")

    def new_of(self, items: Sequence[Pushed], now: float, window: float) -> list[int]:
        """Which of them are new."""
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
        """Remembers the ids of new items, and fills in those of the others, which are empty."""
        for number, item in enumerate(items):
            if item.dedup_id is not None and window:
                if ids[number]:
                    self._items.remember(item.dedup_id, ids[number], now)
                else:
                    ids[number] = self._items.get(item.dedup_id, now, window)

    def claim(self, dedup_ids: Sequence[str], partition: int, now: float, window: float) -> list[int]:
        """To which partition each of them belongs: those that are new, to this one from now on."""
        if not window:
            return [partition for _ in dedup_ids]
        belongs = []
        for dedup_id in dedup_ids:
            home = self._claims.get(dedup_id, now, window + CLAIM_LEEWAY)
            if home is None:
                pushed_here = self._items.get(dedup_id, now, window) is not None  # before there were others
                home = self._partition if pushed_here else partition
            # Renewed, because the push that follows may be the first one that is stored: half of the leeway is for
            # that to arrive in, and saves a write to those that come soon after each other.
            if self._claims.get(dedup_id, now, CLAIM_LEEWAY / 2) is None:
                self._claims.remember(dedup_id, home, now)
            belongs.append(home)
        return belongs

    def forget(self, now: float, window: float) -> None:
        """What is out of the window."""
        self._items.forget(now, window)
        self._claims.forget(now, window + CLAIM_LEEWAY)

    def next_end(self, window: float) -> float | None:
        """When there will be something to forget."""
        ends = (self._items.next_end(window), self._claims.next_end(window + CLAIM_LEEWAY))
        return min((end for end in ends if end is not None), default=None)

    def changes(self) -> dict[str, Any]:
        return self._items.changes() | self._claims.changes()

    def to_json(self) -> dict[str, Any]:
        """Its part of the metadata."""
        parts = (("_dedup", self._items.to_json()), ("_claims", self._claims.to_json()))
        return {key: part for key, part in parts if part}

    @classmethod
    def restore(cls, partition: int, metadata: dict[str, Any]) -> Steps[Duplicates]:
        duplicates = cls(partition)
        duplicates._items = yield from Dedup.restore("dedup", metadata.get("_dedup"))
        duplicates._claims = yield from Dedup.restore("claims", metadata.get("_claims"))
        return duplicates
