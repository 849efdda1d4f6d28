"""Items that are out of their lane's order: locked items, redeliveries, and transfers to other queues.

Each lock, redelivery and transfer has its own state value, so that a push does not rewrite it. Only the first lock is
in the queue's metadata, as ``_active_lock``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from heapq import heappop, heappush, nsmallest
from typing import TYPE_CHECKING, Any

import orjson

from holdfast.pushpop.core.budgets import MAX_LOCKS_SHOWN
from holdfast.pushpop.core.items import Delivered
from holdfast.pushpop.core.outgoing import OutgoingTransfers, Transfer, transfer_keys
from holdfast.pushpop.core.slots import Slots
from holdfast.runtime.serialization import load

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Sequence

    from holdfast.pushpop.core.items import Delivery, Place
    from holdfast.pushpop.core.lanes import Returned

# The metadata's lock includes payloads only while they are small: every push rewrites it.
INLINE_BYTES = 2048
EXPIRED_REMEMBERED = 100
MOST_EXPIRED_REMEMBERED = 1000

EXPIRED = "expired-locks"
# The last errors of the items of the metadata's lock.
ERRORS = "lock-errors"


@dataclass(slots=True)
class Lock:
    lock_id: str
    taken: list[Delivered]
    created_at: float
    expires_at: float
    slot: int
    #: The payloads, if they are small enough to be stored with the lock.
    inline: list[Any] | None = None
    #: When its first item expires; checked when the items are returned.
    spoils_at: float | None = None

    @property
    def errors(self) -> list[str | None]:
        return [taken.error for taken in self.taken]

    def to_json(self) -> dict[str, Any]:
        items: list[dict[str, Any]] = [
            {
                "priority": taken.place.priority,
                # Errors can be long, and every push rewrites the first lock.
                "delivered": taken.to_json(with_error=self.slot > 0),
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
        taken = [Delivered.from_json(entry["delivered"]) for entry in items]
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


@dataclass(slots=True)
class Redelivery:
    """Items that were returned to the queue together."""

    taken: list[Delivered]
    #: When they become available again; None if they are available now.
    due: float | None = None

    def to_json(self) -> dict[str, Any]:
        value: dict[str, Any] = {"delivered": [entry.to_json() for entry in self.taken]}
        return value if self.due is None else value | {"due": self.due}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Redelivery:
        return cls([Delivered.from_json(entry) for entry in value["delivered"]], value.get("due"))


class InFlight:
    """The locks, redeliveries and transfers of a queue. Memory grows with the number of their items."""

    def __init__(self) -> None:
        self.locks: dict[str, Lock] = {}
        #: Redeliveries by slot.
        self.groups: dict[int, Redelivery] = {}
        self.outgoing = OutgoingTransfers()
        self.expired: list[str] = []
        #: The numbers of items that are locked, and that are returned with a delay.
        self.locked = 0
        self.postponed = 0
        #: The lock that is stored in the metadata.
        self._first: Lock | None = None
        #: The lock, the redelivery's number or the transfer that has each item.
        self._holders: dict[Place, Lock | int | Transfer] = {}
        # The number of these items in each state value, which must not be deleted before them.
        self._held: Counter[str] = Counter()
        # Heaps of times; outdated entries are skipped.
        self._expiries: list[tuple[float, str]] = []
        self._dues: list[tuple[float, int]] = []
        self._lock_slots = Slots()
        self._group_slots = Slots()
        self._changed: dict[str, Any] = {}
        self._changed_groups: set[int] = set()

    @property
    def bytes(self) -> int:
        """The size of the items that are locked, returned or in a transfer."""
        groups = (*self.locks.values(), *self.groups.values(), *self.outgoing)
        return sum(taken.size for group in groups for taken in group.taken)

    def holds(self, key: str) -> bool:
        """Returns whether this state value has any of these items."""
        return key in self._held

    def holder(self, place: Place) -> Lock | Redelivery | Transfer | None:
        holder = self._holders.get(place)
        return self.groups[holder] if isinstance(holder, int) else holder

    def changes(self) -> dict[str, Any]:
        changed, self._changed = self._changed | self.outgoing.changes(), {}
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

    def reduce(self, lock: Lock, done: Sequence[Delivered]) -> None:
        """Removes these items from a lock, and the lock itself with its last item."""
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

    def release_all(self) -> list[Delivered]:
        """Ends all locks, expired ones included, as if they had never been; returns their items."""
        released = [taken for lock in self.locks.values() for taken in lock.taken]
        for lock in list(self.locks.values()):
            self.release(lock)
        if self.expired:
            self.expired = []
            self._changed[EXPIRED] = None
        return released

    def first_locks(self) -> list[Lock]:
        """Returns the locks that expire first, as many as are shown."""
        return nsmallest(MAX_LOCKS_SHOWN, self.locks.values(), key=by_expiry)

    def next_expiry(self) -> float | None:
        while self._expiries:
            expires_at, lock_id = self._expiries[0]
            lock = self.locks.get(lock_id)
            if lock is not None and lock.expires_at == expires_at:
                return expires_at
            heappop(self._expiries)
        return None

    def overdue(self, now: float) -> list[Lock]:
        """Returns the expired locks, in an order that is the same before and after a restart."""
        found: dict[str, Lock] = {}
        while (expires_at := self.next_expiry()) is not None and expires_at <= now:
            _, lock_id = heappop(self._expiries)
            found[lock_id] = self.locks[lock_id]
        return sorted(found.values(), key=by_expiry)

    def remember_expired(self, lock_id: str, max_locks: int) -> None:
        """Remembers an expired lock, so that a late acknowledgement gets LOCK_EXPIRED instead of INVALID_LOCK_ID."""
        most = max(EXPIRED_REMEMBERED, min(max_locks, MOST_EXPIRED_REMEMBERED))
        self.expired = [*self.expired, lock_id][-most:]
        self._changed[EXPIRED] = self.expired

    # Redeliveries

    def give_back(self, taken: list[Delivered], due: float | None = None) -> int:
        """Keeps the items as one redelivery, until ``due`` if given; returns its number."""
        number = self._group_slots.acquire()
        self._add_group(number, Redelivery(taken, due))
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

    def fall_due(self, now: float) -> list[tuple[int, Redelivery]]:
        """Returns the redeliveries that have become due, with their numbers."""
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
        """Removes a returned item that was delivered again, or purged."""
        self._leave_group(returned.group, returned.taken)

    def forget_postponed(self, taken: Delivered) -> None:
        number = self._holders[taken.place]
        assert isinstance(number, int)
        self.postponed -= 1
        self._leave_group(number, taken)

    def purge_postponed(self) -> list[Delivered]:
        purged = []
        for number, group in list(self.groups.items()):
            if group.due is not None:
                purged += group.taken
                self.postponed -= len(group.taken)
                for taken in list(group.taken):
                    self._leave_group(number, taken)
        return purged

    # Transfers

    def send(self, taken: Sequence[Delivered], target: str, reason: str | None, at: float) -> None:
        transfer = self.outgoing.add(taken, target, reason, at)
        self._hold(transfer.taken, transfer)

    def clear_transfer(self, number: int) -> Transfer:
        transfer = self.outgoing.remove(number)
        self._let_go(transfer.taken)
        return transfer

    # Saved state

    def to_json(self) -> dict[str, Any]:
        """Returns its part of the metadata: the first lock, and the number of slots to read."""
        value: dict[str, Any] = {} if self._first is None else {"_active_lock": self._first.to_json()}
        value["_in_flight"] = {
            "locks": self._lock_slots.extent,
            "redeliveries": self._group_slots.extent,
            "transfers": self.outgoing.to_json(),
        }
        return value

    @classmethod
    def restore(cls, metadata: dict[str, Any]) -> Generator[tuple[str, ...], list[Any], InFlight]:
        in_flight = cls()
        extent = metadata["_in_flight"]
        locks = [lock_key(slot) for slot in range(1, extent["locks"])]
        groups = [group_key(number) for number in range(extent["redeliveries"])]
        outgoing = transfer_keys(extent["transfers"])
        keys = (EXPIRED, ERRORS, *locks, *groups, *outgoing)
        found = dict(zip(keys, (yield keys), strict=True))
        in_flight.expired = found[EXPIRED] or []
        for slot, value in enumerate([metadata.get("_active_lock"), *(found[key] for key in locks)]):
            if value is not None:
                in_flight._lock_slots.occupy(slot)
                in_flight._add_lock(Lock.from_json(value, slot, None if slot else found[ERRORS]))
        for number, key in enumerate(groups):
            if found[key] is not None:
                in_flight._group_slots.occupy(number)
                in_flight._add_group(number, Redelivery.from_json(found[key]))
        for transfer in in_flight.outgoing.restore(extent["transfers"], (found[key] for key in outgoing)):
            in_flight._hold(transfer.taken, transfer)
        return in_flight

    # Private

    def _add_lock(self, lock: Lock) -> None:
        self.locks[lock.lock_id] = lock
        if lock.slot == 0:
            self._first = lock
        self.locked += len(lock.taken)
        heappush(self._expiries, (lock.expires_at, lock.lock_id))
        self._hold(lock.taken, lock)

    def _add_group(self, number: int, group: Redelivery) -> None:
        self.groups[number] = group
        if group.due is not None:
            heappush(self._dues, (group.due, number))
            self.postponed += len(group.taken)
        self._hold(group.taken, number)

    def _leave_group(self, number: int, taken: Delivered) -> None:
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

    def _hold(self, taken: Iterable[Delivered], holder: Lock | int | Transfer) -> None:
        for entry in taken:
            self._holders[entry.place] = holder
            self._held.update(entry.keys)

    def _let_go(self, taken: Iterable[Delivered]) -> None:
        for entry in taken:
            del self._holders[entry.place]
            for key in entry.keys:
                self._held[key] -= 1
                if not self._held[key]:
                    del self._held[key]


def by_expiry(lock: Lock) -> tuple[float, Place]:
    return lock.expires_at, lock.taken[0].place


def _inline(deliveries: Sequence[Delivery]) -> list[Any] | None:
    """Returns the payloads, or None if one cannot be stored as JSON by every state store."""
    # PostgreSQL's jsonb has no U+0000, and daprd (1.18.2) rejects a number beyond the range of 64-bit floats.
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
    return f"redelivery-{group}"
