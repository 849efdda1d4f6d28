"""One queue as a state machine: takes commands and the time, returns replies and state changes.

No I/O and no clock. A command that needs items is a generator: it yields state keys and is sent their values. A refused
command has changed nothing. ``changes`` returns the state values to save in one transaction.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from holdfast.errors import (
    Conflict,
    InvalidLockId,
    InvalidRequest,
    LockExpired,
    LockNotFound,
    NotFound,
    QueueLocked,
)
from holdfast.kinds import CONFIG, METADATA
from holdfast.names import DEFAULT_TENANT
from holdfast.pushpop.core.budgets import MAX_POP_BYTES, ResponseBudget
from holdfast.pushpop.core.config_replication import ReplicatedConfig
from holdfast.pushpop.core.dead_letters import DeadLetters
from holdfast.pushpop.core.format_version import FORMAT, refuse_other_format
from holdfast.pushpop.core.in_flight import Lock, Redelivery, by_expiry
from holdfast.pushpop.core.index_entry import IndexEntry
from holdfast.pushpop.core.item_store import ItemStore
from holdfast.pushpop.core.items import Delivered, Delivery, Place, lock_owner
from holdfast.pushpop.core.pushes import Pushes
from holdfast.pushpop.core.returns import Returns, with_error
from holdfast.pushpop.core.transfers import RESEND_SECONDS, Transfers

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.pushpop.api.config import QueueConfig
    from holdfast.pushpop.core.items import Pushed
    from holdfast.runtime.reads import Reads


MIN_TTL, DEFAULT_TTL, MAX_TTL = 1, 30, 300
MAX_POP = 100

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


@dataclass(slots=True)
class Completion:
    """The outcome of completing items by their ids."""

    completed: int = 0
    ignored: int = 0
    not_leased: list[str] = field(default_factory=list)


class Queue:
    """The state of one queue, or of one partition. Other queues that it names are in the same tenant."""

    def __init__(
        self,
        name: str,
        config: QueueConfig,
        partition: int = 0,
        tenant: str = DEFAULT_TENANT,
        store: ItemStore | None = None,
    ) -> None:
        self.name = name
        self.partition = partition
        self.settings = ReplicatedConfig(name, partition, config)
        self.store = ItemStore(name) if store is None else store
        self.counters = dict.fromkeys(COUNTERS, 0)
        self.transfers = Transfers(name, partition, tenant, self.store, self.counters)
        self.dead_letters = DeadLetters(partition, self.store, self.transfers, self.counters)
        self.returns = Returns(name, self.settings, self.store, self.transfers, self.counters)
        self.index_entry = IndexEntry()
        #: How long each completed lock was held.
        self.held_seconds: list[float] = []
        self.pushes = Pushes(partition, self.settings, self.store, self.counters)
        self._dirty = False

    @property
    def config(self) -> QueueConfig:
        return self.settings.config

    @property
    def count(self) -> int:
        """The number of waiting and delayed items."""
        return self.store.waiting + self.store.delayed

    @property
    def available(self) -> bool:
        """Whether a pop would return an item."""
        free = len(self.store.in_flight.locks) < self.config.max_locks
        return self.store.waiting > 0 and free and not self.config.paused

    @property
    def needs_indexing(self) -> bool:
        """Whether the queue was used and is not in the index yet."""
        return self._is_used and not self.index_entry.listed

    @property
    def needs_removal_from_index(self) -> bool:
        """Whether the queue was deleted, was not used since, and may still be in the index."""
        return self.index_entry.removal_pending and not self._is_used

    @property
    def _is_used(self) -> bool:
        """Whether the queue is to be listed; the first partition stands for all."""
        return not self.partition and (self.counters["pushed"] > 0 or self.config.partitions > 1)

    @property
    def deleted(self) -> bool:
        """Whether the queue, or this partition of it, was deleted and not used since."""
        return self.settings.deleted and (self.partition > 0 or not self.counters["pushed"])

    def next_deadline(self, now: float) -> float | None:
        """Returns when the queue needs a turn even if no call comes."""
        moments = [self.store.next_moment(), self.pushes.next_end()]
        if self.store.has_deferred_deletes:
            moments.append(now)
        moments.append(self.transfers.next_attempt(now))
        if self.needs_indexing or self.needs_removal_from_index or self.settings.pending_partitions:
            moments.append(now + RESEND_SECONDS)
        moments.append(self.settings.next_end())
        return min((moment for moment in moments if moment is not None), default=None)

    def changes(self) -> dict[str, Any]:
        """Returns the state values that changed since the last call; None deletes one."""
        changed = self.store.changes() | self.pushes.changes() | self.transfers.changes()
        self._dirty = self._dirty or self.store.inline_changed
        configured, config = self.settings.changed()
        if configured:
            changed[CONFIG] = config
        if changed or self._dirty:
            changed[METADATA] = self._metadata()
        self._dirty = False
        return changed

    def catch_up(self, now: float) -> Reads[None]:
        """Processes what is overdue: expired locks, due and expired items. Comes before every command."""
        for lock in self.store.in_flight.overdue(now):
            self.store.in_flight.remember_expired(lock.lock_id, self.config.max_locks)
            self.counters["expired"] += len(lock.taken)
            self._dirty = True
            yield from self.returns.fail(lock, list(lock.taken), now, failed_at=lock.expires_at)
        if (moment := self.store.next_moment()) is not None and moment <= now:
            self._dirty = True
            expired = yield from self.store.catch_up(now, keep=self.returns.expired_target is not None)
            yield from self.returns.expire(expired, now)
        swept = yield from self.store.sweep()
        self._dirty = swept or self._dirty
        if (end := self.settings.next_end()) is not None and end <= now:
            self.abort_deletion()
        self.pushes.forget(now)

    # Pushing and popping

    def push(self, now: float, items: Sequence[Pushed], elsewhere: int = 0) -> Reads[tuple[list[str], int]]:
        """Pushes all items or none. Returns their ids, and the number of new ones."""
        pushed = yield from self.pushes.push(now, items, elsewhere)
        self._dirty = True
        return pushed

    def pop(self, now: float, count: int) -> Reads[list[Delivery]]:
        """Removes and returns the first items."""
        self._refuse_when_locked()
        deliveries = yield from self._take(now, count)
        yield from self.store.forget(delivery.taken for delivery in deliveries)
        return deliveries

    def pop_with_ack(
        self, now: float, count: int, ttl_seconds: int, lock_id: str
    ) -> Reads[tuple[list[Delivery], Lock | None]]:
        """Returns the first items under a lock; no lock if the queue is empty."""
        self._refuse_when_locked()
        deliveries = yield from self._take(now, count)
        if not deliveries:
            return [], None
        ttl = min(max(ttl_seconds, MIN_TTL), MAX_TTL)
        return deliveries, self.store.in_flight.lock(lock_id, deliveries, created_at=now, expires_at=now + ttl)

    # Locks

    def acknowledge(self, now: float, lock_id: str) -> Reads[int]:
        """Removes the locked items. Returns how many there were."""
        lock = self._active_lock(lock_id)
        taken = list(lock.taken)
        yield from self._finish(lock, taken, now)
        return len(taken)

    def complete(self, now: float, ids: Iterable[str]) -> Reads[Completion]:
        """Removes the locked items among these, whichever locks hold them."""
        outcome = Completion()
        leased: dict[str, dict[Place, Delivered]] = defaultdict(dict)
        for item_id in ids:
            found = yield from self.store.find(item_id, self.partition)
            if found is None or found.taken is None or not isinstance(found.holder, Lock):
                if found is None:
                    outcome.ignored += 1
                else:
                    outcome.not_leased.append(item_id)
            elif found.taken.place in leased[found.holder.lock_id]:
                outcome.ignored += 1  # the id was given twice
            else:
                leased[found.holder.lock_id][found.taken.place] = found.taken
        for lock_id, items in leased.items():
            yield from self._finish(self.store.in_flight.locks[lock_id], list(items.values()), now)
            outcome.completed += len(items)
        return outcome

    def abandon(
        self,
        now: float,
        lock_id: str,
        error: str | None,
        delay_seconds: float | None = None,
        ids: Sequence[str] | None = None,
        *,
        counted: bool = True,
    ) -> Reads[int]:
        """Returns the locked items, or the given ones, to the queue; ``counted=False`` takes the delivery off.

        Without a delay, the queue's back-off applies to items that are abandoned with an error.
        """
        lock = self._active_lock(lock_id)
        taken = with_error(self._among(lock, ids), error)
        if not counted:
            taken = _undelivered(taken)
        self.counters["abandoned"] += len(taken)
        self._dirty = True
        if delay_seconds is None and error is not None and counted:
            yield from self.returns.fail(lock, taken, now, failed_at=now)
        else:
            yield from self.returns.give_back(lock, taken, now, due=now + (delay_seconds or 0.0))
        return len(taken)

    def abandon_owned_by(self, now: float, owner: str, *, counted: bool = True) -> Reads[int]:
        """Returns the items under the locks of this owner to the queue; ``counted=False`` takes the delivery off."""
        count = 0
        for lock in sorted(self.store.in_flight.locks.values(), key=by_expiry):
            if lock_owner(lock.lock_id) == owner:
                taken = list(lock.taken) if counted else _undelivered(lock.taken)
                count += len(taken)
                self.counters["abandoned"] += len(taken)
                self._dirty = True
                yield from self.returns.give_back(lock, taken, now, due=now)
        return count

    def extend(self, now: float, lock_id: str, additional_seconds: int) -> float:
        """Extends the lock, to at most the longest time to live from now."""
        lock = self._active_lock(lock_id)
        self.store.in_flight.extend(lock, min(lock.expires_at + additional_seconds, now + MAX_TTL))
        self._dirty = True
        return lock.expires_at

    def dead_letter(self, now: float, lock_id: str, reason: str | None, ids: Sequence[str] | None = None) -> int:
        """Turns the locked items, or the given ones, into dead letters."""
        lock = self._active_lock(lock_id)
        target = self.returns.dead_letter_queue
        if target is None:
            raise InvalidRequest("Items of a dead-letter queue cannot be dead-lettered: acknowledge or redrive them.")
        taken = self._among(lock, ids)
        self.store.in_flight.reduce(lock, taken)
        self.transfers.dead_letter(taken, target, reason or "rejected", now)
        return len(taken)

    def lock_named(self, prefix: str) -> str:
        """Returns the id of the lock with this prefix, for operators, who do not have the id."""
        found = [lock_id for lock_id in self.store.in_flight.locks if lock_id.startswith(prefix)]
        if not found:
            raise LockNotFound("No active lock has an id with this prefix.")
        if len(found) > 1:
            raise Conflict("Several active locks have an id with this prefix: use a longer one.")
        return found[0]

    def locked(self, count: int = MAX_POP, size: int = MAX_POP_BYTES) -> Reads[list[tuple[Lock, list[Delivery]]]]:
        """Returns the locks that expire first, with up to ``count`` of their items."""
        budget = ResponseBudget(count, size)
        shown = []
        for lock in self.store.in_flight.first_locks():
            deliveries: list[Delivery] = []
            for taken in lock.taken:
                if budget.full or not budget.add(delivery := (yield from self.store.deliver(taken))):
                    break
                deliveries.append(delivery)
            shown.append((lock, deliveries))
        return shown

    # The queue as a whole

    def configure(self, config: QueueConfig, elsewhere: int = 0) -> None:
        """Changes the configuration; the other partitions become pending."""
        self.settings.change(config, self.store.load + elsewhere)

    def told(self, partition: int, version: int) -> None:
        """Records that a partition has this version of the configuration."""
        self._dirty = self.settings.told(partition, version) or self._dirty

    def mark_indexed(self) -> None:
        wanted = self._is_used or self.settings.generation == 0
        self._dirty = self.index_entry.added(wanted=wanted) or self._dirty

    def mark_removed_from_index(self) -> None:
        self._dirty = self.index_entry.removed() or self._dirty

    # Deleting the queue

    def begin_deletion(self, now: float) -> tuple[int, range]:
        """Announces the deletion of an empty queue. Returns its version, and the partitions to close with it."""
        self.settings.refuse_in_partition()
        self._refuse_to_lose_items()
        others = range(1, self.config.partitions)
        if not others:
            return self.settings.version, others
        self._dirty = True
        return self.settings.begin_deletion(now), others

    def close_for_deletion(self, version: int) -> None:
        """Stops pushes to this partition, which must be empty, until the deletion is finished or given up."""
        self._refuse_to_lose_items()
        self.settings.close(version)
        self._dirty = True

    def abort_deletion(self) -> None:
        """Gives up a deletion that was begun."""
        self._dirty = self.settings.abort_deletion() or self._dirty

    def delete(self, defaults: QueueConfig, version: int | None, *, force: bool) -> int:
        """Deletes the queue; the other partitions become pending, and erase their part when they are told.

        Without ``force`` it must be empty, and its partitions closed with this version. Returns the number of items.
        """
        self.settings.refuse_in_partition()
        used = self.settings.version or self.store.load or any(self.counters.values())
        if not used and self.settings.generation == 0:
            return 0
        if not force:
            self._refuse_to_lose_items()
        if not self.deleted:
            self.settings.delete(defaults, version)
            self.index_entry.deleted()
            return self._erase()
        return 0

    def apply_config(self, config: QueueConfig, version: int, generation: int) -> int:
        """Takes over the queue's configuration. Returns the number of items that were erased with a deletion."""
        self._dirty = self._dirty or version > self.settings.version
        return self._erase() if self.settings.apply_config(config, version, generation) else 0

    def purge(self) -> int:
        """Drops all waiting and delayed items, but not locked ones."""
        purged = self.store.purge()
        self.counters["purged"] += purged
        self._dirty = self._dirty or purged > 0
        return purged

    def delete_dead_letters(self, letters: Sequence[Delivery]) -> Reads[None]:
        """Deletes dead letters."""
        yield from self.dead_letters.delete(letters)
        # Those at the head of a lane change only the metadata, where the lane begins.
        self._dirty = self._dirty or bool(letters)

    def revoke(self, item_id: str) -> Reads[None]:
        """Removes one item that is not locked."""
        found = yield from self.store.find(item_id, self.partition)
        if found is None:
            raise NotFound("There is no item with this id.")
        if isinstance(found.holder, Lock):
            raise Conflict("The item is locked by a consumer: requeue the lock first, or wait until it ends.")
        if found.taken is None:
            assert found.shelved is not None
            yield from self.store.discard_delayed(found.shelved)
        else:
            if isinstance(found.holder, Redelivery) and found.holder.due is not None:
                self.store.in_flight.forget_postponed(found.taken)
            else:
                yield from self.store.withdraw(found.taken)
            yield from self.store.forget([found.taken])
        self.counters["revoked"] += 1
        self._dirty = True

    # Private

    def _refuse_to_lose_items(self) -> None:
        if load := self.store.load:
            raise Conflict(
                f"The queue has {load} item{'' if load == 1 else 's'}, waiting, delayed or locked: "
                "delete it with force=true to lose them."
            )

    def _erase(self) -> int:
        erased = self.store.erase(self.settings.generation)
        self.pushes.erase()
        self.transfers.erase()
        for name in self.counters:
            self.counters[name] = 0
        self._dirty = True
        return erased

    def _take(self, now: float, count: int) -> Reads[list[Delivery]]:
        found, expired = yield from self.store.take(now, count)
        yield from self.returns.expire(expired, now)
        taken = [
            Delivery(replace(delivery.taken, deliveries=delivery.taken.deliveries + 1), delivery.item)
            for delivery in found
        ]
        self.counters["redelivered"] += sum(delivery.taken.deliveries > 1 for delivery in taken)
        self.counters["popped"] += len(taken)
        self._dirty = self._dirty or bool(taken or expired)
        return taken

    def _refuse_when_locked(self) -> None:
        if len(self.store.in_flight.locks) >= self.config.max_locks:
            raise QueueLocked(lock_expires_at=self.store.in_flight.next_expiry())

    def _active_lock(self, lock_id: str) -> Lock:
        if lock_id in self.store.in_flight.expired:
            raise LockExpired
        if not self.store.in_flight.locks:
            raise LockNotFound
        lock = self.store.in_flight.locks.get(lock_id)
        if lock is None:
            raise InvalidLockId
        return lock

    def _finish(self, lock: Lock, taken: Sequence[Delivered], now: float) -> Reads[None]:
        self.held_seconds.append(max(0.0, now - lock.created_at))
        self.store.in_flight.reduce(lock, taken)
        self.counters["acknowledged"] += len(taken)
        self._dirty = True
        yield from self.store.forget(taken)

    def _among(self, lock: Lock, ids: Sequence[str] | None) -> list[Delivered]:
        """Returns the items of a lock, or the given ones."""
        if ids is None:
            return list(lock.taken)
        held = {taken.item_id(self.partition): taken for taken in lock.taken}
        unknown = next((item_id for item_id in ids if item_id not in held), None)
        if unknown is not None:
            raise InvalidRequest(f"ids: this lock does not hold {unknown}.")
        return [held[item_id] for item_id in dict.fromkeys(ids)]

    # Saved state

    def _metadata(self) -> dict[str, Any]:
        value = self.store.to_json()
        value["_counters"] = self.counters
        value["_format"] = FORMAT
        for key, kept in (
            ("_deleted", self.deleted),
            ("_is_dead_letter_queue", self.transfers.is_dead_letter_queue),
        ):
            if kept:
                value[key] = kept
        return value | self.index_entry.to_json() | self.settings.to_json() | self.pushes.to_json()

    @classmethod
    def restore(
        cls,
        name: str,
        config: QueueConfig,
        metadata: dict[str, Any] | None,
        partition: int = 0,
        tenant: str = DEFAULT_TENANT,
    ) -> Reads[Queue]:
        """Returns the queue as it was saved; without metadata, an empty one."""
        if metadata is None:
            return cls(name, config, partition, tenant)
        refuse_other_format(f"Queue {name}", metadata)
        queue = cls(name, config, partition, tenant, (yield from ItemStore.restore(name, metadata)))
        queue.counters |= metadata["_counters"]
        queue.index_entry.restore(metadata)
        queue.transfers.is_dead_letter_queue = metadata.get("_is_dead_letter_queue", False)
        queue.settings.restore(metadata)
        yield from queue.pushes.restore(metadata)
        return queue


def _undelivered(taken: Iterable[Delivered]) -> list[Delivered]:
    """Returns the items without their current delivery."""
    return [replace(entry, deliveries=entry.deliveries - 1) for entry in taken]
