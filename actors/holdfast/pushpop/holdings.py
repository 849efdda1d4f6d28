"""What has been taken out of the lanes: locks, items that were given back, and parcels for the dead-letter queue.

Each is saved under a key of its own, so that a push does not rewrite what is locked. Only the first lock lies in the
queue's metadata, as ``_active_lock``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

import orjson

from holdfast.pushpop.items import Place, Taken
from holdfast.runtime.serialization import load

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Sequence

    from holdfast.pushpop.items import Delivery
    from holdfast.pushpop.lanes import Returned

# Payloads are shown in the metadata's lock only while they are small: it is rewritten by every push.
INLINE_BYTES = 2048
EXPIRED_REMEMBERED = 100

EXPIRED = "expired-locks"
# What was said of the items of the metadata's lock when they last came back.
ERRORS = "lock-errors"


@dataclass(slots=True)
class Lock:
    lock_id: str
    taken: list[Taken]
    created_at: float
    expires_at: float
    slot: int
    #: The payloads, where they are small enough to be shown with the lock.
    inline: list[Any] | None = None

    @property
    def errors(self) -> list[str | None]:
        return [taken.error for taken in self.taken]

    def to_json(self) -> dict[str, Any]:
        items: list[dict[str, Any]] = [
            {
                "priority": taken.place.priority,
                # Errors can be long, and the first lock is rewritten by every push.
                "taken": taken.to_json() if self.slot else [*taken.place, taken.deliveries],
            }
            for taken in self.taken
        ]
        if self.inline is not None:
            items = [{"item": item} | entry for item, entry in zip(self.inline, items, strict=True)]
        return {
            "lock_id": self.lock_id,
            "items_with_priority": items,
            "expires_at": self.expires_at,
            "created_at": self.created_at,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any], slot: int, errors: list[str | None] | None = None) -> Lock:
        items = value["items_with_priority"]
        taken = [Taken.from_json(entry["taken"]) for entry in items]
        if errors is not None:
            taken = [Taken(entry.place, entry.deliveries, error) for entry, error in zip(taken, errors, strict=True)]
        return cls(
            value["lock_id"],
            taken,
            value["created_at"],
            value["expires_at"],
            slot,
            [entry["item"] for entry in items] if "item" in items[0] else None,
        )


@dataclass(frozen=True, slots=True)
class Parcel:
    """Items on their way to the dead-letter queue."""

    taken: list[Taken]
    #: The queue it goes to, whatever the configuration says later: sent again elsewhere, it would be there twice.
    target: str
    reason: str
    at: float


class Slots:
    """Small numbers for what is saved under keys of its own, so that one number finds them all."""

    def __init__(self) -> None:
        self._used: set[int] = set()
        self._free: list[int] = []
        #: One more than the highest number in use, or that was in use since there were none.
        self.extent = 0

    def acquire(self) -> int:
        while self._free:
            number = heappop(self._free)
            if number not in self._used:
                break
        else:
            number = self.extent
        self.occupy(number)
        return number

    def occupy(self, number: int) -> None:
        for skipped in range(self.extent, number):
            heappush(self._free, skipped)
        self.extent = max(self.extent, number + 1)
        self._used.add(number)

    def release(self, number: int) -> None:
        self._used.discard(number)
        if self._used:
            heappush(self._free, number)
        else:
            self._free.clear()
            self.extent = 0


class Holdings:
    """Everything that is neither waiting in a lane nor gone."""

    def __init__(self) -> None:
        self.locks: dict[str, Lock] = {}
        #: Groups of items given back together, by their slots.
        self.returned: dict[int, list[Taken]] = {}
        self.outbox: dict[int, Parcel] = {}
        self.expired: list[str] = []
        self._next_parcel = 0
        # How many of the items held lie in each segment, which must not go before them.
        self._held: Counter[tuple[int, int]] = Counter()
        self._lock_slots = Slots()
        self._group_slots = Slots()
        self._changed: dict[str, Any] = {}

    def holds(self, priority: int, segment: int) -> bool:
        return self._held[priority, segment] > 0

    def changes(self) -> dict[str, Any]:
        changed, self._changed = self._changed, {}
        return changed

    def lock(self, lock_id: str, deliveries: Sequence[Delivery], *, created_at: float, expires_at: float) -> Lock:
        slot = self._lock_slots.acquire()
        taken = [delivery.taken for delivery in deliveries]
        lock = Lock(lock_id, taken, created_at, expires_at, slot)
        if slot == 0 and sum(delivery.item.size for delivery in deliveries) <= INLINE_BYTES:
            lock.inline = _inline(deliveries)
        self.locks[lock_id] = lock
        self._hold(taken)
        self._save_lock(lock)
        if slot == 0 and any(lock.errors):
            self._changed[ERRORS] = lock.errors
        return lock

    def extend(self, lock: Lock, expires_at: float) -> None:
        lock.expires_at = expires_at
        self._save_lock(lock)

    def release(self, lock: Lock) -> None:
        del self.locks[lock.lock_id]
        self._lock_slots.release(lock.slot)
        self._let_go(lock.taken)
        if lock.slot:
            self._changed[_lock_key(lock.slot)] = None
        elif any(lock.errors):
            self._changed[ERRORS] = None

    def remember_expired(self, lock_id: str) -> None:
        """So that a late answer is told apart from a wrong one."""
        self.expired = [*self.expired, lock_id][-EXPIRED_REMEMBERED:]
        self._changed[EXPIRED] = self.expired

    def give_back(self, taken: list[Taken]) -> int:
        """Keeps them as one group; answers its number."""
        group = self._group_slots.acquire()
        self.returned[group] = taken
        self._hold(taken)
        self._save_group(group)
        return group

    def forget_returned(self, returned: Returned) -> None:
        """It was taken again, or purged."""
        members = self.returned[returned.group]
        members.remove(returned.taken)
        self._let_go([returned.taken])
        if not members:
            del self.returned[returned.group]
            self._group_slots.release(returned.group)
        self._save_group(returned.group)

    def send(self, taken: Sequence[Taken], target: str, reason: str, at: float) -> None:
        parcel = Parcel(list(taken), target, reason, at)
        self.outbox[self._next_parcel] = parcel
        self._hold(parcel.taken)
        self._changed[_parcel_key(self._next_parcel)] = {
            "taken": [entry.to_json() for entry in parcel.taken],
            "target": target,
            "reason": reason,
            "at": at,
        }
        self._next_parcel += 1

    def clear_parcel(self, number: int) -> Parcel:
        parcel = self.outbox.pop(number)
        self._let_go(parcel.taken)
        self._changed[_parcel_key(number)] = None
        return parcel

    def to_json(self) -> dict[str, Any]:
        """What of it lies in the metadata: the first lock, and what finds the rest."""
        first = next((lock for lock in self.locks.values() if lock.slot == 0), None)
        value: dict[str, Any] = {} if first is None else {"_active_lock": first.to_json()}
        value["_holdings"] = {
            "locks": self._lock_slots.extent,
            "returned": self._group_slots.extent,
            "parcels": [min(self.outbox, default=self._next_parcel), self._next_parcel],
        }
        return value

    @classmethod
    def restore(cls, metadata: dict[str, Any]) -> Generator[tuple[str, ...], list[Any], Holdings]:
        holdings = cls()
        extent = metadata["_holdings"]
        first_parcel, holdings._next_parcel = extent["parcels"]
        locks = [_lock_key(slot) for slot in range(1, extent["locks"])]
        groups = [_group_key(group) for group in range(extent["returned"])]
        parcels = [_parcel_key(number) for number in range(first_parcel, holdings._next_parcel)]
        keys = (EXPIRED, ERRORS, *locks, *groups, *parcels)
        found = dict(zip(keys, (yield keys), strict=True))
        holdings.expired = found[EXPIRED] or []
        for slot, value in enumerate([metadata.get("_active_lock"), *(found[key] for key in locks)]):
            if value is not None:
                lock = Lock.from_json(value, slot, None if slot else found[ERRORS])
                holdings.locks[lock.lock_id] = lock
                holdings._lock_slots.occupy(slot)
                holdings._hold(lock.taken)
        for group, key in enumerate(groups):
            if found[key] is not None:
                holdings._group_slots.occupy(group)
                holdings.returned[group] = [Taken.from_json(entry) for entry in found[key]]
                holdings._hold(holdings.returned[group])
        for number, key in enumerate(parcels, first_parcel):
            if found[key] is not None:
                value = found[key]
                taken = [Taken.from_json(entry) for entry in value["taken"]]
                parcel = Parcel(taken, value["target"], value["reason"], value["at"])
                holdings.outbox[number] = parcel
                holdings._hold(parcel.taken)
        return holdings

    def _save_lock(self, lock: Lock) -> None:
        if lock.slot:
            self._changed[_lock_key(lock.slot)] = lock.to_json()

    def _save_group(self, group: int) -> None:
        members = self.returned.get(group)
        self._changed[_group_key(group)] = None if members is None else [taken.to_json() for taken in members]

    def _hold(self, taken: Iterable[Taken]) -> None:
        self._held.update(_segment(entry.place) for entry in taken)

    def _let_go(self, taken: Iterable[Taken]) -> None:
        for entry in taken:
            segment = _segment(entry.place)
            self._held[segment] -= 1
            if not self._held[segment]:
                del self._held[segment]


def _inline(deliveries: Sequence[Delivery]) -> list[Any] | None:
    """The payloads, unless there is one that not every store takes as a value of its own."""
    # PostgreSQL's jsonb has no U+0000, and daprd (1.18.2) refuses a number that no 64-bit float comes near.
    if any("\\u0000" in delivery.item.text for delivery in deliveries):
        return None
    payloads = [load(delivery.item.text) for delivery in deliveries]
    try:
        orjson.dumps(payloads)
    except TypeError:  # an integer of more than 64 bits
        return None
    return payloads


def _segment(place: Place) -> tuple[int, int]:
    return place.priority, place.segment


def _lock_key(slot: int) -> str:
    return f"lock-{slot}"


def _group_key(group: int) -> str:
    return f"returned-{group}"


def _parcel_key(number: int) -> str:
    return f"parcel-{number}"
