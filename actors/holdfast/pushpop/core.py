"""One queue as a state machine: commands and the present moment in, state changes and replies out.

No I/O and no clock. A command that has to see items asks for their segments: it is a generator that yields state
keys and is sent their values. A command that is refused has changed nothing. What changed is in ``changes``, to be
saved in one transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from holdfast.errors import InvalidLockId, InvalidRequest, LockExpired, LockNotFound, QueueLocked, StorageBroken
from holdfast.identity import DEAD_LETTER_SUFFIX
from holdfast.pushpop.holdings import Holdings, Lock
from holdfast.pushpop.items import Delivery, Item, Place, Taken, segment_key
from holdfast.pushpop.lanes import Lane

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Sequence

    from holdfast.pushpop.config import QueueConfig

Reply = TypeVar("Reply")
#: Yields the keys it needs, some at a time, is sent their values, returns its reply.
Steps: TypeAlias = "Generator[tuple[str, ...], list[Any], Reply]"

METADATA = "metadata"
CONFIG = "config"
FORMAT = 1

MIN_TTL, DEFAULT_TTL, MAX_TTL = 1, 30, 300
MAX_POP = 100
# A pop stops before its answer grows past what daprd hands from one sidecar to another when nobody told it more.
MAX_POP_BYTES = 3 * 1024 * 1024
# Each is a part of the metadata, which every push rewrites.
MAX_PRIORITIES = 1000
# Segments of a purged queue that are deleted in one transaction.
SWEEP_AT_ONCE = 200

# What was to be sent, and may have been lost with the process, is sent again after this.
RESEND_SECONDS = 5.0

COUNTERS = ("pushed", "popped", "acknowledged", "abandoned", "expired", "redelivered", "dead_lettered", "purged")


class Queue:
    """The state of one queue, or of one partition of it."""

    def __init__(self, name: str, config: QueueConfig, partition: int = 0) -> None:
        self.name = name
        self.config = config
        self.partition = partition
        self.lanes: dict[int, Lane] = {}
        self.holdings = Holdings()
        self.counters = dict.fromkeys(COUNTERS, 0)
        self.listed = False
        #: Whether others send their dead letters here; it has none of its own then.
        self.takes_dead_letters = False
        #: Numbers of segments are never used again, so that an item's id is its own for ever.
        self._next_segment = 0
        #: Segments that nobody wants: priority, first and last.
        self._garbage: list[tuple[int, int, int]] = []
        #: The last transfer taken from each queue, so that one sent twice is taken once.
        self._transfers: dict[str, int] = {}
        self._changed: dict[str, Any] = {}
        self._dirty = False

    @property
    def count(self) -> int:
        return sum(lane.count for lane in self.lanes.values())

    @property
    def available(self) -> bool:
        """Whether a pop would get something."""
        return self.count > 0 and len(self.holdings.locks) < self.config.max_locks

    def next_deadline(self, now: float) -> float | None:
        """When the queue has to be looked at again even if nobody asks."""
        moments = [lock.expires_at for lock in self.holdings.locks.values()]
        if self._garbage:
            moments.append(now)
        if self.holdings.outbox or (self.used and not self.listed):
            moments.append(now + RESEND_SECONDS)
        return min(moments, default=None)

    def changes(self) -> dict[str, Any]:
        """The state values that changed since the last call; None deletes one."""
        changed, self._changed = self._changed, {}
        changed.update(self.holdings.changes())
        if changed or self._dirty:
            changed[METADATA] = self._metadata()
        self._dirty = False
        return changed

    @property
    def dead_letter_queue(self) -> str | None:
        """Where dead letters go; a dead-letter queue has none of its own."""
        if self.takes_dead_letters or self.name.endswith(DEAD_LETTER_SUFFIX):
            return None
        return self.config.dead_letter_queue or self.name + DEAD_LETTER_SUFFIX

    @property
    def used(self) -> bool:
        """Whether anything was ever put into it."""
        return self.counters["pushed"] > 0

    def segments_in_use(self) -> set[str]:
        """The segments the next push or pop will want."""
        return {segment_key(lane.priority, number) for lane in self.lanes.values() for number in (lane.head, lane.tail)}

    # Commands

    def push(self, items: Sequence[tuple[int, Item]]) -> Steps[list[str]]:
        """Appends all of them, each to the lane of its priority."""
        if len(self.lanes.keys() | {priority for priority, _ in items}) > MAX_PRIORITIES:
            raise InvalidRequest(f"A queue can have {MAX_PRIORITIES} priorities in use at once.")
        return (yield from self._append(items))

    def pop(self, count: int) -> Steps[list[Delivery]]:
        """Takes the first ones for good."""
        self._refuse_when_locked()
        taken = yield from self._take(count)
        self._forget(delivery.taken.place for delivery in taken)
        return taken

    def pop_with_ack(
        self, now: float, count: int, ttl_seconds: int, lock_id: str
    ) -> Steps[tuple[list[Delivery], Lock | None]]:
        """Takes the first ones under a lock; an empty queue gives none."""
        self._refuse_when_locked()
        taken = yield from self._take(count)
        if not taken:
            return [], None
        ttl = min(max(ttl_seconds, MIN_TTL), MAX_TTL)
        lock = self.holdings.lock(lock_id, taken, created_at=now, expires_at=now + ttl)
        self._dirty = True
        return taken, lock

    def acknowledge(self, lock_id: str) -> int:
        """The locked items are done with. Answers how many there were."""
        lock = self._active_lock(lock_id)
        self.holdings.release(lock)
        self._forget(taken.place for taken in lock.taken)
        self.counters["acknowledged"] += len(lock.taken)
        return len(lock.taken)

    def abandon(self, now: float, lock_id: str, error: str | None) -> int:
        """The locked items go back to where they were."""
        lock = self._active_lock(lock_id)
        self.counters["abandoned"] += len(lock.taken)
        self._give_back(lock, now, error)
        return len(lock.taken)

    def extend(self, now: float, lock_id: str, additional_seconds: int) -> float:
        """The lock lasts longer, but never past the longest time to live from now."""
        lock = self._active_lock(lock_id)
        self.holdings.extend(lock, min(lock.expires_at + additional_seconds, now + MAX_TTL))
        self._dirty = True
        return lock.expires_at

    def dead_letter(self, now: float, lock_id: str, reason: str | None) -> int:
        """The locked items become dead letters."""
        lock = self._active_lock(lock_id)
        target = self.dead_letter_queue
        if target is None:
            raise InvalidRequest("A dead-letter queue has no dead letters of its own.")
        self.holdings.release(lock)
        self._send_to_dead_letters(lock.taken, target, reason or "rejected", now)
        return len(lock.taken)

    def configure(self, config: QueueConfig) -> None:
        if config.dead_letter_queue == self.name:
            raise InvalidRequest("dead_letter_queue: a queue cannot be its own.")
        self.config = config
        self._changed[CONFIG] = config.model_dump(exclude_defaults=True)

    def mark_listed(self) -> None:
        self._dirty = self._dirty or not self.listed
        self.listed = True

    def purge(self) -> int:
        """Forgets all that waits. Locked items stay. The segments go later, some at a time."""
        purged = self.count
        if not self.lanes:
            return 0
        for lane in self.lanes.values():
            self._garbage.append((lane.priority, lane.head, lane.tail))
            for returned in lane.returned:
                self.holdings.forget_returned(returned)
                self._garbage.append((lane.priority, returned.taken.place.segment, returned.taken.place.segment))
            self._next_segment = max(self._next_segment, lane.tail + 1)
        self.lanes.clear()
        self.counters["purged"] += purged
        self._dirty = True
        return purged

    def expire(self, now: float) -> None:
        """Gives back what is locked for too long. Every command comes after this."""
        expired = [lock for lock in self.holdings.locks.values() if lock.expires_at <= now]
        for lock in sorted(expired, key=_by_expiry):
            self.holdings.remember_expired(lock.lock_id)
            self.counters["expired"] += len(lock.taken)
            self._give_back(lock, now, None)

    def sweep(self) -> None:
        """Deletes some of the segments nobody wants."""
        room = SWEEP_AT_ONCE
        while self._garbage and room > 0:
            priority, first, last = self._garbage.pop()
            upto = min(last, first + room - 1)
            for segment in range(first, upto + 1):
                if not self._wanted(priority, segment):
                    self._changed[segment_key(priority, segment)] = None
            room -= upto - first + 1
            if upto < last:
                self._garbage.append((priority, upto + 1, last))
            self._dirty = True

    def peek(self, count: int) -> Steps[list[Delivery]]:
        """The next ones in the order a pop would take them, left where they are. Fewer when they are large."""
        basket = _Basket(count)
        for priority in sorted(self.lanes):
            lane = self.lanes[priority]
            for returned in lane.returned:
                if basket.full or not basket.add((yield from self._deliver(returned.taken))):
                    return basket.found
            segment, ordinal = lane.head, lane.offset
            while not basket.full and (segment, ordinal) < (lane.tail, lane.filled):
                stored = yield from self._items(segment_key(priority, segment))
                for number in range(ordinal, len(stored)):
                    taken = Taken(Place(priority, segment, number), deliveries=0)
                    if not basket.add(Delivery(taken, Item.from_json(stored[number]))):
                        return basket.found
                segment, ordinal = segment + 1, 0
        return basket.found

    def oldest(self) -> Steps[float | None]:
        """When the item that has waited longest was pushed; looks at the first of every priority."""
        moments = []
        for lane in self.lanes.values():
            if lane.returned:
                moments.append((yield from self._deliver(lane.returned[0].taken)).item.enqueued_at)
            elif not lane.exhausted:
                items = yield from self._items(segment_key(lane.priority, lane.head))
                moments.append(items[lane.offset]["at"])
        return min(moments, default=None)

    def locked(self) -> Steps[list[tuple[Lock, list[Delivery]]]]:
        """What is locked, and until when: the items of the locks that expire first, as many as a pop would give."""
        basket = _Basket(MAX_POP)
        shown = []
        for lock in sorted(self.holdings.locks.values(), key=_by_expiry):
            deliveries: list[Delivery] = []
            for taken in lock.taken:
                if basket.full or not basket.add(delivery := (yield from self._deliver(taken))):
                    break
                deliveries.append(delivery)
            shown.append((lock, deliveries))
        return shown

    # Transfers between queues

    def transfer(self) -> Steps[dict[str, Any] | None]:
        """The next message for the dead-letter queue, or None. It stays until :meth:`transferred`."""
        waiting = self.holdings.outbox
        if not waiting:
            return None
        number = min(waiting)
        parcel = waiting[number]
        items = []
        for taken in parcel.taken:
            delivery = yield from self._deliver(taken)
            origin = {
                "reason": parcel.reason,
                "attempts": taken.deliveries,
                "last_error": taken.error,
                "original_queue": self.name,
                "original_partition": self.partition,
                "original_id": taken.place.item_id(self.partition),
                "tenant_id": "default",
                "idempotency_key": delivery.item.idempotency_key,
                "dead_lettered_at": parcel.at,
            }
            items.append({"priority": taken.place.priority, "stored": delivery.item.to_json() | {"origin": origin}})
        return {
            "source": f"{self.name}@{self.partition}",
            "target": parcel.target,
            "number": number,
            "items": items,
        }

    def transferred(self, number: int) -> None:
        """The other queue has it."""
        if number not in self.holdings.outbox:
            return  # told twice
        parcel = self.holdings.clear_parcel(number)
        self._forget(taken.place for taken in parcel.taken)

    def receive(self, source: str, number: int, items: Sequence[tuple[int, Item]]) -> Steps[bool]:
        """Takes what another queue transfers; False when it was taken before."""
        if number <= self._transfers.get(source, -1):
            return False
        yield from self._append(items)  # refused for no reason: the other queue would have them for ever
        self.takes_dead_letters = True
        self._transfers[source] = number
        return True

    # Inside

    def _append(self, items: Sequence[tuple[int, Item]]) -> Steps[list[str]]:
        places = []
        segments: dict[str, list[Any]] = {}
        for priority, item in items:
            lane = self.lanes.get(priority)
            if lane is None:
                lane = self.lanes[priority] = Lane(priority, self._next_segment)
            place = lane.append(item.size)
            key = place.segment_key
            if key not in segments:
                segments[key] = [] if place.ordinal == 0 else (yield from self._items(key))
            segments[key].append(item.to_json())
            places.append(place)
        for key, stored in segments.items():
            self._changed[key] = {"items": stored}
        self.counters["pushed"] += len(places)
        self._dirty = True
        return [place.item_id(self.partition) for place in places]

    def _refuse_when_locked(self) -> None:
        if len(self.holdings.locks) >= self.config.max_locks:
            raise QueueLocked(lock_expires_at=min(lock.expires_at for lock in self.holdings.locks.values()))

    def _active_lock(self, lock_id: str) -> Lock:
        if lock_id in self.holdings.expired:
            raise LockExpired
        if not self.holdings.locks:
            raise LockNotFound
        lock = self.holdings.locks.get(lock_id)
        if lock is None:
            raise InvalidLockId
        return lock

    def _take(self, count: int) -> Steps[list[Delivery]]:
        """The next ones, out of their lanes. Everything that could fail comes before the first change."""
        taken: list[Delivery] = []
        for delivery in (yield from self.peek(count)):
            place = delivery.taken.place
            lane = self.lanes[place.priority]
            if lane.returned and lane.returned[0].taken.place == place:
                self.holdings.forget_returned(lane.returned.pop(0))
                self.counters["redelivered"] += 1
            else:
                lane.pass_head(len((yield from self._items(place.segment_key))))
            lane.count -= 1
            again = Taken(place, delivery.taken.deliveries + 1, delivery.taken.error)
            taken.append(Delivery(again, delivery.item))
            if lane.count == 0:
                self._next_segment = max(self._next_segment, lane.tail + 1)
                del self.lanes[place.priority]
        self.counters["popped"] += len(taken)
        self._dirty = self._dirty or bool(taken)
        return taken

    def _deliver(self, taken: Taken) -> Steps[Delivery]:
        items = yield from self._items(taken.place.segment_key)
        return Delivery(taken, Item.from_json(items[taken.place.ordinal]))

    def _items(self, key: str) -> Steps[list[dict[str, Any]]]:
        """What a segment holds, with what this turn has changed in it."""
        value = self._changed.get(key)
        if value is None:
            [value] = yield (key,)
        if value is None:
            raise StorageBroken(f"Queue {self.name} is damaged: {key} is missing from the store.")
        items: list[dict[str, Any]] = value["items"]
        return items

    def _give_back(self, lock: Lock, now: float, error: str | None) -> None:
        self.holdings.release(lock)
        target = self.dead_letter_queue
        hopeless: list[Taken] = []
        back: list[Taken] = []
        for taken in lock.taken:
            told = Taken(taken.place, taken.deliveries, error if error is not None else taken.error)
            spent = taken.deliveries >= self.config.max_deliveries
            (hopeless if spent and target is not None else back).append(told)
        if hopeless and target is not None:
            self._send_to_dead_letters(hopeless, target, "max_deliveries", now)
        if back:
            group = self.holdings.give_back(back)
            for taken in back:
                priority = taken.place.priority
                lane = self.lanes.get(priority)
                if lane is None:
                    lane = self.lanes[priority] = Lane(priority, self._next_segment)
                lane.give_back(taken, group)
        self._dirty = True

    def _send_to_dead_letters(self, taken: Sequence[Taken], target: str, reason: str, now: float) -> None:
        self.holdings.send(taken, target, reason, now)
        self.counters["dead_lettered"] += len(taken)
        self._dirty = True

    def _forget(self, places: Iterable[Place]) -> None:
        """These items are done with: segments in which nothing is wanted any more are deleted."""
        for priority, segment in {(place.priority, place.segment) for place in places}:
            self._dirty = True
            if not self._wanted(priority, segment):
                self._changed[segment_key(priority, segment)] = None

    def _wanted(self, priority: int, segment: int) -> bool:
        lane = self.lanes.get(priority)
        if lane is not None and segment >= lane.head and not lane.exhausted:
            return True
        return self.holdings.holds(priority, segment)

    # What is saved

    def _metadata(self) -> dict[str, Any]:
        value: dict[str, Any] = {str(priority): lane.count for priority, lane in sorted(self.lanes.items())}
        value |= self.holdings.to_json()
        value["_lanes"] = {str(priority): lane.to_json() for priority, lane in self.lanes.items()}
        value["_next_segment"] = self._next_segment
        value["_counters"] = self.counters
        value["_format"] = FORMAT
        if self._garbage:
            value["_garbage"] = self._garbage
        if self._transfers:
            value["_transfers"] = self._transfers
        if self.listed:
            value["_listed"] = True
        if self.takes_dead_letters:
            value["_takes_dead_letters"] = True
        return value

    @classmethod
    def restore(
        cls, name: str, config: QueueConfig, metadata: dict[str, Any] | None, partition: int = 0
    ) -> Steps[Queue]:
        """The queue as it was saved; a queue nobody has used is an empty one."""
        queue = cls(name, config, partition)
        if metadata is None:
            return queue
        if metadata["_format"] > FORMAT:
            raise StorageBroken(f"Queue {name} was written by a later version of Holdfast.")
        for priority, value in metadata["_lanes"].items():
            queue.lanes[int(priority)] = Lane.from_json(int(priority), metadata[priority], value)
        queue.holdings = yield from Holdings.restore(metadata)
        for group, members in queue.holdings.returned.items():
            for taken in members:
                lane = queue.lanes[taken.place.priority]
                lane.give_back(taken, group)
                lane.count -= 1  # it was counted when it was saved
        queue.counters |= metadata["_counters"]
        queue._next_segment = metadata["_next_segment"]
        queue._garbage = [tuple(entry) for entry in metadata.get("_garbage", ())]
        queue._transfers = metadata.get("_transfers", {})
        queue.listed = metadata.get("_listed", False)
        queue.takes_dead_letters = metadata.get("_takes_dead_letters", False)
        return queue


def _by_expiry(lock: Lock) -> tuple[float, Place]:
    """An order that is the same before and after a restart."""
    return lock.expires_at, lock.taken[0].place


class _Basket:
    """As many items as were asked for, as long as they are not too large together."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._size = 0
        self.found: list[Delivery] = []

    @property
    def full(self) -> bool:
        return len(self.found) >= self._count

    def add(self, delivery: Delivery) -> bool:
        self._size += delivery.item.size
        if self.full or (self.found and self._size > MAX_POP_BYTES):
            return False
        self.found.append(delivery)
        return True
