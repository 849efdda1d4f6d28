"""What the state values of a queue mean to somebody who reads all of them, without being the queue.

Pure, and in terms of the queue's own parts, so that the layout is known in one place. Each value is decoded by itself,
with the queue's metadata at hand: nothing here grows with the queue. What is overdue is shown as the queue itself would
show it at that moment: a lock whose time is up holds nothing, what has expired is gone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.errors import HoldfastError, StorageBroken
from holdfast.identity import qualify, split_queue_actor
from holdfast.pushpop.arrivals import arrivals_key
from holdfast.pushpop.calendar import TICKS_PER_SECOND, Calendar
from holdfast.pushpop.config import QueueConfig
from holdfast.pushpop.core import METADATA, Queue
from holdfast.pushpop.format import refuse_other_format
from holdfast.pushpop.holdings import ERRORS, Group, Lock, Parcel, group_key, lock_key, parcel_key
from holdfast.pushpop.items import Item, ItemId, Place, segment_key, shelf_key
from holdfast.pushpop.lanes import Lane
from holdfast.pushpop.lines import BREAK, split, unpacked
from holdfast.pushpop.shelf import Shelf
from holdfast.pushpop.stock import has_expired, waiting_at

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from holdfast.pushpop.items import Taken
    from holdfast.pushpop.lines import Entry
    from holdfast.pushpop.steps import Steps

WAITING, DELAYED, LOCKED = "waiting", "delayed", "locked"
#: On its way to another queue, which does not have it yet.
MOVING = "moving"

#: The values that items lie in, and those that say which of them are still there.
SEGMENTS, SHELVES = "segment-", "shelf-"
_SEGMENT = re.compile(r"segment-(\d+)-(\d+)\Z", re.ASCII)
_SHELF = re.compile(r"shelf-(\d+)\Z", re.ASCII)
# Values that are asked for at once where all of them have to be seen. A lock can have some megabytes.
_AT_ONCE = 8
#: What reading a value can end in that nobody wrote who knew the layout.
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
        """Since when it could be taken."""
        return self.enqueued_at if self.due_at is None else max(self.due_at, self.enqueued_at)


class Pushed(NamedTuple):
    """Items of one priority that wait, and were never taken."""

    priority: int
    #: Their ids are this, and numbers that follow each other from this one on.
    named: str
    first: int
    #: One text, a payload in each line.
    lines: str
    #: Of each, or one for all.
    enqueued_at: list[float] | float


@dataclass(frozen=True, slots=True)
class Sent:
    """Items on their way elsewhere: they have arrived when the other queue remembers this number, or a later one."""

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
    #: Since when what has waited longest could have been taken.
    oldest: float | None
    #: Values that cannot be read, and why: what they hold is not counted.
    left_out: dict[str, Exception] = field(default_factory=dict)


class StoredQueue:
    """What the metadata of a queue, or of one partition of it, says of its other values."""

    def __init__(self, actor_id: str, metadata: dict[str, Any], config: dict[str, Any] | None, as_of: float) -> None:
        refuse_other_format("It", metadata)
        self.tenant, self.name, self.partition = split_queue_actor(actor_id)
        self.config = QueueConfig.stored(config)
        self._queue = Queue(self.name, self.config, self.partition)
        self._queue.post.takes_dead_letters = metadata.get("_takes_dead_letters", False)
        self._as_of = as_of
        self._lanes = {
            int(priority): Lane.from_json(int(priority), metadata[priority], value)
            for priority, value in metadata["_lanes"].items()
        }
        self._shelf = Shelf.from_json(metadata.get("_shelf"))
        self._calendar = Calendar.from_json(metadata.get("_calendar"))
        self._active_lock: dict[str, Any] | None = metadata.get("_active_lock")
        self._holdings = metadata["_holdings"]
        self._inline: dict[str, Any] = metadata.get("_segments", {})

    def inline(self) -> Iterator[Steps[list[StoredItem]]]:
        """What waits in the segments that lie in the metadata."""
        return (self.in_segment(key, value) for key, value in self._inline.items())

    def in_segment(self, key: str, value: dict[str, Any]) -> Steps[list[StoredItem]]:
        """What waits in a segment of a lane. What was taken out of it is where it is held."""
        priority, segment = _numbers(_SEGMENT, key)
        entries = unpacked(value)
        start, end = self._span(priority, segment, len(entries))
        taken = [found for at in range(start, end) if (found := waiting_at(Place(priority, segment, at), entries[at]))]
        return self._alive((yield from self._deliver(taken, {key: entries})), WAITING)

    def only_pushed(self, key: str, value: dict[str, Any]) -> Pushed | None:
        """The same, where nothing is known of any but its payload and when it was pushed; None where more is.

        There may be millions of these, so nobody looks at each.
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

    def on_shelf(self, key: str, slots: list[Any]) -> Steps[list[StoredItem]]:
        """What is not due yet, or has fallen due unnoticed. What was noticed is in its lane."""
        yield ()
        [file] = _numbers(_SHELF, key)
        if file < self._shelf.floor:
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

    def held(self) -> Iterator[tuple[str, Steps[list[StoredItem]]]]:
        """What is locked or was given back, by the value that says so: each by itself, as one may be unreadable."""
        yield METADATA, self._in_active_lock()
        for key in self._lock_keys():
            yield key, self._in_lock(key)
        for key in self._group_keys():
            yield key, self._in_group(key)

    def sent(self) -> Iterator[tuple[str, Steps[Sent | None]]]:
        """What was sent to other queues, and may not have arrived."""
        for number in range(*self._holdings["parcels"]):
            yield parcel_key(number), self._in_parcel(number)

    def locks(self) -> Iterator[tuple[str, Steps[Lock | None]]]:
        """Those that are active; None for what is none."""
        for key in (METADATA, *self._lock_keys()):
            yield key, self._active(key)

    def needed(self) -> Iterator[str]:
        """The segments that must be there: those with items that were never taken."""
        for lane in self._lanes.values():
            if not lane.exhausted:
                keys = [segment_key(lane.priority, number) for number in range(lane.head, lane.tail)]
                if lane.filled:
                    keys.append(segment_key(lane.priority, lane.tail))
                yield from (key for key in keys if key not in self._inline)

    def totals(self) -> Steps[Totals]:
        """How many there are. Where something is overdue, that means to look at all of them."""
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
                group = Group([]) if value is None else Group.from_json(value)
                found = yield from self._of_group(group)
            except UNREADABLE as error:
                left_out[key] = error
                continue
            # The lane counts them too, and those that expired while they were locked, until that is noticed.
            waiting += sum(item.state == WAITING for _, item in found) - (len(group.taken) if group.due is None else 0)
            delayed += sum(item.state == DELAYED for _, item in found)
            for place, item in found:
                if item.state == WAITING:
                    first[place.priority] = min(first.get(place.priority, (place, item)), (place, item))
        # Of those that were given back until some time, the lane knows when that is noticed: there may be none yet.
        moments = [item.available_at for _, item in first.values()]
        for priority, lane in self._lanes.items():
            if priority not in first and (head := (yield from self._first_in(lane, left_out))) is not None:
                moments.append(head.available_at)
        return Totals(waiting, self._shelf.waiting + delayed, locked, min(moments, default=None), left_out)

    # Inside

    def _span(self, priority: int, segment: int, length: int) -> tuple[int, int]:
        """Which of so many were never taken."""
        lane = self._lanes.get(priority)
        if lane is None or not lane.head <= segment <= lane.tail:
            return 0, 0
        end = min(lane.filled, length) if segment == lane.tail else length
        start = lane.offset if segment == lane.head else 0
        return min(start, end), end

    def _is_overdue(self) -> bool:
        """Whether the calendar has something that is due. What expires is noted at the first tick after that."""
        due = self._calendar.next_due
        return due is not None and due - 1 / TICKS_PER_SECOND < self._as_of

    def _lock_keys(self) -> Iterator[str]:
        return (lock_key(slot) for slot in range(1, self._holdings["locks"]))

    def _group_keys(self) -> Iterator[str]:
        return (group_key(number) for number in range(self._holdings["returned"]))

    def _locked(self, left_out: dict[str, Exception]) -> Steps[int | None]:
        """How many the locks hold; None when the time of one is up."""
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

    def _counted(self) -> Steps[Totals]:
        """One by one."""
        counts = dict.fromkeys((WAITING, DELAYED, LOCKED, MOVING), 0)
        oldest: float | None = None
        left_out: dict[str, Exception] = {}

        def counted(key: str, steps: Steps[list[StoredItem]]) -> Steps[None]:
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
        for keys in _some(shelf_key(file) for file in self._shelf.files):
            for key, slots in (yield from _readable(keys, left_out)).items():
                yield from counted(key, self.on_shelf(key, slots))
        return Totals(counts[WAITING], counts[DELAYED], counts[LOCKED], oldest, left_out)

    def _first_in(self, lane: Lane, left_out: dict[str, Exception]) -> Steps[StoredItem | None]:
        """The first of those that were never taken."""
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

    def _lock_at(self, key: str) -> Steps[Lock | None]:
        [value] = [self._active_lock] if key == METADATA else (yield (key,))
        return None if value is None else Lock.from_json(value, 1)

    def _active(self, key: str) -> Steps[Lock | None]:
        lock = yield from self._lock_at(key)
        return lock if lock is not None and lock.expires_at > self._as_of else None

    def _in_active_lock(self) -> Steps[list[StoredItem]]:
        if self._active_lock is None:
            return []
        [errors] = yield (ERRORS,)
        return (yield from self._of_lock(Lock.from_json(self._active_lock, 0, errors)))

    def _in_lock(self, key: str) -> Steps[list[StoredItem]]:
        lock = yield from self._lock_at(key)
        return [] if lock is None else (yield from self._of_lock(lock))

    def _of_lock(self, lock: Lock) -> Steps[list[StoredItem]]:
        if lock.expires_at > self._as_of:
            return [self._shown(taken, item, LOCKED) for taken, item in (yield from self._deliver(lock.taken))]
        found = []
        for taken, item in (yield from self._deliver(lock.taken)):
            if self._queue.is_spent(taken):
                found.append(self._shown(taken, item, MOVING))
            else:
                found += self._alive([(taken, item)], WAITING)
        return found

    def _in_group(self, key: str) -> Steps[list[StoredItem]]:
        [value] = yield (key,)
        return [] if value is None else [item for _, item in (yield from self._of_group(Group.from_json(value)))]

    def _of_group(self, group: Group) -> Steps[list[tuple[Place, StoredItem]]]:
        postponed = group.due is not None and group.due > self._as_of
        state, due = (DELAYED, group.due) if postponed else (WAITING, None)
        found = []
        for taken, item in (yield from self._deliver(group.taken)):
            found += [(taken.place, shown) for shown in self._alive([(taken, item)], state, due)]
        return found

    def _in_parcel(self, number: int) -> Steps[Sent | None]:
        [value] = yield (parcel_key(number),)
        if value is None:
            return None
        parcel = Parcel.from_json(value)
        items = [self._shown(taken, item, MOVING) for taken, item in (yield from self._deliver(parcel.taken))]
        source = self._queue.post.source
        return Sent(qualify(self.tenant, parcel.target), arrivals_key(source), source, number, items)

    def _deliver(
        self, taken: Sequence[Taken], known: dict[str, list[Entry]] | None = None
    ) -> Steps[list[tuple[Taken, Item]]]:
        """With their payloads; ``known`` is what is known of what lies in some values."""
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
                slots[home.key] = unpacked(value) if entry.shelved is None else value
            stored = slots[home.key][home.ordinal]
            if stored is None:
                raise StorageBroken(f"An item is missing from {home.key}.")
            found.append((entry, Item.from_json(stored)))
        return found

    def _alive(
        self, delivered: Iterable[tuple[Taken, Item]], state: str, due_at: float | None = None
    ) -> list[StoredItem]:
        """Those that have not expired; those that become dead letters instead are on their way."""
        return [
            self._shown(taken, item, shown, due_at)
            for taken, item in delivered
            if (shown := self._state_of(item, state)) is not None
        ]

    def _state_of(self, item: Item, state: str) -> str | None:
        if not has_expired(item.expires_at, self._as_of):
            return state
        return MOVING if self._queue.expired_go_to is not None else None

    def _shown(self, taken: Taken, item: Item, state: str, due_at: float | None = None) -> StoredItem:
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


def _readable(keys: tuple[str, ...], left_out: dict[str, Exception]) -> Steps[dict[str, Any]]:
    """Those of them that exist. Where one cannot be read, whoever reads says so, and each is asked for by itself."""
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
    """So many at a time."""
    rest = iter(keys)
    while chunk := tuple(islice(rest, _AT_ONCE)):
        yield chunk
