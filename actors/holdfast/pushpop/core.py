"""One queue as a state machine: commands and the present moment in, state changes and replies out.

No I/O and no clock. A command that has to see items asks for their segments: it is a generator that yields state
keys and is sent their values. A command that is refused has changed nothing. What changed is in ``changes``, to be
saved in one transaction.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
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
    StorageBroken,
)
from holdfast.identity import DEAD_LETTER_SUFFIX, DEFAULT_TENANT, partition_id
from holdfast.pushpop.arrivals import Arrivals
from holdfast.pushpop.calendar import moment_of, tick_of
from holdfast.pushpop.dedup import Dedup
from holdfast.pushpop.holdings import Group, Lock, by_expiry
from holdfast.pushpop.items import Delivery, Item, ItemId, Place, Taken, lock_mark
from holdfast.pushpop.pace import Pace
from holdfast.pushpop.stock import Basket, Stock

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.pushpop.config import QueueConfig
    from holdfast.pushpop.steps import Steps
    from holdfast.pushpop.stock import Found

METADATA = "metadata"
CONFIG = "config"
FORMAT = 1

MIN_TTL, DEFAULT_TTL, MAX_TTL = 1, 30, 300
MAX_POP = 100
# Each is a part of the metadata, which every push rewrites.
MAX_PRIORITIES = 1000

# What was to be sent, and may have been lost with the process, is sent again after this.
RESEND_SECONDS = 5.0
# A claim outlasts the id it is for: that is pushed later, in another partition, by another clock.
CLAIM_LEEWAY = 60.0
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


@dataclass(frozen=True, slots=True)
class Pushed:
    """What somebody wants to put into a queue."""

    priority: int
    text: str
    idempotency_key: str | None = None
    dedup_id: str | None = None
    delay_seconds: float = 0.0
    ttl_seconds: int | None = None
    tenant_id: str | None = None


@dataclass(slots=True)
class Completion:
    """What became of ids that were to be completed."""

    completed: int = 0
    ignored: int = 0
    not_leased: list[str] | None = None


class Queue:
    """The state of one queue, or of one partition of it. Other queues it names are those of its tenant."""

    def __init__(self, name: str, config: QueueConfig, partition: int = 0, tenant: str = DEFAULT_TENANT) -> None:
        self.name = name
        self.tenant = tenant
        self.config = config
        self.partition = partition
        self.stock = Stock(name)
        self.counters = dict.fromkeys(COUNTERS, 0)
        self.listed = False
        #: Whether others send their dead letters here; it has none of its own then.
        self.takes_dead_letters = False
        #: How often the configuration was changed, and which partitions do not know of the last time.
        self.config_version = 0
        self.untold: list[int] = []
        #: How long each lock that was answered had been held.
        self.held_seconds: list[float] = []
        self._arrivals = Arrivals()
        #: Dedup ids: the items they stand for, and in a queue of several partitions, where those are.
        self._dedup = Dedup("dedup")
        self._claims = Dedup("claims")
        self._pace = Pace()
        self._changed: dict[str, Any] = {}
        self._dirty = False

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
        if self.takes_dead_letters or self.name.endswith(DEAD_LETTER_SUFFIX):
            return None
        return self.config.dead_letter_queue or self.name + DEAD_LETTER_SUFFIX

    @property
    def keeps_expired(self) -> bool:
        """Whether what expires becomes a dead letter."""
        return self.config.expired_to_dead_letters and self.dead_letter_queue is not None

    def is_spent(self, taken: Taken) -> bool:
        """Whether it was delivered so often that it becomes a dead letter when it comes back."""
        often = taken.deliveries >= self.config.max_deliveries and not self.config.worker_queue
        return often and self.dead_letter_queue is not None

    @property
    def source(self) -> str:
        """What those it sends something to know it by."""
        return f"{self.name}@{self.partition}"

    @property
    def to_be_listed(self) -> bool:
        """Whether anything was ever put into it; one of several partitions stands for all."""
        return not (self.listed or self.partition) and (self.counters["pushed"] > 0 or self.config.partitions > 1)

    def next_deadline(self, now: float) -> float | None:
        """When the queue has to be looked at again even if nobody asks."""
        window = self.config.dedup_window_seconds
        claims_end = self._claims.next_end(window + CLAIM_LEEWAY)
        moments = [self.stock.next_moment(), self._dedup.next_end(window), claims_end]
        if self.stock.has_garbage:
            moments.append(now)
        if self.stock.holdings.outbox or self.to_be_listed or self.untold:
            moments.append(now + RESEND_SECONDS)
        return min((moment for moment in moments if moment is not None), default=None)

    def changes(self) -> dict[str, Any]:
        """The state values that changed since the last call; None deletes one."""
        changed, self._changed = self._changed, {}
        changed |= self.stock.changes() | self._dedup.changes() | self._claims.changes() | self._arrivals.changes()
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
            spoiled = yield from self.stock.catch_up(now, keep=self.keeps_expired)
            yield from self._spoil(spoiled, now)
        self._dirty = self.stock.sweep() or self._dirty
        self._dedup.forget(now, self.config.dedup_window_seconds)
        self._claims.forget(now, self.config.dedup_window_seconds + CLAIM_LEEWAY)

    # Pushing and popping

    def push(self, now: float, items: Sequence[Pushed], elsewhere: int = 0) -> Steps[tuple[list[str], int]]:
        """All of them, or none. Answers their ids, and how many were new."""
        window = self.config.dedup_window_seconds
        new = self._without_duplicates(now, items)
        self._refuse_too_many(now, [items[number] for number in new], elsewhere)
        ids: list[str] = [""] * len(items)
        at_once = []
        for number in new:
            if items[number].delay_seconds:
                ids[number] = yield from self._shelve(now, items[number])
            else:
                at_once.append(number)
        fresh = [(items[number].priority, self._item(now, items[number])) for number in at_once]
        for number, place in zip(at_once, (yield from self.stock.append(fresh)), strict=True):
            ids[number] = place.item_id(self.partition)
        for number, item in enumerate(items):
            if item.dedup_id is not None and window:
                if ids[number]:
                    self._dedup.remember(item.dedup_id, ids[number], now)
                else:
                    ids[number] = self._dedup.get(item.dedup_id, now, window)
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
        window = self.config.dedup_window_seconds
        if not window:
            return [partition for _ in dedup_ids]
        belongs = []
        for dedup_id in dedup_ids:
            home = self._claims.get(dedup_id, now, window + CLAIM_LEEWAY)
            if home is None:
                pushed_here = self._dedup.get(dedup_id, now, window) is not None  # before there were others
                home = self.partition if pushed_here else partition
            # Renewed, because the push that follows may be the first one that is stored: half of the leeway is for
            # that to arrive in, and saves a write to those that come soon after each other.
            if self._claims.get(dedup_id, now, CLAIM_LEEWAY / 2) is None:
                self._claims.remember(dedup_id, home, now)
            belongs.append(home)
        return belongs

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
            found = yield from self._find(item_id)
            if found is None or found.taken is None or not isinstance(found.holder, Lock):
                if found is None:
                    outcome.ignored += 1
                else:
                    outcome.not_leased = [*(outcome.not_leased or ()), item_id]
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
        self._send_to_dead_letters(taken, target, reason or "rejected", now)
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
        if self.partition:
            raise InvalidRequest(f"The configuration is that of the queue {self.name}, and is changed there.")
        if config.dead_letter_queue == self.name:
            raise InvalidRequest("dead_letter_queue: a queue cannot be its own.")
        if config.partitions < self.config.partitions:
            raise InvalidRequest(
                f"partitions: there are {self.config.partitions}, and fewer would lose what lies in the others."
            )
        stored = self.stock.load + elsewhere
        # Dead letters that came back may have made it fuller than it was meant to be, which is no mistake of today's.
        changed = config.capacity != self.config.capacity
        if changed and config.capacity is not None and config.capacity < stored:
            raise InvalidRequest(f"capacity: there are {stored} items in the queue already.")
        self._set_config(config, self.config_version + 1)
        self.untold = list(range(1, config.partitions))

    def be_told(self, config: QueueConfig, version: int) -> None:
        """The configuration of the queue this is a partition of."""
        if version > self.config_version:
            self._set_config(config, version)

    def told(self, partition: int, version: int) -> None:
        """This partition knows the configuration."""
        if version == self.config_version and partition in self.untold:
            self.untold.remove(partition)
            self._dirty = True

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
        found = yield from self._find(item_id)
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

    # Dead letters, and transfers between queues

    def dead_letters(
        self, cursor: Place | None, limit: int, original_queue: str | None
    ) -> Steps[tuple[list[Delivery], Place | None]]:
        """Those that wait here; and where to go on, if there may be more."""
        page, after = yield from self.stock.browse(cursor, limit)
        return [delivery for delivery in page if _came_from(delivery, original_queue)], after

    def redrive(
        self, now: float, ids: Sequence[str], limit: int, original_queue: str | None
    ) -> Steps[tuple[int, bool]]:
        """Sends these dead letters back to where they came from, as far as they go together.

        Answers how many, and whether some were left out. Those not found, or locked, are not among them.
        """
        basket = Basket(limit)
        chosen: set[Place] = set()
        for item_id in ids:
            found = yield from self._find(item_id)
            if found is None or found.taken is None or found.taken.place in chosen or not _is_free(found.holder):
                continue
            delivery = yield from self.stock.deliver(found.taken)
            if _came_from(delivery, original_queue):
                if not basket.add(delivery):
                    break
                chosen.add(found.taken.place)
        yield from self._send_back(basket.found, now)
        return len(basket.found), basket.closed

    def redrive_next(
        self, now: float, cursor: Place | None, limit: int, original_queue: str | None
    ) -> Steps[tuple[int, Place | None]]:
        """The same for the next ones; and where to go on, if there may be more."""
        chosen, after = yield from self.dead_letters(cursor, limit, original_queue)
        yield from self._send_back(chosen, now)
        return len(chosen), after

    def transfer(self) -> Steps[dict[str, Any] | None]:
        """The next message for another queue, or None. It stays until :meth:`transferred`."""
        waiting = self.stock.holdings.outbox
        if not waiting:
            return None
        number = self.stock.holdings.first_parcel
        parcel = waiting[number]
        items = []
        for taken in parcel.taken:
            item = (yield from self.stock.deliver(taken)).item
            # Nobody waits for its due time, or for its end, where it goes.
            item = replace(item, origin=None, due_at=None, expires_at=None)
            if parcel.reason is not None:
                item = replace(item, origin=self._origin(taken, item, parcel.reason, parcel.at))
            items.append({"priority": taken.place.priority, "stored": item.to_json()})
        return {
            "source": self.source,
            "target": parcel.target,
            "number": number,
            "items": items,
        }

    def transferred(self, number: int) -> Steps[None]:
        """The other queue has it."""
        if number in self.stock.holdings.outbox:  # or it was told twice
            parcel = self.stock.holdings.clear_parcel(number)
            self._dirty = True
            yield from self.stock.forget(parcel.taken)

    def receive(self, source: str, number: int, items: Sequence[tuple[int, Item]]) -> Steps[bool]:
        """Takes what another queue transfers; False when it was taken before."""
        if not (yield from self._arrivals.is_new(source, number)):
            return False
        yield from self.stock.append(items)  # refused for no reason: the other queue would have them for ever
        self.counters["pushed"] += len(items)
        self.takes_dead_letters = self.takes_dead_letters or any(item.origin is not None for _, item in items)
        yield from self._arrivals.remember(source, number)
        self._dirty = True
        return True

    # Inside

    def _without_duplicates(self, now: float, items: Sequence[Pushed]) -> list[int]:
        """Which of them are new."""
        window = self.config.dedup_window_seconds
        new = []
        seen: set[str] = set()
        for number, item in enumerate(items):
            if item.dedup_id is not None and window:
                if item.dedup_id in seen or self._dedup.get(item.dedup_id, now, window) is not None:
                    continue
                if self._claims.get(item.dedup_id, now, window + CLAIM_LEEWAY) not in (None, self.partition):
                    raise Conflict(f"The dedup_id of item {number} belongs to another partition of the queue.")
                seen.add(item.dedup_id)
            new.append(number)
        return new

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

    def _item(self, now: float, pushed: Pushed, due_at: float | None = None) -> Item:
        ttl = self.config.default_ttl_seconds if pushed.ttl_seconds is None else pushed.ttl_seconds
        return Item(
            pushed.text,
            now,
            pushed.idempotency_key,
            pushed.dedup_id,
            # Its time runs from when it can be taken.
            None if ttl is None else (due_at or now) + ttl,
            due_at,
            tenant_id=pushed.tenant_id,
        )

    def _shelve(self, now: float, pushed: Pushed) -> Steps[str]:
        due_at = moment_of(tick_of(now + pushed.delay_seconds))
        shelved = yield from self.stock.shelve(pushed.priority, self._item(now, pushed, due_at))
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
        if not self.keeps_expired:
            yield from self.stock.forget(taken)
            return
        segments: dict[tuple[int, int], list[Taken]] = defaultdict(list)
        for entry in taken:
            segments[entry.place.priority, entry.place.segment].append(entry)
        for entries in segments.values():  # as small together as a segment is
            self._send_to_dead_letters(entries, self.dead_letter_queue or "", "expired", now)

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

    def _find(self, item_id: str) -> Steps[Found | None]:
        parsed = ItemId.parse(item_id)
        if parsed is None or parsed.partition != self.partition:
            return None
        return (yield from self.stock.find(parsed))

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
            self._send_to_dead_letters(hopeless, target, "max_deliveries", now)
        if lock.spoils_at is not None and lock.spoils_at <= now:
            spoiled = yield from self.stock.expired_of(back, now)
            yield from self._spoil(spoiled, now)
            back = [taken for taken in back if taken not in spoiled]
        if back:
            self.stock.give_back(back, due)
        self._dirty = True

    def _send_to_dead_letters(self, taken: Sequence[Taken], target: str, reason: str, now: float) -> None:
        self.stock.holdings.send(taken, target, reason, now)
        self.counters["dead_lettered"] += len(taken)
        self._dirty = True

    def _send_back(self, letters: Iterable[Delivery], now: float) -> Steps[None]:
        targets: dict[str, list[Taken]] = defaultdict(list)
        for delivery in letters:
            origin = delivery.item.origin or {}
            targets[partition_id(origin["original_queue"], origin["original_partition"])].append(delivery.taken)
        for target, taken in targets.items():
            for entry in taken:
                yield from self.stock.withdraw(entry, keep=True)
            self.stock.holdings.send(taken, target, None, now)
            self.counters["redriven"] += len(taken)
            self._dirty = True

    def _origin(self, taken: Taken, item: Item, reason: str, at: float) -> dict[str, Any]:
        return {
            "reason": reason,
            "attempts": taken.deliveries,
            "last_error": taken.error,
            "original_queue": self.name,
            "original_partition": self.partition,
            "original_id": taken.item_id(self.partition),
            "tenant_id": item.tenant_id or self.tenant,
            "idempotency_key": item.idempotency_key,
            "dead_lettered_at": at,
        }

    def _set_config(self, config: QueueConfig, version: int) -> None:
        self.config = config
        self.config_version = version
        self._changed[CONFIG] = config.model_dump(exclude_defaults=True)

    # What is saved

    def _metadata(self) -> dict[str, Any]:
        value = self.stock.to_json()
        value["_counters"] = self.counters
        value["_format"] = FORMAT
        for key, kept in (
            ("_listed", self.listed),
            ("_takes_dead_letters", self.takes_dead_letters),
            ("_config_version", self.config_version),
            ("_untold", self.untold),
            ("_dedup", self._dedup.to_json()),
            ("_claims", self._claims.to_json()),
        ):
            if kept:
                value[key] = kept
        return value

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
        queue = cls(name, config, partition, tenant)
        if metadata is None:
            return queue
        if metadata["_format"] > FORMAT:
            raise StorageBroken(f"Queue {name} was written by a later version of Holdfast.")
        queue.stock = yield from Stock.restore(name, metadata)
        queue.counters |= metadata["_counters"]
        queue._arrivals = Arrivals.moved(metadata.get("_transfers", {}))
        queue.listed = metadata.get("_listed", False)
        queue.takes_dead_letters = metadata.get("_takes_dead_letters", False)
        queue.config_version = metadata.get("_config_version", 0)
        queue.untold = metadata.get("_untold", [])
        queue._dedup = yield from Dedup.restore("dedup", metadata.get("_dedup"))
        queue._claims = yield from Dedup.restore("claims", metadata.get("_claims"))
        return queue


def _is_free(holder: Lock | Group | None) -> bool:
    """Whether a pop could have taken what this holds."""
    return holder is None or (isinstance(holder, Group) and holder.due is None)


def _came_from(delivery: Delivery, queue: str | None) -> bool:
    """Whether it is a dead letter, of this queue if one is named."""
    origin = delivery.item.origin
    return origin is not None and queue in (None, origin["original_queue"])
