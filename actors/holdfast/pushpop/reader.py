"""Decodes the state values of a queue for readers outside its actor, such as Spark.

Pure, and built from the queue's own classes, so that the layout is defined in one place. Each value is decoded on its
own with the queue's metadata, so memory does not grow with the queue. Overdue changes are shown as the queue would
make them: an expired lock holds nothing, and an expired item is gone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.errors import HoldfastError, StorageBroken
from holdfast.kinds import METADATA
from holdfast.names import qualify, split_queue_actor
from holdfast.pushpop.api.config import QueueConfig
from holdfast.pushpop.core.delayed import DelayedItems
from holdfast.pushpop.core.due_index import TICKS_PER_SECOND, DueIndex
from holdfast.pushpop.core.format_version import refuse_other_format
from holdfast.pushpop.core.in_flight import ERRORS, Lock, Redelivery, group_key, lock_key
from holdfast.pushpop.core.items import Item, ItemId, Place, delayed_key, has_expired, segment_key, waiting_at
from holdfast.pushpop.core.lanes import Lane
from holdfast.pushpop.core.outgoing import Transfer, transfer_keys
from holdfast.pushpop.core.queue import Queue
from holdfast.pushpop.core.segment_codec import BREAK, decode, split
from holdfast.pushpop.core.transfer_dedup import received_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from holdfast.pushpop.core.items import Delivered
    from holdfast.pushpop.core.segment_codec import Entry
    from holdfast.runtime.reads import Reads

WAITING, DELAYED, LOCKED = "waiting", "delayed", "locked"
#: In a transfer that the other queue has not received yet.
MOVING = "moving"

#: Key prefixes of the values that hold items.
SEGMENTS, SHELVES = "segment-", "delayed-"
_SEGMENT = re.compile(r"segment-(\d+)-(\d+)\Z", re.ASCII)
_SHELF = re.compile(r"delayed-(\d+)\Z", re.ASCII)
# The number of values to read at once when all have to be read. A lock can have some megabytes.
_AT_ONCE = 8
#: The errors that reading a value can raise if it is damaged or was not written by Holdfast.
UNREADABLE = (HoldfastError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)


class StoredItem(NamedTuple):
    id: str
    priority: int
    state: str
    text: str
    enqueued_at: float
    due_at: float | None
    expires_at: float | None
    deliveries: int
    dedup_id: str | None
    idempotency_key: str | None
    error: str | None
    origin: dict[str, Any] | None

    @property
    def available_at(self) -> float:
        """When it became available to consumers."""
        return self.enqueued_at if self.due_at is None else max(self.due_at, self.enqueued_at)


class Pushed(NamedTuple):
    """Waiting items of one priority that were never delivered."""

    priority: int
    #: The prefix of their ids; the rest counts up from ``first``.
    named: str
    first: int
    #: The payloads, one in each line.
    lines: str
    #: One time for each item, or one for all.
    enqueued_at: list[float] | float


@dataclass(frozen=True, slots=True)
class OutgoingItems:
    """Items in a transfer. They have arrived once the target has recorded this transfer number or a later one."""

    target: str
    arrivals_key: str
    source: str
    number: int
    items: list[StoredItem]

    def arrived(self, arrivals: dict[str, int] | None) -> bool:
        return (arrivals or {}).get(self.source, -1) >= self.number


@dataclass(frozen=True, slots=True)
class Totals:
    waiting: int
    delayed: int
    locked: int
    #: When the item that has waited longest became available.
    oldest: float | None
    #: Values that cannot be read, with the error; their items are not counted.
    left_out: dict[str, Exception] = field(default_factory=dict)


class QueueReader:
    """Interprets the values of a queue, or of one partition, by its metadata."""

    def __init__(self, actor_id: str, metadata: dict[str, Any], config: dict[str, Any] | None, as_of: float) -> None:
        refuse_other_format("It", metadata)
        self.tenant, self.name, self.partition = split_queue_actor(actor_id)
        self.config = QueueConfig.stored(config)
        self._queue = Queue(self.name, self.config, self.partition)
        self._queue.transfers.is_dead_letter_queue = metadata.get("_is_dead_letter_queue", False)
        self._as_of = as_of
        #: Whether this partition was deleted with its queue and not used since: only its transfers are left.
        self.deleted: bool = metadata.get("_deleted", False)
        self._lanes = {
            int(priority): Lane.from_json(int(priority), metadata[priority], value)
            for priority, value in metadata["_lanes"].items()
        }
        self._delayed_items = DelayedItems.from_json(metadata.get("_delayed"))
        self._due_index = DueIndex.from_json(metadata.get("_due_index"))
        self._active_lock: dict[str, Any] | None = metadata.get("_active_lock")
        self._in_flight = metadata["_in_flight"]
        self._inline: dict[str, Any] = metadata.get("_segments", {})

    def inline(self) -> Iterator[Reads[list[StoredItem]]]:
        """Yields the waiting items of the segments stored in the metadata."""
        return (self.in_segment(key, value) for key, value in self._inline.items())

    def in_segment(self, key: str, value: dict[str, Any]) -> Reads[list[StoredItem]]:
        """Returns the waiting items of a segment. Items delivered from it are found by their lock or redelivery."""
        priority, segment = _numbers(_SEGMENT, key)
        entries = decode(value)
        start, end = self._span(priority, segment, len(entries))
        taken = [found for at in range(start, end) if (found := waiting_at(Place(priority, segment, at), entries[at]))]
        return self._alive((yield from self._deliver(taken, {key: entries})), WAITING)

    def only_pushed(self, key: str, value: dict[str, Any]) -> Pushed | None:
        """Returns a segment's items as one block, or None if any item has more than a payload and a push time.

        Avoids a pass over each item, of which there may be millions.
        """
        if "more" in value:
            return None
        priority, segment = _numbers(_SEGMENT, key)
        lane = self._lanes.get(priority)
        lines, times, start = value["lines"], value["at"], 0
        if lane is None or not lane.head < segment < lane.tail:
            found = split(value)
            start, end = self._span(priority, segment, len(found[0]))
            if start == end:
                return None
            lines, times = BREAK.join(found[0][start:end]), found[1][start:end]
        return Pushed(priority, f"{self.partition}-{priority}-{segment}-", start, lines, times)

    def in_delayed(self, key: str, slots: list[Any]) -> Reads[list[StoredItem]]:
        """Returns the delayed items of a file, and the due ones that the queue has not moved to their lane yet."""
        yield ()
        [file] = _numbers(_SHELF, key)
        if file < self._delayed_items.floor:
            return []
        found = []
        for ordinal, slot in enumerate(slots):
            if slot is None or "lane" in slot:
                continue
            item = Item.from_json(slot)
            state = DELAYED if item.due_at is not None and item.due_at > self._as_of else WAITING
            if (shown := self._state_of(item, state)) is not None:
                item_id = str(ItemId(self.partition, slot["priority"], True, file, ordinal))
                found.append(_stored(item_id, slot["priority"], shown, item, 0, None, item.due_at))
        return found

    def held(self) -> Iterator[tuple[str, Reads[list[StoredItem]]]]:
        """Yields the readers of locked and redelivered items by their key, each separately as one may be unreadable."""
        yield METADATA, self._in_active_lock()
        for key in self._lock_keys():
            yield key, self._in_lock(key)
        for key in self._group_keys():
            yield key, self._in_group(key)

    def sent(self) -> Iterator[tuple[str, Reads[OutgoingItems | None]]]:
        """Yields the readers of transfers that may not have arrived."""
        for key in transfer_keys(self._in_flight["transfers"]):
            yield key, self._in_transfer(key)

    def locks(self) -> Iterator[tuple[str, Reads[Lock | None]]]:
        """Yields the readers of locks; each returns the active lock, or None."""
        for key in (METADATA, *self._lock_keys()):
            yield key, self._active(key)

    def needed(self) -> Iterator[str]:
        """Yields the keys of segments that must exist: those with items that were never delivered."""
        for lane in self._lanes.values():
            if not lane.exhausted:
                keys = [segment_key(lane.priority, number) for number in range(lane.head, lane.tail)]
                if lane.filled:
                    keys.append(segment_key(lane.priority, lane.tail))
                yield from (key for key in keys if key not in self._inline)

    def totals(self) -> Reads[Totals]:
        """Returns the number of items by state. If anything is overdue, this reads all items."""
        left_out: dict[str, Exception] = {}
        locked = yield from self._locked(left_out)
        if locked is None or self._is_overdue():
            return (yield from self._counted())
        delayed = 0
        waiting = sum(lane.count for lane in self._lanes.values())
        first: dict[int, tuple[Place, StoredItem]] = {}
        for key in self._group_keys():
            try:
                [value] = yield (key,)
                group = Redelivery([]) if value is None else Redelivery.from_json(value)
                found = yield from self._of_group(group)
            except UNREADABLE as error:
                left_out[key] = error
                continue
            # The lane's count includes redeliveries, also those that expired while locked and are not removed yet.
            waiting += sum(item.state == WAITING for _, item in found) - (len(group.taken) if group.due is None else 0)
            delayed += sum(item.state == DELAYED for _, item in found)
            for place, item in found:
                if item.state == WAITING:
                    first[place.priority] = min(first.get(place.priority, (place, item)), (place, item))
        # A redelivery with a delay enters its lane when the queue notices that it is due, so a lane may have none yet.
        moments = [item.available_at for _, item in first.values()]
        for priority, lane in self._lanes.items():
            if priority not in first and (head := (yield from self._first_in(lane, left_out))) is not None:
                moments.append(head.available_at)
        return Totals(waiting, self._delayed_items.waiting + delayed, locked, min(moments, default=None), left_out)

    # Inside

    def _span(self, priority: int, segment: int, length: int) -> tuple[int, int]:
        """Returns the range of a segment's entries that were never delivered."""
        lane = self._lanes.get(priority)
        if lane is None or not lane.head <= segment <= lane.tail:
            return 0, 0
        end = min(lane.filled, length) if segment == lane.tail else length
        start = lane.offset if segment == lane.head else 0
        return min(start, end), end

    def _is_overdue(self) -> bool:
        """Returns whether the due index has overdue entries. Expiries are entered at the first tick after them."""
        due = self._due_index.next_due
        return due is not None and due - 1 / TICKS_PER_SECOND < self._as_of

    def _lock_keys(self) -> Iterator[str]:
        return (lock_key(slot) for slot in range(1, self._in_flight["locks"]))

    def _group_keys(self) -> Iterator[str]:
        return (group_key(number) for number in range(self._in_flight["redeliveries"]))

    def _locked(self, left_out: dict[str, Exception]) -> Reads[int | None]:
        """Returns the number of locked items, or None if a lock has expired."""
        locked = 0
        values = {} if self._active_lock is None else {METADATA: self._active_lock}
        for keys in ((), *_some(self._lock_keys())):
            values |= yield from _readable(keys, left_out)
            for key, value in values.items():
                try:
                    lock = Lock.from_json(value, 1)
                    if lock.expires_at <= self._as_of:
                        return None
                    locked += len(lock.taken)
                except UNREADABLE as error:
                    left_out[key] = error
            values = {}
        return locked

    def _counted(self) -> Reads[Totals]:
        """Counts the items one by one."""
        counts = dict.fromkeys((WAITING, DELAYED, LOCKED, MOVING), 0)
        oldest: float | None = None
        left_out: dict[str, Exception] = {}

        def counted(key: str, steps: Reads[list[StoredItem]]) -> Reads[None]:
            nonlocal oldest
            try:
                items = yield from steps
            except UNREADABLE as error:
                left_out[key] = error
                return
            for item in items:
                counts[item.state] += 1
                if item.state == WAITING:
                    oldest = item.available_at if oldest is None else min(oldest, item.available_at)

        for key, steps in self.held():
            yield from counted(key, steps)
        for steps in self.inline():
            yield from counted(METADATA, steps)
        for lane in self._lanes.values():
            segments = (segment_key(lane.priority, number) for number in range(lane.head, lane.tail + 1))
            for keys in _some(key for key in segments if key not in self._inline):
                for key, value in (yield from _readable(keys, left_out)).items():
                    yield from counted(key, self.in_segment(key, value))
        for keys in _some(delayed_key(file) for file in self._delayed_items.files):
            for key, slots in (yield from _readable(keys, left_out)).items():
                yield from counted(key, self.in_delayed(key, slots))
        return Totals(counts[WAITING], counts[DELAYED], counts[LOCKED], oldest, left_out)

    def _first_in(self, lane: Lane, left_out: dict[str, Exception]) -> Reads[StoredItem | None]:
        """Returns the lane's first item that was never delivered."""
        for number in range(lane.head, lane.tail + 1):
            key = segment_key(lane.priority, number)
            try:
                value = self._inline.get(key)
                if value is None:
                    [value] = yield (key,)
                if value is not None and (waiting := (yield from self.in_segment(key, value))):
                    return waiting[0]
            except UNREADABLE as error:
                left_out[key] = error
        return None

    def _lock_at(self, key: str) -> Reads[Lock | None]:
        [value] = [self._active_lock] if key == METADATA else (yield (key,))
        return None if value is None else Lock.from_json(value, 1)

    def _active(self, key: str) -> Reads[Lock | None]:
        lock = yield from self._lock_at(key)
        return lock if lock is not None and lock.expires_at > self._as_of else None

    def _in_active_lock(self) -> Reads[list[StoredItem]]:
        if self._active_lock is None:
            return []
        [errors] = yield (ERRORS,)
        return (yield from self._of_lock(Lock.from_json(self._active_lock, 0, errors)))

    def _in_lock(self, key: str) -> Reads[list[StoredItem]]:
        lock = yield from self._lock_at(key)
        return [] if lock is None else (yield from self._of_lock(lock))

    def _of_lock(self, lock: Lock) -> Reads[list[StoredItem]]:
        if lock.expires_at > self._as_of:
            return [self._shown(taken, item, LOCKED) for taken, item in (yield from self._deliver(lock.taken))]
        found = []
        for taken, item in (yield from self._deliver(lock.taken)):
            if self._queue.returns.deliveries_exhausted(taken):
                found.append(self._shown(taken, item, MOVING))
            elif (retry_at := self._queue.returns.retry_at(taken, lock.expires_at)) > self._as_of:
                found += self._alive([(taken, item)], DELAYED, retry_at)
            else:
                found += self._alive([(taken, item)], WAITING)
        return found

    def _in_group(self, key: str) -> Reads[list[StoredItem]]:
        [value] = yield (key,)
        return [] if value is None else [item for _, item in (yield from self._of_group(Redelivery.from_json(value)))]

    def _of_group(self, group: Redelivery) -> Reads[list[tuple[Place, StoredItem]]]:
        postponed = group.due is not None and group.due > self._as_of
        state, due = (DELAYED, group.due) if postponed else (WAITING, None)
        found = []
        for taken, item in (yield from self._deliver(group.taken)):
            found += [(taken.place, shown) for shown in self._alive([(taken, item)], state, due)]
        return found

    def _in_transfer(self, key: str) -> Reads[OutgoingItems | None]:
        [value] = yield (key,)
        if value is None:
            return None
        transfer = Transfer.from_json(value)
        items = [self._shown(taken, item, MOVING) for taken, item in (yield from self._deliver(transfer.taken))]
        source = self._queue.transfers.source
        return OutgoingItems(
            qualify(self.tenant, transfer.target), received_key(source), source, transfer.number, items
        )

    def _deliver(
        self, taken: Sequence[Delivered], known: dict[str, list[Entry]] | None = None
    ) -> Reads[list[tuple[Delivered, Item]]]:
        """Adds the payloads; ``known`` has the decoded entries of values that were read already."""
        slots = dict(known or {})
        homes = [entry.place if entry.shelved is None else entry.shelved for entry in taken]
        keys = tuple(
            dict.fromkeys(home.key for home in homes if home.key not in slots and home.key not in self._inline)
        )
        values = self._inline | (dict(zip(keys, (yield keys), strict=True)) if keys else {})
        found = []
        for entry, home in zip(taken, homes, strict=True):
            if home.key not in slots:
                value = values[home.key]
                if value is None:
                    raise StorageBroken(f"{home.key} is missing from the store.")
                slots[home.key] = decode(value) if entry.shelved is None else value
            stored = slots[home.key][home.ordinal]
            if stored is None:
                raise StorageBroken(f"An item is missing from {home.key}.")
            found.append((entry, Item.from_json(stored)))
        return found

    def _alive(
        self, delivered: Iterable[tuple[Delivered, Item]], state: str, due_at: float | None = None
    ) -> list[StoredItem]:
        """Returns the items that have not expired; expired ones that become dead letters are shown as moving."""
        return [
            self._shown(taken, item, shown, due_at)
            for taken, item in delivered
            if (shown := self._state_of(item, state)) is not None
        ]

    def _state_of(self, item: Item, state: str) -> str | None:
        if not has_expired(item.expires_at, self._as_of):
            return state
        return MOVING if self._queue.returns.expired_target is not None else None

    def _shown(self, taken: Delivered, item: Item, state: str, due_at: float | None = None) -> StoredItem:
        item_id = taken.item_id(self.partition)
        due = item.due_at if due_at is None else due_at
        return _stored(item_id, taken.place.priority, state, item, taken.deliveries, taken.error, due)


def _stored(
    item_id: str, priority: int, state: str, item: Item, deliveries: int, error: str | None, due_at: float | None
) -> StoredItem:
    return StoredItem(
        item_id,
        priority,
        state,
        item.text,
        item.enqueued_at,
        due_at,
        item.expires_at,
        deliveries,
        item.dedup_id,
        item.idempotency_key,
        error,
        item.origin,
    )


def _numbers(pattern: re.Pattern[str], key: str) -> list[int]:
    found = pattern.match(key)
    if found is None:
        raise StorageBroken(f"{key} is not a key of a queue.")
    return [int(number) for number in found.groups()]


def _readable(keys: tuple[str, ...], left_out: dict[str, Exception]) -> Reads[dict[str, Any]]:
    """Returns the values that exist. If the batch cannot be read, each key is read alone to find the unreadable one."""
    try:
        return {key: value for key, value in zip(keys, (yield keys), strict=True) if value is not None}
    except UNREADABLE as error:
        if len(keys) == 1:
            left_out[keys[0]] = error
            return {}
    found: dict[str, Any] = {}
    for key in keys:
        found |= yield from _readable((key,), left_out)
    return found


def _some(keys: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """Yields the keys in chunks."""
    rest = iter(keys)
    while chunk := tuple(islice(rest, _AT_ONCE)):
        yield chunk
