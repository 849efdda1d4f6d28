"""The items of a modelled queue, and what becomes of them by itself: lists, sorted whenever something comes back."""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, replace
from math import ceil, inf
from typing import Any

from tests.properties.model_state import Group, Item, Lock, Refused, Remembered, Sent

COUNTERS = (
    "pushed",
    "popped",
    "acknowledged",
    "abandoned",
    "expired",
    "redelivered",
    "dead_lettered",
    "purged",
    "revoked",
    "ttl_expired",
    "deduplicated",
    "redriven",
)

DEFAULTS: dict[str, Any] = {
    "partitions": 1,
    "max_locks": 1,
    "max_deliveries": 10,
    "dead_letter_queue": None,
    "dedup_window_seconds": 300,
    "capacity": None,
    "default_ttl_seconds": None,
    "expired_to_dead_letters": False,
    "rate_per_second": None,
    "retry_delay_seconds": 0.0,
    "retry_delay_factor": 2.0,
    "retry_delay_max_seconds": 300.0,
    "paused": False,
}


@dataclass(slots=True)
class CaughtUp:
    """How far the queue came with what is due: it does some at a time, and that much is for it to choose."""

    #: How many are still kept for later.
    not_due: int
    #: The ids of all that wait, or were given back with a delay.
    kept: set[str]
    #: The ids of all that is to be sent, in that order.
    sent: list[str]


class ModelStock:
    """The items of a queue, or of a partition."""

    def __init__(self, name: str, partition: int = 0, *, remembered: int = 100, passed: int = 200) -> None:
        self.name = name
        self.partition = partition
        self.config = dict(DEFAULTS)
        self.config_version = 0
        self.pending_partitions: list[int] = []
        #: How often it was deleted, and of a deletion that was begun, its version and when it is given up.
        self.generation = 0
        self.deletion: tuple[int, float] | None = None
        #: Whether this partition takes no pushes, as the queue is about to be deleted.
        self.closed = False
        self.deleted = False
        self.waiting: list[Item] = []
        #: Not due yet; the first of them first.
        self.not_due: list[Item] = []
        self.postponed: list[Group] = []
        self.locks: list[Lock] = []
        self.expired: list[str] = []
        self.outbox: list[Sent] = []
        self.ids: set[str] = set()
        self.counters = dict.fromkeys(COUNTERS, 0)
        self.is_dead_letter_queue = False
        self._remembered = remembered
        #: How many expired items one pop passes.
        self._passed = passed
        self._numbers = 0
        self._received: dict[str, int] = {}
        self._dedup: dict[str, Remembered] = {}
        self._claims: dict[str, Remembered] = {}
        #: How many may be pushed at once, at this moment.
        self._free, self._free_at = inf, 0.0

    @property
    def dead_letter_queue(self) -> str | None:
        if self.is_dead_letter_queue or self.name.endswith("-deadletter"):
            return None
        return self.config["dead_letter_queue"] or f"{self.name}-deadletter"

    @property
    def locked(self) -> int:
        return sum(len(lock.items) for lock in self.locks)

    @property
    def delayed(self) -> int:
        return len(self.not_due) + sum(len(group.items) for group in self.postponed)

    @property
    def load(self) -> int:
        return len(self.waiting) + self.delayed + self.locked

    @property
    def is_member(self) -> bool:
        return self.partition == 0 or (self.partition < self.config["partitions"] and not self.closed)

    def erase(self) -> int:
        """Nothing is left but what is on its way to other queues, and the numbers of what came from them."""
        erased = self.load
        for items in (self.waiting, self.not_due, self.postponed, self.locks, self.expired):
            items.clear()  # type: ignore[attr-defined]
        self._dedup.clear()
        self._claims.clear()
        self.counters = dict.fromkeys(COUNTERS, 0)
        self.is_dead_letter_queue = False
        self.restarted()
        return erased

    def changed(self) -> None:
        """A new version of the configuration, which the other partitions lack."""
        self.config_version += 1
        self.pending_partitions = sorted({*self.pending_partitions, *range(1, self.config["partitions"])})
        self.deletion = None

    # By itself

    def catch_up(self, now: float, given: CaughtUp) -> None:
        """Comes before everything that is asked."""
        for known in (*self._dedup.values(), *self._claims.values()):
            known.lapsed = known.lapsed or known.at + self.config["dedup_window_seconds"] <= now
        for item in (item for lock in self.locks for item in lock.items):
            item.overlooked = item.overlooked or item.expired(now)
        expired = [lock for lock in self.locks if lock.expires_at <= now]
        for lock in sorted(expired, key=lambda lock: (lock.expires_at, lock.items[0])):
            self.counters["expired"] += len(lock.items)
            most = max(self._remembered, self.config["max_locks"])
            self.expired = [*self.expired, lock.id][-most:]
            self._give_back(self._release(lock), now, None, failed_at=lock.expires_at)
        for group in [group for group in self.postponed if group.due <= now]:
            self.postponed.remove(group)
            self.waiting = sorted([*self.waiting, *group.items])
        while len(self.not_due) > given.not_due:
            item = self.not_due.pop(0)
            assert item.due is not None
            assert item.due <= now, f"{item} came too early"
            item.number = self._next_number()
            insort(self.waiting, item)
        gone = [item for item in self._not_locked() if item.id not in given.kept]
        assert all(item.expired(now) for item in gone), f"lost: {gone}"
        if self.config["expired_to_dead_letters"] and self.dead_letter_queue is not None:
            gone.sort(key=lambda item: given.sent.index(item.id))
        self._expire(gone, now)
        if self.deletion is not None and self.deletion[1] <= now:
            self.changed()

    def is_caught_up(self, now: float) -> bool:
        """Returns whether no due work is left. Expiry may be up to a tenth of a second late."""
        return not (
            any(item.due is not None and item.due <= now for item in self.not_due)
            or any(item.expired(now - 0.1) for item in self._not_locked() if not item.overlooked)
        )

    def restarted(self) -> None:
        """Drops the state that is not saved: the rate limit's."""
        self._free, self._free_at = inf, 0.0

    # Between queues

    def received(self, ids: list[str], sent: list[Sent]) -> None:
        """Adds the items of an accepted transfer. A partition that is no part of the queue sends them on."""
        for item_id, entry in zip(ids, sent, strict=True):
            assert item_id not in self.ids, f"the id {item_id} was given twice"
            self.ids.add(item_id)
            self.counters["pushed"] += 1
            arrived = replace(
                entry.item,
                id=item_id,
                number=self._next_number(),
                deliveries=0,
                error=None,
                due=None,
                until=None,
                origin=entry.origin,
            )
            if self.is_member:
                insort(self.waiting, arrived)
            else:
                self.outbox.append(Sent(arrived, self.name, None))
            self.is_dead_letter_queue = self.is_dead_letter_queue or entry.origin is not None

    def transferred(self, sent: list[Sent]) -> None:
        """The other queue has them."""
        self.outbox = [entry for entry in self.outbox if entry not in sent]

    # Inside

    def _append(self, item_id: str, entry: dict[str, Any], now: float) -> None:
        assert item_id not in self.ids, f"the id {item_id} was given twice"
        self.ids.add(item_id)
        self.counters["pushed"] += 1
        delay = entry.get("delay_seconds", 0)
        # Rounded up to a tenth of a second; more digits of a clock are not significant.
        due = ceil(round((now + delay) * 10, 4)) / 10 if delay else None
        ttl = entry.get("ttl_seconds", self.config["default_ttl_seconds"])
        item = Item(
            entry.get("priority", 0),
            self._next_number(),
            item_id,
            entry["item"],
            now,
            due,
            None if ttl is None else (due or now) + ttl,
            entry.get("dedup_id"),
            entry.get("idempotency_key"),
            entry.get("tenant_id"),
        )
        if due is None:
            insort(self.waiting, item)
        else:
            insort(self.not_due, item, key=lambda item: (item.due, item.number))

    def _next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    def _expire(self, items: list[Item], now: float) -> None:
        """These expired."""
        self._remove(items)
        self.counters["ttl_expired"] += len(items)
        if self.config["expired_to_dead_letters"] and self.dead_letter_queue is not None:
            self._send_to_dead_letters(items, "expired", now)

    def _remove(self, items: list[Item]) -> None:
        gone = {item.id for item in items}
        self.waiting = [item for item in self.waiting if item.id not in gone]
        self.not_due = [item for item in self.not_due if item.id not in gone]
        for group in self.postponed:
            group.items = [item for item in group.items if item.id not in gone]

    def _not_locked(self) -> list[Item]:
        """All that could be taken, now or when it is no longer kept back."""
        return [*self.waiting, *(item for group in self.postponed for item in group.items)]

    def _release(self, lock: Lock, ids: list[str] | None = None) -> list[Item]:
        """Unlocks the items of a lock, or the named ones of them, and returns them."""
        items = [item for item_id in dict.fromkeys(ids or ()) for item in lock.items if item.id == item_id]
        if ids is None:
            items = lock.items
        elif len(items) < len(set(ids)):
            raise Refused("INVALID_REQUEST")
        lock.items = [item for item in lock.items if item not in items]
        if not lock.items:
            self.locks.remove(lock)
        return items

    def _give_back(
        self,
        items: list[Item],
        now: float,
        error: str | None,
        delay: float = 0,
        *,
        counted: bool = True,
        failed_at: float | None = None,
    ) -> None:
        """``failed_at``: when it failed, for what comes back as late as the queue's configuration says."""
        hopeless, back = [], []
        for item in items:
            item.error = error if error is not None else item.error
            item.deliveries -= not counted
            spent = item.deliveries >= self.config["max_deliveries"] and self.dead_letter_queue is not None
            (hopeless if spent else back).append(item)
        self._send_to_dead_letters(hopeless, "max_deliveries", now)
        self._expire([item for item in back if item.expired(now)], now)
        back = [item for item in back if not item.expired(now)]
        dues: dict[float, list[Item]] = {}
        for item in back:
            due = now + delay if failed_at is None else failed_at + self._retry_delay(item.deliveries)
            dues.setdefault(due, []).append(item)
        for due, group in dues.items():
            if due > now:
                self.postponed.append(Group(group, due))
            else:
                self.waiting = sorted([*self.waiting, *group])

    def _retry_delay(self, deliveries: int) -> float:
        delay: float = self.config["retry_delay_seconds"]
        for _ in range(deliveries - 1):
            delay = min(delay * self.config["retry_delay_factor"], self.config["retry_delay_max_seconds"])
        return min(delay, self.config["retry_delay_max_seconds"])

    def _send_to_dead_letters(self, items: list[Item], reason: str, now: float) -> None:
        self.counters["dead_lettered"] += len(items)
        for item in items:
            origin = {
                "reason": reason,
                "attempts": item.deliveries,
                "last_error": item.error,
                "original_queue": self.name,
                "original_partition": self.partition,
                "original_id": item.id,
                "tenant_id": item.tenant_id or "default",
                "idempotency_key": item.idempotency_key,
                "dead_lettered_at": now,
            }
            assert self.dead_letter_queue is not None
            self.outbox.append(Sent(item, self.dead_letter_queue, origin))
