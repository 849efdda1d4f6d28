"""Admits pushes to a queue: the limits, deduplication, and where each item is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.errors import Capacity, InvalidRequest, NotFound, RateLimited
from holdfast.pushpop.core.dedup import Deduplicator
from holdfast.pushpop.core.due_index import moment_of, tick_of
from holdfast.pushpop.core.items import ItemId
from holdfast.pushpop.core.token_bucket import TokenBucket

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.pushpop.api.config import QueueConfig
    from holdfast.pushpop.core.config_replication import ReplicatedConfig
    from holdfast.pushpop.core.item_store import ItemStore
    from holdfast.pushpop.core.items import Pushed
    from holdfast.runtime.reads import Reads

# Each priority takes room in the metadata, which every push rewrites.
MAX_PRIORITIES = 1000
# The Retry-After of a push to a full queue.
ROOM_SECONDS = 1


class Pushes:
    """The pushes of one partition. Counts in the queue's own counters."""

    def __init__(self, partition: int, settings: ReplicatedConfig, store: ItemStore, counters: dict[str, int]) -> None:
        self._partition = partition
        self._settings = settings
        self._store = store
        self._counters = counters
        self._dedup = Deduplicator(partition)
        self._rate_limit = TokenBucket()

    def push(self, now: float, items: Sequence[Pushed], elsewhere: int = 0) -> Reads[tuple[list[str], int]]:
        """Pushes all items or none. Returns their ids, and the number of new ones."""
        if not self._settings.is_member:
            raise NotFound("This partition is no part of the queue: push to another one.")
        window = self._config.dedup_window_seconds
        new = self._dedup.select_new(items, now, window)
        self._refuse_too_many(now, [items[number] for number in new], elsewhere)
        ids: list[str] = [""] * len(items)
        at_once = []
        for number in new:
            if items[number].delay_seconds:
                ids[number] = yield from self._delay(now, items[number])
            else:
                at_once.append(number)
        ttl = self._config.default_ttl_seconds
        fresh = [(items[number].priority, items[number].item(now, ttl)) for number in at_once]
        for number, place in zip(at_once, (yield from self._store.append(fresh)), strict=True):
            ids[number] = place.item_id(self._partition)
        self._dedup.settle(items, ids, now, window)
        self._counters["pushed"] += len(new)
        self._counters["deduplicated"] += len(items) - len(new)
        if self._config.rate_per_second is not None:
            self._rate_limit.spend(len(new))
        return ids, len(new)

    def claim(self, now: float, dedup_ids: Sequence[str], partition: int) -> list[int]:
        """Returns the partition of each dedup id; new ids are assigned to ``partition``."""
        if partition >= self._config.partitions:
            partition = 0  # the caller has not heard that the queue was deleted
        return self._dedup.claim(dedup_ids, partition, now, self._config.dedup_window_seconds)

    def forget(self, now: float) -> None:
        """Drops the dedup ids that are outside the window."""
        self._dedup.forget(now, self._config.dedup_window_seconds)

    def erase(self) -> None:
        """Forgets all dedup ids, and how fast was pushed."""
        self._dedup.erase()
        self._rate_limit = TokenBucket()

    def next_end(self) -> float | None:
        """Returns when the next dedup id leaves its window."""
        return self._dedup.next_end(self._config.dedup_window_seconds)

    # Saved state

    def changes(self) -> dict[str, Any]:
        return self._dedup.changes()

    def to_json(self) -> dict[str, Any]:
        """Returns its part of the metadata."""
        return self._dedup.to_json()

    def restore(self, metadata: dict[str, Any]) -> Reads[None]:
        self._dedup = yield from Deduplicator.restore(self._partition, metadata)

    # Private

    @property
    def _config(self) -> QueueConfig:
        return self._settings.config

    def _refuse_too_many(self, now: float, items: Sequence[Pushed], elsewhere: int) -> None:
        if len(self._store.lanes) + len(items) > MAX_PRIORITIES and (
            len(self._store.lanes.keys() | {item.priority for item in items}) > MAX_PRIORITIES
        ):
            raise InvalidRequest(f"A queue can have at most {MAX_PRIORITIES} priorities in use at once.")
        capacity, rate = self._config.capacity, self._config.rate_per_second
        if capacity is not None and items and self._store.load + elsewhere + len(items) > capacity:
            raise Capacity(
                f"The queue is full: its capacity is {capacity} items. Try again later.", retry_after=ROOM_SECONDS
            )
        if rate is not None and items:
            wait = self._rate_limit.wait(now, rate / self._config.partitions)
            if wait:
                raise RateLimited(retry_after=wait)

    def _delay(self, now: float, pushed: Pushed) -> Reads[str]:
        due_at = moment_of(tick_of(now + pushed.delay_seconds))
        item = pushed.item(now, self._config.default_ttl_seconds, due_at)
        shelved = yield from self._store.delay(pushed.priority, item)
        return str(ItemId(self._partition, pushed.priority, True, *shelved))
