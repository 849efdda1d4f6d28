"""What has been taken out of the lanes: locks, items that were given back, and parcels for other queues.

Each is saved under a key of its own, so that a push does not rewrite what is locked. Only the first lock lies in the
queue's metadata, as ``_active_lock``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

import orjson

from holdfast.pushpop.items import Taken
from holdfast.runtime.serialization import load

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Sequence

    from holdfast.pushpop.items import Delivery, Place
    from holdfast.pushpop.lanes import Returned

# Payloads are shown in the metadata's lock only while they are small: it is rewritten by every push.
INLINE_BYTES = 2048
EXPIRED_REMEMBERED = 100
MOST_EXPIRED_REMEMBERED = 1000

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
    #: When the first of its items expires, which is looked at when it comes back.
    spoils_at: float | None = None

    @property
    def errors(self) -> list[str | None]:
        return [taken.error for taken in self.taken]

    def to_json(self) -> dict[str, Any]:
        items: list[dict[str, Any]] = [
            {
                "priority": taken.place.priority,
                # Errors can be long, and the first lock is rewritten by every push.
                "taken": taken.to_json(with_error=self.slot > 0),
            }
            for taken in self.taken
        ]
        if self.inline is not None:
            items = [{"item": item} | entry for item, entry in zip(self.inline, items, strict=True)]
        value = {
            "lock_id": self.lock_id,
            "items_with_priority": items,
            "expires_at": self.expires_at,
            "created_at": self.created_at,
        }
        return value if self.spoils_at is None else value | {"spoils_at": self.spoils_at}

    @classmethod
    def from_json(cls, value: dict[str, Any], slot: int, errors: list[str | None] | None = None) -> Lock:
        items = value["items_with_priority"]
        taken = [Taken.from_json(entry["taken"]) for entry in items]
        if errors is not None:
            taken = [replace(entry, error=error) for entry, error in zip(taken, errors, strict=True)]
        return cls(
            value["lock_id"],
            taken,
            value["created_at"],
            value["expires_at"],
            slot,
            [entry["item"] for entry in items] if "item" in items[0] else None,
            value.get("spoils_at"),
        )


@dataclass(frozen=True, slots=True)
class Parcel:
    """Items on their way to another queue."""

    taken: list[Taken]
    #: Where it goes, whatever the configuration says later: sent again elsewhere, it would be there twice.
    target: str
    #: Why they are dead letters; None when they are none any more, and go back to where they came from.
    reason: str | None
    at: float

    def to_json(self) -> dict[str, Any]:
        taken = [entry.to_json() for entry in self.taken]
        return {"taken": taken, "target": self.target, "reason": self.reason, "at": self.at}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Parcel:
        taken = [Taken.from_json(entry) for entry in value["taken"]]
        return cls(taken, value["target"], value["reason"], value["at"])


@dataclass(slots=True)
class Group:
    """Items that were given back together."""

    taken: list[Taken]
    #: Until when they are kept back; None when they can be taken again.
    due: float | None = None

    def to_json(self) -> dict[str, Any]:
        value: dict[str, Any] = {"taken": [entry.to_json() for entry in self.taken]}
        return value if self.due is None else value | {"due": self.due}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Group:
        return cls([Taken.from_json(entry) for entry in value["taken"]], value.get("due"))


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
    """Everything that is neither waiting in its lane's order nor gone. Memory grows with the number of these items."""

    def __init__(self) -> None:
        self.locks: dict[str, Lock] = {}
        #: By their slots.
        self.groups: dict[int, Group] = {}
        self.outbox: dict[int, Parcel] = {}
        self.expired: list[str] = []
        #: How many items are locked, and how many are kept back for a while.
        self.locked = 0
        self.postponed = 0
        #: The lock that lies in the metadata.
        self._first: Lock | None = None
        #: The number of the first parcel in the outbox, and that of the next one to come.
        self.first_parcel = 0
        self._next_parcel = 0
        #: What has each item: a lock, the number of a group, or a parcel.
        self._holders: dict[Place, Lock | int | Parcel] = {}
        # How many of the items held lie in each state value, which must not go before them.
        self._held: Counter[str] = Counter()
        # Moments, with what they are for; those that are no longer true are passed over.
        self._expiries: list[tuple[float, str]] = []
        self._dues: list[tuple[float, int]] = []
        self._lock_slots = Slots()
        self._group_slots = Slots()
        self._changed: dict[str, Any] = {}
        self._changed_groups: set[int] = set()

    def holds(self, key: str) -> bool:
        """Whether anything that is held lies in this state value."""
        return key in self._held

    def holder(self, place: Place) -> Lock | Group | Parcel | None:
        holder = self._holders.get(place)
        return self.groups[holder] if isinstance(holder, int) else holder

    def changes(self) -> dict[str, Any]:
        changed, self._changed = self._changed, {}
        for number in self._changed_groups:
            group = self.groups.get(number)
            changed[group_key(number)] = None if group is None else group.to_json()
        self._changed_groups.clear()
        return changed

    # Locks

    def lock(self, lock_id: str, deliveries: Sequence[Delivery], *, created_at: float, expires_at: float) -> Lock:
        slot = self._lock_slots.acquire()
        taken = [delivery.taken for delivery in deliveries]
        ends = (delivery.item.expires_at for delivery in deliveries)
        spoils_at = min((end for end in ends if end is not None), default=None)
        lock = Lock(lock_id, taken, created_at, expires_at, slot, spoils_at=spoils_at)
        if slot == 0 and sum(delivery.item.size for delivery in deliveries) <= INLINE_BYTES:
            lock.inline = _inline(deliveries)
        self._add_lock(lock)
        self._save_lock(lock)
        if slot == 0 and any(lock.errors):
            self._changed[ERRORS] = lock.errors
        return lock

    def extend(self, lock: Lock, expires_at: float) -> None:
        lock.expires_at = expires_at
        heappush(self._expiries, (expires_at, lock.lock_id))
        self._save_lock(lock)

    def release(self, lock: Lock) -> None:
        del self.locks[lock.lock_id]
        self.locked -= len(lock.taken)
        self._lock_slots.release(lock.slot)
        self._let_go(lock.taken)
        if lock.slot:
            self._changed[lock_key(lock.slot)] = None
            return
        self._first = None
        if any(lock.errors):
            self._changed[ERRORS] = None

    def reduce(self, lock: Lock, done: Sequence[Taken]) -> None:
        """Some of what it holds is done with; with the last of it goes the lock."""
        places = {taken.place for taken in done}
        keep = [number for number, taken in enumerate(lock.taken) if taken.place not in places]
        if not keep:
            self.release(lock)
            return
        had_errors = any(lock.errors)
        self.locked -= len(done)
        lock.taken = [lock.taken[number] for number in keep]
        if lock.inline is not None:
            lock.inline = [lock.inline[number] for number in keep]
        self._let_go(done)
        self._save_lock(lock)
        if lock.slot == 0 and had_errors:
            self._changed[ERRORS] = lock.errors if any(lock.errors) else None

    def next_expiry(self) -> float | None:
        while self._expiries:
            expires_at, lock_id = self._expiries[0]
            lock = self.locks.get(lock_id)
            if lock is not None and lock.expires_at == expires_at:
                return expires_at
            heappop(self._expiries)
        return None

    def overdue(self, now: float) -> list[Lock]:
        """The locks whose time is up, in an order that is the same before and after a restart."""
        found: dict[str, Lock] = {}
        while (expires_at := self.next_expiry()) is not None and expires_at <= now:
            _, lock_id = heappop(self._expiries)
            found[lock_id] = self.locks[lock_id]
        return sorted(found.values(), key=by_expiry)

    def remember_expired(self, lock_id: str, max_locks: int) -> None:
        """So that a late answer is told apart from a wrong one."""
        most = max(EXPIRED_REMEMBERED, min(max_locks, MOST_EXPIRED_REMEMBERED))
        self.expired = [*self.expired, lock_id][-most:]
        self._changed[EXPIRED] = self.expired

    # What was given back

    def give_back(self, taken: list[Taken], due: float | None = None) -> int:
        """Keeps them as one group, until they are due if so told; answers its number."""
        number = self._group_slots.acquire()
        self._add_group(number, Group(taken, due))
        self._changed_groups.add(number)
        return number

    def next_postponed(self) -> float | None:
        while self._dues:
            due, number = self._dues[0]
            group = self.groups.get(number)
            if group is not None and group.due == due:
                return due
            heappop(self._dues)
        return None

    def fall_due(self, now: float) -> list[tuple[int, Group]]:
        """The groups that can be taken again from now on, with their numbers."""
        found = []
        while (due := self.next_postponed()) is not None and due <= now:
            _, number = heappop(self._dues)
            group = self.groups[number]
            group.due = None
            self.postponed -= len(group.taken)
            self._changed_groups.add(number)
            found.append((number, group))
        return found

    def forget_returned(self, returned: Returned) -> None:
        """It was taken again, or purged."""
        self._leave_group(returned.group, returned.taken)

    def forget_postponed(self, taken: Taken) -> None:
        number = self._holders[taken.place]
        assert isinstance(number, int)
        self.postponed -= 1
        self._leave_group(number, taken)

    def purge_postponed(self) -> list[Taken]:
        purged = []
        for number, group in list(self.groups.items()):
            if group.due is not None:
                purged += group.taken
                self.postponed -= len(group.taken)
                for taken in list(group.taken):
                    self._leave_group(number, taken)
        return purged

    # Parcels

    def send(self, taken: Sequence[Taken], target: str, reason: str | None, at: float) -> None:
        parcel = Parcel(list(taken), target, reason, at)
        self._add_parcel(self._next_parcel, parcel)
        self._changed[parcel_key(self._next_parcel)] = parcel.to_json()
        self._next_parcel += 1

    def clear_parcel(self, number: int) -> Parcel:
        parcel = self.outbox.pop(number)
        self._find_first_parcel()
        self._let_go(parcel.taken)
        self._changed[parcel_key(number)] = None
        return parcel

    # What is saved

    def to_json(self) -> dict[str, Any]:
        """What of it lies in the metadata: the first lock, and what finds the rest."""
        value: dict[str, Any] = {} if self._first is None else {"_active_lock": self._first.to_json()}
        value["_holdings"] = {
            "locks": self._lock_slots.extent,
            "returned": self._group_slots.extent,
            "parcels": [self.first_parcel, self._next_parcel],
        }
        return value

    @classmethod
    def restore(cls, metadata: dict[str, Any]) -> Generator[tuple[str, ...], list[Any], Holdings]:
        holdings = cls()
        extent = metadata["_holdings"]
        holdings.first_parcel, holdings._next_parcel = extent["parcels"]
        locks = [lock_key(slot) for slot in range(1, extent["locks"])]
        groups = [group_key(number) for number in range(extent["returned"])]
        parcels = [parcel_key(number) for number in range(holdings.first_parcel, holdings._next_parcel)]
        keys = (EXPIRED, ERRORS, *locks, *groups, *parcels)
        found = dict(zip(keys, (yield keys), strict=True))
        holdings.expired = found[EXPIRED] or []
        for slot, value in enumerate([metadata.get("_active_lock"), *(found[key] for key in locks)]):
            if value is not None:
                holdings._lock_slots.occupy(slot)
                holdings._add_lock(Lock.from_json(value, slot, None if slot else found[ERRORS]))
        for number, key in enumerate(groups):
            if found[key] is not None:
                holdings._group_slots.occupy(number)
                holdings._add_group(number, Group.from_json(found[key]))
        for number, key in enumerate(parcels, holdings.first_parcel):
            if found[key] is not None:
                holdings._add_parcel(number, Parcel.from_json(found[key]))
        holdings._find_first_parcel()
        return holdings

    # Inside

    def _add_lock(self, lock: Lock) -> None:
        self.locks[lock.lock_id] = lock
        if lock.slot == 0:
            self._first = lock
        self.locked += len(lock.taken)
        heappush(self._expiries, (lock.expires_at, lock.lock_id))
        self._hold(lock.taken, lock)

    def _add_group(self, number: int, group: Group) -> None:
        self.groups[number] = group
        if group.due is not None:
            heappush(self._dues, (group.due, number))
            self.postponed += len(group.taken)
        self._hold(group.taken, number)

    def _add_parcel(self, number: int, parcel: Parcel) -> None:
        self.outbox[number] = parcel
        self._hold(parcel.taken, parcel)

    def _find_first_parcel(self) -> None:
        while self.first_parcel < self._next_parcel and self.first_parcel not in self.outbox:
            self.first_parcel += 1

    def _leave_group(self, number: int, taken: Taken) -> None:
        members = self.groups[number].taken
        members.remove(taken)
        self._let_go([taken])
        if not members:
            del self.groups[number]
            self._group_slots.release(number)
        self._changed_groups.add(number)

    def _save_lock(self, lock: Lock) -> None:
        if lock.slot:
            self._changed[lock_key(lock.slot)] = lock.to_json()

    def _hold(self, taken: Iterable[Taken], holder: Lock | int | Parcel) -> None:
        for entry in taken:
            self._holders[entry.place] = holder
            self._held.update(entry.keys)

    def _let_go(self, taken: Iterable[Taken]) -> None:
        for entry in taken:
            del self._holders[entry.place]
            for key in entry.keys:
                self._held[key] -= 1
                if not self._held[key]:
                    del self._held[key]


def by_expiry(lock: Lock) -> tuple[float, Place]:
    return lock.expires_at, lock.taken[0].place


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


def lock_key(slot: int) -> str:
    return f"lock-{slot}"


def group_key(group: int) -> str:
    return f"returned-{group}"


def parcel_key(number: int) -> str:
    return f"parcel-{number}"
