"""One queue as a state machine: commands and the present moment in, state changes and replies out.

No I/O and no clock. A command that has to see items asks for their segments: it is a generator that yields state
keys and is sent their values. A command that is refused has changed nothing. What changed is in ``changes``, to be
saved in one transaction.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from holdfast.errors import (
    Capacity,
    Conflict,
    InvalidLockId,
    InvalidRequest,
    LockExpired,
    LockNotFound,
    NotFound,
    QueueLocked,
    RateLimited,
)
from holdfast.identity import DEAD_LETTER_SUFFIX, DEFAULT_TENANT
from holdfast.pushpop.bounds import Basket
from holdfast.pushpop.calendar import moment_of, tick_of
from holdfast.pushpop.duplicates import Duplicates
from holdfast.pushpop.format import FORMAT, refuse_other_format
from holdfast.pushpop.holdings import Group, Lock, by_expiry
from holdfast.pushpop.items import Delivery, ItemId, Place, Taken, lock_mark
from holdfast.pushpop.pace import Pace
from holdfast.pushpop.post import Post
from holdfast.pushpop.settings import Settings
from holdfast.pushpop.stock import Stock

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.pushpop.config import QueueConfig
    from holdfast.pushpop.items import Pushed
    from holdfast.pushpop.steps import Steps

METADATA = "metadata"
CONFIG = "config"

MIN_TTL, DEFAULT_TTL, MAX_TTL = 1, 30, 300
MAX_POP = 100
# Each is a part of the metadata, which every push rewrites.
MAX_PRIORITIES = 1000

# What was to be sent, and may have been lost with the process, is sent again after this.
RESEND_SECONDS = 5.0
# How soon there may be room in a full queue, for those who ask.
ROOM_SECONDS = 1

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
    """What became of ids that were to be completed."""

    completed: int = 0
    ignored: int = 0
    not_leased: list[str] = field(default_factory=list)


class Queue:
    """The state of one queue, or of one partition of it. Other queues it names are those of its tenant."""

    def __init__(
        self,
        name: str,
        config: QueueConfig,
        partition: int = 0,
        tenant: str = DEFAULT_TENANT,
        stock: Stock | None = None,
    ) -> None:
        self.name = name
        self.partition = partition
        self.settings = Settings(name, partition, config)
        self.stock = Stock(name) if stock is None else stock
        self.counters = dict.fromkeys(COUNTERS, 0)
        self.post = Post(name, partition, tenant, self.stock, self.counters)
        self.listed = False
        #: How long each lock that was answered had been held.
        self.held_seconds: list[float] = []
        self._duplicates = Duplicates(partition)
        self._pace = Pace()
        self._dirty = False

    @property
    def config(self) -> QueueConfig:
        return self.settings.config

    @property
    def count(self) -> int:
        """What could be taken now or later."""
        return self.stock.waiting + self.stock.delayed

    @property
    def available(self) -> bool:
        """Whether a pop would get something."""
        return self.stock.waiting > 0 and len(self.stock.holdings.locks) < self.config.max_locks

    @property
    def dead_letter_queue(self) -> str | None:
        """Where dead letters go; a dead-letter queue has none of its own."""
        if self.post.takes_dead_letters or self.name.endswith(DEAD_LETTER_SUFFIX):
            return None
        return self.config.dead_letter_queue or self.name + DEAD_LETTER_SUFFIX

    @property
    def expired_go_to(self) -> str | None:
        """Where what expires becomes a dead letter; None where it is dropped."""
        return self.dead_letter_queue if self.config.expired_to_dead_letters else None

    def is_spent(self, taken: Taken) -> bool:
        """Whether it was delivered so often that it becomes a dead letter when it comes back."""
        often = taken.deliveries >= self.config.max_deliveries and not self.config.worker_queue
        return often and self.dead_letter_queue is not None

    @property
    def to_be_listed(self) -> bool:
        """Whether anything was ever put into it; one of several partitions stands for all."""
        return not (self.listed or self.partition) and (self.counters["pushed"] > 0 or self.config.partitions > 1)

    def next_deadline(self, now: float) -> float | None:
        """When the queue has to be looked at again even if nobody asks."""
        moments = [self.stock.next_moment(), self._duplicates.next_end(self.config.dedup_window_seconds)]
        if self.stock.has_garbage:
            moments.append(now)
        if self.post.waits or self.to_be_listed or self.settings.untold:
            moments.append(now + RESEND_SECONDS)
        return min((moment for moment in moments if moment is not None), default=None)

    def changes(self) -> dict[str, Any]:
        """The state values that changed since the last call; None deletes one."""
        changed = self.stock.changes() | self._duplicates.changes() | self.post.changes()
        self._dirty = self._dirty or self.stock.inline_changed
        if (config := self.settings.changed()) is not None:
            changed[CONFIG] = config
        if changed or self._dirty:
            changed[METADATA] = self._metadata()
        self._dirty = False
        return changed

    def catch_up(self, now: float) -> Steps[None]:
        """What happens by itself, as far as it is due. Every command comes after this."""
        for lock in self.stock.holdings.overdue(now):
            self.stock.holdings.remember_expired(lock.lock_id, self.config.max_locks)
            self.counters["expired"] += len(lock.taken)
            yield from self._give_back(lock, list(lock.taken), now, None)
        if (moment := self.stock.next_moment()) is not None and moment <= now:
            self._dirty = True
            spoiled = yield from self.stock.catch_up(now, keep=self.expired_go_to is not None)
            yield from self._spoil(spoiled, now)
        self._dirty = self.stock.sweep() or self._dirty
        self._duplicates.forget(now, self.config.dedup_window_seconds)

    # Pushing and popping

    def push(self, now: float, items: Sequence[Pushed], elsewhere: int = 0) -> Steps[tuple[list[str], int]]:
        """All of them, or none. Answers their ids, and how many were new."""
        window = self.config.dedup_window_seconds
        new = self._duplicates.new_of(items, now, window)
        self._refuse_too_many(now, [items[number] for number in new], elsewhere)
        ids: list[str] = [""] * len(items)
        at_once = []
        for number in new:
            if items[number].delay_seconds:
                ids[number] = yield from self._shelve(now, items[number])
            else:
                at_once.append(number)
        ttl = self.config.default_ttl_seconds
        fresh = [(items[number].priority, items[number].item(now, ttl)) for number in at_once]
        for number, place in zip(at_once, (yield from self.stock.append(fresh)), strict=True):
            ids[number] = place.item_id(self.partition)
        self._duplicates.settle(items, ids, now, window)
        self.counters["pushed"] += len(new)
        self.counters["deduplicated"] += len(items) - len(new)
        self._dirty = True
        if self.config.rate_per_second is not None:
            self._pace.spend(len(new))
        return ids, len(new)

    def pop(self, now: float, count: int) -> Steps[list[Delivery]]:
        """Takes the first ones for good."""
        self._refuse_when_locked()
        deliveries = yield from self._take(now, count)
        yield from self.stock.forget(delivery.taken for delivery in deliveries)
        return deliveries

    def pop_with_ack(
        self, now: float, count: int, ttl_seconds: int, lock_id: str
    ) -> Steps[tuple[list[Delivery], Lock | None]]:
        """Takes the first ones under a lock; an empty queue gives none."""
        self._refuse_when_locked()
        deliveries = yield from self._take(now, count)
        if not deliveries:
            return [], None
        ttl = min(max(ttl_seconds, MIN_TTL), MAX_TTL)
        return deliveries, self.stock.holdings.lock(lock_id, deliveries, created_at=now, expires_at=now + ttl)

    def claim(self, now: float, dedup_ids: Sequence[str], partition: int) -> list[int]:
        """To which partition each of them belongs: those that are new, to this one from now on."""
        return self._duplicates.claim(dedup_ids, partition, now, self.config.dedup_window_seconds)

    # What is locked

    def acknowledge(self, now: float, lock_id: str) -> Steps[int]:
        """The locked items are done with. Answers how many there were."""
        lock = self._active_lock(lock_id)
        taken = list(lock.taken)
        yield from self._done(lock, taken, now)
        return len(taken)

    def complete(self, now: float, ids: Iterable[str]) -> Steps[Completion]:
        """Those of these items that are locked are done with, whichever lock has them."""
        outcome = Completion()
        leased: dict[str, dict[Place, Taken]] = defaultdict(dict)
        for item_id in ids:
            found = yield from self.stock.find(item_id, self.partition)
            if found is None or found.taken is None or not isinstance(found.holder, Lock):
                if found is None:
                    outcome.ignored += 1
                else:
                    outcome.not_leased.append(item_id)
            elif found.taken.place in leased[found.holder.lock_id]:
                outcome.ignored += 1  # named twice
            else:
                leased[found.holder.lock_id][found.taken.place] = found.taken
        for lock_id, items in leased.items():
            yield from self._done(self.stock.holdings.locks[lock_id], list(items.values()), now)
            outcome.completed += len(items)
        return outcome

    def abandon(
        self,
        now: float,
        lock_id: str,
        error: str | None,
        delay_seconds: float = 0.0,
        ids: Sequence[str] | None = None,
    ) -> Steps[int]:
        """The locked items, or these of them, go back to where they were, now or later."""
        lock = self._active_lock(lock_id)
        taken = self._among(lock, ids)
        self.counters["abandoned"] += len(taken)
        yield from self._give_back(lock, taken, now, error, now + delay_seconds if delay_seconds else None)
        return len(taken)

    def give_back_marked(self, now: float, mark: str) -> Steps[int]:
        """Gives back what is under locks with this mark: whoever held them is gone. Answers how many there were."""
        count = 0
        for lock in sorted(self.stock.holdings.locks.values(), key=by_expiry):
            if lock_mark(lock.lock_id) == mark:
                taken = list(lock.taken)
                count += len(taken)
                self.counters["abandoned"] += len(taken)
                yield from self._give_back(lock, taken, now, None)
        return count

    def extend(self, now: float, lock_id: str, additional_seconds: int) -> float:
        """The lock lasts longer, but never past the longest time to live from now."""
        lock = self._active_lock(lock_id)
        self.stock.holdings.extend(lock, min(lock.expires_at + additional_seconds, now + MAX_TTL))
        self._dirty = True
        return lock.expires_at

    def dead_letter(self, now: float, lock_id: str, reason: str | None, ids: Sequence[str] | None = None) -> int:
        """The locked items, or these of them, become dead letters."""
        lock = self._active_lock(lock_id)
        target = self.dead_letter_queue
        if target is None:
            raise InvalidRequest("A dead-letter queue has no dead letters of its own.")
        taken = self._among(lock, ids)
        self.stock.holdings.reduce(lock, taken)
        self.post.dead_letter(taken, target, reason or "rejected", now)
        return len(taken)

    def lock_named(self, prefix: str) -> str:
        """The lock whose id begins so, for somebody who is not its holder."""
        found = [lock_id for lock_id in self.stock.holdings.locks if lock_id.startswith(prefix)]
        if not found:
            raise LockNotFound("No active lock begins so.")
        if len(found) > 1:
            raise Conflict("Several active locks begin so: say more of it.")
        return found[0]

    def locked(self) -> Steps[list[tuple[Lock, list[Delivery]]]]:
        """What is locked, and until when: the items of the locks that expire first, as many as a pop would give."""
        basket = Basket(MAX_POP)
        shown = []
        for lock in sorted(self.stock.holdings.locks.values(), key=by_expiry):
            deliveries: list[Delivery] = []
            for taken in lock.taken:
                if basket.full or not basket.add(delivery := (yield from self.stock.deliver(taken))):
                    break
                deliveries.append(delivery)
            shown.append((lock, deliveries))
        return shown

    # The queue as a whole

    def configure(self, config: QueueConfig, elsewhere: int = 0) -> None:
        """Changes the configuration, which the other partitions have to be told."""
        self.settings.change(config, self.stock.load + elsewhere)

    def told(self, partition: int, version: int) -> None:
        """This partition knows the configuration."""
        self._dirty = self.settings.told(partition, version) or self._dirty

    def mark_listed(self) -> None:
        self._dirty = self._dirty or not self.listed
        self.listed = True

    def purge(self) -> int:
        """Forgets all that waits or is delayed. Locked items stay."""
        purged = self.stock.purge()
        self.counters["purged"] += purged
        self._dirty = self._dirty or purged > 0
        return purged

    def revoke(self, item_id: str) -> Steps[None]:
        """Removes one item that nobody holds."""
        found = yield from self.stock.find(item_id, self.partition)
        if found is None:
            raise NotFound("There is no such item.")
        if isinstance(found.holder, Lock):
            raise Conflict("The item is locked: whoever holds it decides.")
        if found.taken is None:
            assert found.shelved is not None
            yield from self.stock.shelf.remove(found.shelved)
        else:
            if isinstance(found.holder, Group) and found.holder.due is not None:
                self.stock.holdings.forget_postponed(found.taken)
            else:
                yield from self.stock.withdraw(found.taken)
            yield from self.stock.forget([found.taken])
        self.counters["revoked"] += 1
        self._dirty = True

    # Inside

    def _refuse_too_many(self, now: float, items: Sequence[Pushed], elsewhere: int) -> None:
        if len(self.stock.lanes) + len(items) > MAX_PRIORITIES and (
            len(self.stock.lanes.keys() | {item.priority for item in items}) > MAX_PRIORITIES
        ):
            raise InvalidRequest(f"A queue can have {MAX_PRIORITIES} priorities in use at once.")
        capacity, rate = self.config.capacity, self.config.rate_per_second
        if capacity is not None and items and self.stock.load + elsewhere + len(items) > capacity:
            raise Capacity(f"The queue is full: it takes {capacity} items.", retry_after=ROOM_SECONDS)
        if rate is not None and items:
            wait = self._pace.wait(now, rate / self.config.partitions)
            if wait:
                raise RateLimited(retry_after=wait)

    def _shelve(self, now: float, pushed: Pushed) -> Steps[str]:
        due_at = moment_of(tick_of(now + pushed.delay_seconds))
        item = pushed.item(now, self.config.default_ttl_seconds, due_at)
        shelved = yield from self.stock.shelve(pushed.priority, item)
        return str(ItemId(self.partition, pushed.priority, True, *shelved))

    def _take(self, now: float, count: int) -> Steps[list[Delivery]]:
        found, spoiled = yield from self.stock.take(now, count)
        yield from self._spoil(spoiled, now)
        taken = [
            Delivery(replace(delivery.taken, deliveries=delivery.taken.deliveries + 1), delivery.item)
            for delivery in found
        ]
        self.counters["redelivered"] += sum(delivery.taken.deliveries > 1 for delivery in taken)
        self.counters["popped"] += len(taken)
        self._dirty = self._dirty or bool(taken)
        return taken

    def _spoil(self, taken: Sequence[Taken], now: float) -> Steps[None]:
        """These expired before anybody took them."""
        if not taken:
            return
        self._dirty = True
        self.counters["ttl_expired"] += len(taken)
        target = self.expired_go_to
        if target is None:
            yield from self.stock.forget(taken)
            return
        segments: dict[tuple[int, int], list[Taken]] = defaultdict(list)
        for entry in taken:
            segments[entry.place.priority, entry.place.segment].append(entry)
        for entries in segments.values():  # as small together as a segment is
            self.post.dead_letter(entries, target, "expired", now)

    def _refuse_when_locked(self) -> None:
        if len(self.stock.holdings.locks) >= self.config.max_locks:
            raise QueueLocked(lock_expires_at=self.stock.holdings.next_expiry())

    def _active_lock(self, lock_id: str) -> Lock:
        if lock_id in self.stock.holdings.expired:
            raise LockExpired
        if not self.stock.holdings.locks:
            raise LockNotFound
        lock = self.stock.holdings.locks.get(lock_id)
        if lock is None:
            raise InvalidLockId
        return lock

    def _done(self, lock: Lock, taken: Sequence[Taken], now: float) -> Steps[None]:
        self.held_seconds.append(max(0.0, now - lock.created_at))
        self.stock.holdings.reduce(lock, taken)
        self.counters["acknowledged"] += len(taken)
        self._dirty = True
        yield from self.stock.forget(taken)

    def _among(self, lock: Lock, ids: Sequence[str] | None) -> list[Taken]:
        """What a lock holds, or what of it was named."""
        if ids is None:
            return list(lock.taken)
        held = {taken.item_id(self.partition): taken for taken in lock.taken}
        strange = next((item_id for item_id in ids if item_id not in held), None)
        if strange is not None:
            raise InvalidRequest(f"ids: this lock does not hold {strange}.")
        return [held[item_id] for item_id in dict.fromkeys(ids)]

    def _give_back(
        self, lock: Lock, items: Sequence[Taken], now: float, error: str | None, due: float | None = None
    ) -> Steps[None]:
        self.stock.holdings.reduce(lock, items)
        target = self.dead_letter_queue
        hopeless: list[Taken] = []
        back: list[Taken] = []
        for taken in items:
            told = taken if error is None else replace(taken, error=error)
            (hopeless if self.is_spent(taken) else back).append(told)
        if hopeless and target is not None:
            self.post.dead_letter(hopeless, target, "max_deliveries", now)
        if lock.spoils_at is not None and lock.spoils_at <= now:
            spoiled = yield from self.stock.expired_of(back, now)
            yield from self._spoil(spoiled, now)
            back = [taken for taken in back if taken not in spoiled]
        if back:
            self.stock.give_back(back, due)
        self._dirty = True

    # What is saved

    def _metadata(self) -> dict[str, Any]:
        value = self.stock.to_json()
        value["_counters"] = self.counters
        value["_format"] = FORMAT
        for key, kept in (
            ("_listed", self.listed),
            ("_takes_dead_letters", self.post.takes_dead_letters),
        ):
            if kept:
                value[key] = kept
        return value | self.settings.to_json() | self._duplicates.to_json()

    @classmethod
    def restore(
        cls,
        name: str,
        config: QueueConfig,
        metadata: dict[str, Any] | None,
        partition: int = 0,
        tenant: str = DEFAULT_TENANT,
    ) -> Steps[Queue]:
        """The queue as it was saved; a queue nobody has used is an empty one."""
        if metadata is None:
            return cls(name, config, partition, tenant)
        refuse_other_format(f"Queue {name}", metadata)
        queue = cls(name, config, partition, tenant, (yield from Stock.restore(name, metadata)))
        queue.counters |= metadata["_counters"]
        queue.listed = metadata.get("_listed", False)
        queue.post.takes_dead_letters = metadata.get("_takes_dead_letters", False)
        queue.settings.restore(metadata)
        queue._duplicates = yield from Duplicates.restore(partition, metadata)
        return queue
