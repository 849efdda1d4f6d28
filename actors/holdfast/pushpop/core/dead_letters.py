"""The dead letters that wait in a queue: selects some of them, and redrives or deletes these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.pushpop.core.browsing import browse
from holdfast.pushpop.core.budgets import ResponseBudget
from holdfast.pushpop.core.in_flight import Redelivery

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.pushpop.core.in_flight import Lock
    from holdfast.pushpop.core.item_store import ItemStore
    from holdfast.pushpop.core.items import Delivery, Place
    from holdfast.pushpop.core.transfers import Transfers
    from holdfast.runtime.reads import Reads

#: The most dead letters to look at in one turn, and to redrive or delete.
AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class LetterFilter:
    """Selects dead letters: by the queue they came from, their reason, a part of their last error, and their time."""

    original_queue: str | None = None
    reason: str | None = None
    error_contains: str | None = None
    #: Only earlier ones.
    before: float | None = None

    def matches(self, delivery: Delivery) -> bool:
        """Returns whether it is a dead letter, and one of these."""
        origin: dict[str, Any] | None = delivery.item.origin
        return (
            origin is not None
            and self.original_queue in (None, origin["original_queue"])
            and self.reason in (None, origin["reason"])
            and (self.error_contains is None or self.error_contains in (origin["last_error"] or ""))
            and (self.before is None or origin["dead_lettered_at"] < self.before)
        )


class DeadLetters:
    """The dead letters of one partition. Counts in the queue's own counters."""

    def __init__(self, partition: int, store: ItemStore, transfers: Transfers, counters: dict[str, int]) -> None:
        self._partition = partition
        self._store = store
        self._transfers = transfers
        self._counters = counters

    def page(
        self, cursor: Place | None, limit: int, wanted: LetterFilter
    ) -> Reads[tuple[list[Delivery], Place | None]]:
        """Returns the next of these dead letters, and the place to continue from, if there may be more."""
        page, after = yield from browse(self._store, cursor, limit)
        return [delivery for delivery in page if wanted.matches(delivery)], after

    def among(self, ids: Sequence[str], limit: int, wanted: LetterFilter) -> Reads[tuple[list[Delivery], bool]]:
        """Returns the dead letters with these ids, as many as fit into one transfer, and whether some were left out.

        Ids that are not found or are locked are skipped.
        """
        budget = ResponseBudget(limit)
        chosen: set[Place] = set()
        for item_id in ids:
            found = yield from self._store.find(item_id, self._partition)
            if found is None or found.taken is None or found.taken.place in chosen or not _is_free(found.holder):
                continue
            delivery = yield from self._store.deliver(found.taken)
            if wanted.matches(delivery):
                if not budget.add(delivery):
                    break
                chosen.add(found.taken.place)
        return budget.found, budget.closed

    def following(
        self, cursor: Place | None, limit: int, wanted: LetterFilter
    ) -> Reads[tuple[list[Delivery], Place | None]]:
        """Returns up to ``limit`` of these dead letters, and the place to continue from, if there may be more.

        Looks at a bounded number, so it may return fewer than there are, or none.
        """
        page, after = yield from browse(self._store, cursor, AT_ONCE)
        chosen: list[Delivery] = []
        last = cursor
        for delivery in page:
            if wanted.matches(delivery):
                if len(chosen) == limit:
                    return chosen, last
                chosen.append(delivery)
            last = delivery.taken.place
        return chosen, after

    def redrive(self, letters: Sequence[Delivery], now: float) -> Reads[None]:
        """Sends dead letters back to their original queues."""
        yield from self._transfers.send_back(letters, now)

    def delete(self, letters: Sequence[Delivery]) -> Reads[None]:
        """Deletes dead letters."""
        for delivery in letters:
            yield from self._store.withdraw(delivery.taken)
        yield from self._store.forget(delivery.taken for delivery in letters)
        self._counters["purged"] += len(letters)


def _is_free(holder: Lock | Redelivery | None) -> bool:
    """Returns whether an item with this holder can be popped."""
    return holder is None or (isinstance(holder, Redelivery) and holder.due is None)
