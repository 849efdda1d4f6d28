"""Items that come back from a lock: delivered again at once or later, turned into dead letters, or expired."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from holdfast.names import DEAD_LETTER_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.pushpop.api.config import QueueConfig
    from holdfast.pushpop.core.config_replication import ReplicatedConfig
    from holdfast.pushpop.core.in_flight import Lock
    from holdfast.pushpop.core.item_store import ItemStore
    from holdfast.pushpop.core.items import Delivered
    from holdfast.pushpop.core.transfers import Transfers
    from holdfast.runtime.reads import Reads


class Returns:
    """Returns items to one queue. Counts in the queue's own counters."""

    def __init__(
        self, queue: str, settings: ReplicatedConfig, store: ItemStore, transfers: Transfers, counters: dict[str, int]
    ) -> None:
        self._queue = queue
        self._settings = settings
        self._store = store
        self._transfers = transfers
        self._counters = counters

    @property
    def dead_letter_queue(self) -> str | None:
        """The queue for dead letters; None for a dead-letter queue."""
        if self._transfers.is_dead_letter_queue or self._queue.endswith(DEAD_LETTER_SUFFIX):
            return None
        return self._config.dead_letter_queue or self._queue + DEAD_LETTER_SUFFIX

    @property
    def expired_target(self) -> str | None:
        """The queue where expired items become dead letters; None if they are dropped."""
        return self.dead_letter_queue if self._config.expired_to_dead_letters else None

    def deliveries_exhausted(self, taken: Delivered) -> bool:
        """Returns whether the item becomes a dead letter when it is returned."""
        often = taken.deliveries >= self._config.max_deliveries and not self._config.worker_queue
        return often and self.dead_letter_queue is not None

    def retry_at(self, taken: Delivered, failed_at: float) -> float:
        """Returns when an item whose delivery failed is available again, by the queue's back-off."""
        return failed_at + self._config.retry_delay(taken.deliveries)

    def fail(self, lock: Lock, items: Sequence[Delivered], now: float, failed_at: float) -> Reads[None]:
        """Returns items whose delivery failed at this time; the queue's back-off applies."""
        yield from self._return(lock, items, now, [self.retry_at(taken, failed_at) for taken in items])

    def give_back(self, lock: Lock, items: Sequence[Delivered], now: float, due: float) -> Reads[None]:
        """Returns items that are available again at this time."""
        yield from self._return(lock, items, now, [due] * len(items))

    def expire(self, taken: Sequence[Delivered], now: float) -> Reads[None]:
        """Drops expired items, or makes them dead letters."""
        if not taken:
            return
        self._counters["ttl_expired"] += len(taken)
        target = self.expired_target
        if target is None:
            yield from self._store.forget(taken)
            return
        segments: dict[tuple[int, int], list[Delivered]] = defaultdict(list)
        for entry in taken:
            segments[entry.place.priority, entry.place.segment].append(entry)
        for entries in segments.values():  # one transfer per segment, to bound its size
            self._transfers.dead_letter(entries, target, "expired", now)

    @property
    def _config(self) -> QueueConfig:
        return self._settings.config

    def _return(self, lock: Lock, items: Sequence[Delivered], now: float, dues: Sequence[float]) -> Reads[None]:
        self._store.in_flight.reduce(lock, items)
        exhausted = [taken for taken in items if self.deliveries_exhausted(taken)]
        target = self.dead_letter_queue
        if exhausted and target is not None:
            self._transfers.dead_letter(exhausted, target, "max_deliveries", now)
        back = {taken: due for taken, due in zip(items, dues, strict=True) if not self.deliveries_exhausted(taken)}
        if lock.spoils_at is not None and lock.spoils_at <= now:
            expired = yield from self._store.expired_of(back, now)
            yield from self.expire(expired, now)
            for taken in expired:
                del back[taken]
        groups: dict[float | None, list[Delivered]] = defaultdict(list)
        for taken, due in back.items():
            groups[due if due > now else None].append(taken)
        for available_at, group in groups.items():
            self._store.give_back(group, available_at)


def with_error(items: Sequence[Delivered], error: str | None) -> list[Delivered]:
    """Returns the items with this as their last error, if there is one."""
    return list(items) if error is None else [replace(taken, error=error) for taken in items]
