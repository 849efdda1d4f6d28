"""The items of one queue: where each lies, in what order they come, and what becomes of what lies ahead.

An item is in its lane (waiting), on the shelf (not due yet), or held (locked, given back, on its way to another queue).
No I/O: what has to be read is asked for, as in the queue itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.errors import StorageBroken
from holdfast.pushpop.bounds import Basket, Bounds
from holdfast.pushpop.calendar import Calendar
from holdfast.pushpop.garbage import Garbage
from holdfast.pushpop.holdings import Group, Holdings, Lock, Parcel
from holdfast.pushpop.items import Delivery, Item, ItemId, Place, Shelved, Taken, segment_key, shelf_key
from holdfast.pushpop.lanes import SEGMENT_BYTES, Lane
from holdfast.pushpop.segments import Segments
from holdfast.pushpop.shelf import FILE_BYTES, Shelf

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.pushpop.steps import Steps

# Entries of the calendar that are dealt with in one transaction, unless what they touch is large before.
CATCH_UP_AT_ONCE = 200
# One save may have 32 MiB with daprd, and text can take four times as many bytes as it has characters.
CATCH_UP_BYTES = 2 * 1024 * 1024
# Expired items that one pop passes before it leaves the rest to the next one, or to the calendar.
SPOILED_AT_ONCE = 200
# Segments that are looked through for what somebody asks for, before they have to ask for the rest.
BROWSE_AT_ONCE = 100

# In the calendar.
FALLS_DUE, LOOK_THROUGH = "due", "look"
# In a lane: withdrawn, but still wanted by whoever sends it on.
GONE = "gone"


@dataclass(frozen=True, slots=True)
class Found:
    """An item somebody named."""

    #: Without a place while it is not due yet.
    taken: Taken | None
    shelved: Shelved | None
    #: What holds it; None while it waits, or is not due yet.
    holder: Lock | Group | None


class Stock:
    def __init__(self, name: str) -> None:
        self._name = name
        self.lanes: dict[int, Lane] = {}
        self.holdings = Holdings()
        self.shelf = Shelf()
        self.calendar = Calendar()
        #: Numbers of segments are never used again, so that an item's id is its own for ever.
        self._next_segment = 0
        self._segments = Segments(name)
        self._garbage = Garbage()

    @property
    def waiting(self) -> int:
        """How many could be taken now."""
        return sum(lane.count for lane in self.lanes.values())

    @property
    def delayed(self) -> int:
        return self.shelf.waiting + self.holdings.postponed

    @property
    def load(self) -> int:
        """All there is."""
        return self.waiting + self.delayed + self.holdings.locked

    @property
    def inline_changed(self) -> bool:
        """Whether the metadata is to be saved for what lies in it of the segments."""
        return self._segments.inline_changed

    @property
    def has_garbage(self) -> bool:
        return bool(self._garbage.ranges)

    def next_moment(self) -> float | None:
        """When something happens to an item by itself."""
        moments = (self.holdings.next_expiry(), self.holdings.next_postponed(), self.calendar.next_due)
        return min((moment for moment in moments if moment is not None), default=None)

    def keys_in_use(self) -> set[str]:
        """What the next push or pop will want."""
        segments = {
            segment_key(lane.priority, number) for lane in self.lanes.values() for number in (lane.head, lane.tail)
        }
        return segments | self.shelf.keys_in_use()

    def changes(self) -> dict[str, Any]:
        """What changed since the last call, but for the metadata; None deletes a value."""
        segments, files = self._garbage.suspects()
        for priority, segment in segments:
            if not self._wanted(priority, segment):
                self._segments.delete(segment_key(priority, segment))
        for file in files:
            if file < self.shelf.floor and not self.holdings.holds(shelf_key(file)):
                self.shelf.discard(file)
        return self._segments.changes() | self.holdings.changes() | self.shelf.changes() | self.calendar.changes()

    # In

    def append(self, items: Sequence[tuple[int, Item]]) -> Steps[list[Place]]:
        """At the end of their lanes."""
        return (yield from self._append([(priority, item.to_json(), item.size) for priority, item in items]))

    def shelve(self, priority: int, item: Item) -> Steps[Shelved]:
        """Until it is due."""
        assert item.due_at is not None
        shelved = yield from self.shelf.put(priority, item)
        yield from self.calendar.add(item.due_at, [FALLS_DUE, priority, *shelved])
        return shelved

    def give_back(self, taken: list[Taken], due: float | None = None) -> None:
        """To the front of their lanes, at once or when they are due."""
        number = self.holdings.give_back(taken, due)
        if due is None:
            self._to_the_front(number, taken)

    # Out

    def take(self, now: float, count: int) -> Steps[tuple[list[Delivery], list[Taken]]]:
        """The next ones, out of their lanes; and those before them that have expired.

        Passes a bounded number of those, so there may be fewer, or none, though there are more.
        """
        basket, spoiled = Basket(count), Basket(SPOILED_AT_ONCE)
        for priority in sorted(self.lanes):
            lane = self.lanes[priority]
            while lane.count and not basket.full:
                taken = yield from self._first(lane)
                delivery = yield from self.deliver(taken)
                expired = has_expired(delivery.item.expires_at, now)
                if not (spoiled if expired else basket).add(delivery):
                    break
                yield from self._pass(lane)
            if basket.closed or spoiled.closed:
                break
        return basket.found, [delivery.taken for delivery in spoiled.found]

    def withdraw(self, taken: Taken, *, keep: bool = False) -> Steps[None]:
        """Takes one out of the middle; ``keep`` when it has to be seen once more."""
        lane = self.lanes[taken.place.priority]
        if not lane.spans(taken.place):
            [returned] = [entry for entry in lane.returned if entry.taken.place == taken.place]
            lane.returned.remove(returned)
            self.holdings.forget_returned(returned)
            lane.count -= 1
        elif lane.is_head(taken.place):
            yield from self._pass_head(lane)
            lane.count -= 1
        else:
            items = yield from self._segments.items(taken.place.key)
            items[taken.place.ordinal] = items[taken.place.ordinal] | {GONE: True} if keep else None
            self._segments.put(taken.place.key)
            lane.gaps += 1
            lane.count -= 1
        self._leave_if_empty(lane)

    def forget(self, taken: Iterable[Taken]) -> Steps[None]:
        """These are done with: what lies in their state values may go."""
        for entry in taken:
            if entry.shelved is not None:
                yield from self.shelf.remove(entry.shelved)
            self._garbage.suspect(entry)

    def purge(self) -> int:
        """Forgets all that waits or is not due. Locked items stay. The state values go later, some at a time."""
        purged = self.waiting + self.delayed
        if not purged:
            return 0
        for lane in self.lanes.values():
            self._discard(lane)
            for returned in lane.returned:
                self.holdings.forget_returned(returned)
                self._garbage.suspect(returned.taken)
        for taken in self.holdings.purge_postponed():
            self._garbage.suspect(taken)
        self.lanes.clear()
        self._garbage.discard(None, *self.shelf.purge())
        return purged

    def sweep(self) -> bool:
        """Deletes some of the state values nobody wants; whether there were any."""
        return self._garbage.sweep()

    # Looking

    def peek(self, now: float, count: int) -> Steps[list[Delivery]]:
        """The next ones in the order a pop would take them, left where they are. Fewer when they are large."""
        basket = Basket(count)
        after: Place | None = None
        while not basket.full:
            page, after = yield from self.browse(after, count)
            for delivery in page:
                if not has_expired(delivery.item.expires_at, now) and not basket.add(delivery):
                    break
            if after is None:
                break
        return basket.found

    def browse(self, after: Place | None, count: int) -> Steps[tuple[list[Delivery], Place | None]]:
        """Up to so many of those that wait, in order, from after this place on; and where to go on, if there is more.

        Looks through a bounded number of segments, so there may be fewer, or none, though there are more.
        """
        basket = Basket(count)
        segments = 0
        last = after
        for priority in sorted(self.lanes):
            if after is not None and priority < after.priority:
                continue
            lane = self.lanes[priority]
            for returned in lane.returned:
                if after is None or returned.taken.place > after:
                    if not basket.add((yield from self.deliver(returned.taken))):
                        return basket.found, last
                    last = returned.taken.place
            segment, ordinal = lane.head, lane.offset
            if after is not None and after.priority == priority:
                segment, ordinal = max((segment, ordinal), (after.segment, after.ordinal + 1))
            while (segment, ordinal) < (lane.tail, lane.filled):
                if segments >= BROWSE_AT_ONCE:
                    return basket.found, last
                segments += 1
                items = yield from self._segments.items(segment_key(priority, segment))
                for number in range(ordinal, len(items)):
                    place = Place(priority, segment, number)
                    if (taken := waiting_at(place, items[number])) and not basket.add((yield from self.deliver(taken))):
                        return basket.found, last
                    last = place
                segment, ordinal = segment + 1, 0
        return basket.found, None

    def oldest(self) -> Steps[float | None]:
        """When the item that has waited longest could first be taken; looks at the first of every priority."""
        moments = []
        for lane in self.lanes.values():
            item = (yield from self.deliver((yield from self._first(lane)))).item
            moments.append(item.enqueued_at if item.due_at is None else max(item.due_at, item.enqueued_at))
        return min(moments, default=None)

    def deliver(self, taken: Taken) -> Steps[Delivery]:
        """With its payload."""
        if taken.shelved is not None:
            slot = yield from self.shelf.get(taken.shelved)
            if slot is None:
                raise StorageBroken(f"Queue {self._name} is damaged: a delayed item is missing from the store.")
            return Delivery(taken, Item.from_json(slot))
        items = yield from self._segments.items(taken.place.key)
        return Delivery(taken, Item.from_json(items[taken.place.ordinal]))

    def expired_of(self, taken: Iterable[Taken], now: float) -> Steps[list[Taken]]:
        """Those of them that nobody wants any more."""
        found = []
        for entry in taken:
            if has_expired((yield from self.deliver(entry)).item.expires_at, now):
                found.append(entry)
        return found

    def find(self, item_id: str, partition: int) -> Steps[Found | None]:
        """The item with this id; None when this partition has none, or it is on its way to another queue."""
        wanted = ItemId.parse(item_id)
        if wanted is None or wanted.partition != partition:
            return None
        shelved = None
        place = Place(wanted.priority, wanted.container, wanted.ordinal)
        if wanted.delayed:
            shelved = Shelved(wanted.container, wanted.ordinal)
            slot = yield from self.shelf.get(shelved)
            if slot is None or slot["priority"] != wanted.priority:
                return None
            if "lane" not in slot:
                return Found(None, shelved, None) if shelved.file >= self.shelf.floor else None
            place = Place(wanted.priority, *slot["lane"])
        holder = self.holdings.holder(place)
        if holder is not None:
            if isinstance(holder, Parcel):
                return None
            [taken] = [entry for entry in holder.taken if entry.place == place]
            # The place of a delayed item is not its id, and looks like another's.
            return Found(taken, shelved, holder) if taken.shelved == shelved else None
        lane = self.lanes.get(place.priority)
        if lane is None or not lane.spans(place):
            return None
        items = yield from self._segments.items(place.key)
        waiting = waiting_at(place, items[place.ordinal]) if place.ordinal < len(items) else None
        return Found(waiting, shelved, None) if waiting is not None and waiting.shelved == shelved else None

    # By itself

    def catch_up(self, now: float, *, keep: bool) -> Steps[list[Taken]]:
        """Brings about what is due, some at a time. Answers what has expired, withdrawn but not forgotten.

        ``keep`` when those have to be seen once more.
        """
        for number, group in self.holdings.fall_due(now):
            self._to_the_front(number, group.taken)
        spoiled: list[Taken] = []
        bounds = Bounds(CATCH_UP_AT_ONCE, CATCH_UP_BYTES)
        due = yield from self.calendar.take_due(now, lambda entry: self._fits(bounds, entry))
        for what, *where in due:
            if what == FALLS_DUE:
                priority, file, ordinal = where
                yield from self._fall_due(priority, Shelved(file, ordinal))
            else:
                priority, segment = where
                spoiled += yield from self._look_through(priority, segment, now, keep=keep)
        return spoiled

    def _fits(self, bounds: Bounds, entry: list[Any]) -> Steps[bool]:
        """Whether a turn can bring this about too."""
        what, priority, number, *_ = entry
        if what == FALLS_DUE:
            if number < self.shelf.floor:
                return bounds.add({})
            sizes = {shelf_key(number): (yield from self.shelf.size(number))}
            lane = self.lanes.get(priority)
            if lane is not None and lane.size < SEGMENT_BYTES:
                sizes[segment_key(priority, lane.tail)] = lane.size  # the last segment, where it comes to
            return bounds.add(sizes)
        items = [item for item in (yield from self._segments.items_if_any(segment_key(priority, number))) or () if item]
        sizes = {shelf_key(item["shelved"][0]): FILE_BYTES for item in items if "shelved" in item}
        sizes[segment_key(priority, number)] = sum(len(item["item"]) for item in items if "shelved" not in item)
        return bounds.add(sizes)

    def _fall_due(self, priority: int, shelved: Shelved) -> Steps[None]:
        slot = (yield from self.shelf.get(shelved)) if shelved.file >= self.shelf.floor else None
        if slot is None:
            return  # revoked, or purged
        entry = {"shelved": list(shelved)} | ({"until": slot["until"]} if "until" in slot else {})
        # With the size of what it stands for: what expires together, in one segment, is sent on together.
        [place] = yield from self._append([(priority, entry, Item.from_json(slot).size)])
        yield from self.shelf.fall_due(shelved, place)

    def _look_through(self, priority: int, segment: int, now: float, *, keep: bool) -> Steps[list[Taken]]:
        """Withdraws what has expired from a segment, and notes when to look again."""
        items = yield from self._segments.items_if_any(segment_key(priority, segment))
        spoiled: list[Taken] = []
        again: list[float] = []
        for ordinal, entry in enumerate(items or ()):
            if entry is None or "until" not in entry:
                continue
            place = Place(priority, segment, ordinal)
            holder = self.holdings.holder(place)
            if isinstance(holder, Lock):
                again.append(max(entry["until"], holder.expires_at))  # it may come back
            elif (taken := self._not_locked(place, entry, holder)) is None:
                continue
            elif not has_expired(entry["until"], now):
                again.append(entry["until"])
            else:
                if isinstance(holder, Group) and holder.due is not None:
                    self.holdings.forget_postponed(taken)
                else:
                    yield from self.withdraw(taken, keep=keep)
                spoiled.append(taken)
        look_at = min(again, default=None)
        lane = self.lanes.get(priority)
        if lane is not None and lane.tail == segment:
            lane.look_at = look_at
        if look_at is not None:
            yield from self.calendar.add(look_at, [LOOK_THROUGH, priority, segment])
        return spoiled

    def _not_locked(self, place: Place, entry: dict[str, Any], holder: Group | Parcel | None) -> Taken | None:
        """What waits at a place, or was given back; None for what is gone, or as good as gone."""
        if isinstance(holder, Group):
            return next(taken for taken in holder.taken if taken.place == place)
        lane = self.lanes.get(place.priority)
        return waiting_at(place, entry) if holder is None and lane is not None and lane.spans(place) else None

    # Inside

    def _append(self, entries: Sequence[tuple[int, dict[str, Any], int]]) -> Steps[list[Place]]:
        places = []
        segments: dict[str, list[Any]] = {}
        for priority, entry, size in entries:
            lane = self._lane(priority)
            place = lane.append(size)
            key = place.key
            if place.ordinal == 0:
                segments[key] = self._segments.begin(key)
            elif key not in segments:
                segments[key] = yield from self._segments.items(key)
            segments[key].append(entry)
            places.append(place)
            until = entry.get("until")
            if until is not None and (lane.look_at is None or until < lane.look_at):
                lane.look_at = until
                yield from self.calendar.add(until, [LOOK_THROUGH, priority, place.segment])
        for key in segments:
            self._segments.put(key)
        return places

    def _to_the_front(self, number: int, taken: Iterable[Taken]) -> None:
        for entry in taken:
            self._lane(entry.place.priority).give_back(entry, number)

    def _lane(self, priority: int) -> Lane:
        lane = self.lanes.get(priority)
        if lane is None:
            lane = self.lanes[priority] = Lane(priority, self._next_segment)
        return lane

    def _first(self, lane: Lane) -> Steps[Taken]:
        """The next one of a lane that is not empty. Gaps before it are passed."""
        if lane.returned:
            return lane.returned[0].taken
        while True:
            items = yield from self._segments.items(segment_key(lane.priority, lane.head))
            taken = waiting_at(Place(lane.priority, lane.head, lane.offset), items[lane.offset])
            if taken is not None:
                return taken
            lane.gaps -= 1
            yield from self._pass_head(lane)

    def _pass(self, lane: Lane) -> Steps[None]:
        """The first one was taken."""
        if lane.returned:
            self.holdings.forget_returned(lane.returned.pop(0))
        else:
            yield from self._pass_head(lane)
        lane.count -= 1
        self._leave_if_empty(lane)

    def _pass_head(self, lane: Lane) -> Steps[None]:
        segment = lane.head
        lane.pass_head(len((yield from self._segments.items(segment_key(lane.priority, segment)))))
        if lane.head != segment:
            self._garbage.suspect_segment(lane.priority, segment)

    def _leave_if_empty(self, lane: Lane) -> None:
        if lane.count == 0:
            self._discard(lane)
            del self.lanes[lane.priority]

    def _discard(self, lane: Lane) -> None:
        """Nothing from head to tail is wanted."""
        if not lane.exhausted:
            self._garbage.discard(lane.priority, lane.head, lane.tail)
        self._next_segment = max(self._next_segment, lane.tail + 1)

    def _wanted(self, priority: int, segment: int) -> bool:
        lane = self.lanes.get(priority)
        if lane is not None and segment >= lane.head and not lane.exhausted:
            return True
        return self.holdings.holds(segment_key(priority, segment))

    # What is saved

    def to_json(self) -> dict[str, Any]:
        """Its part of the metadata."""
        value: dict[str, Any] = {str(priority): lane.count for priority, lane in sorted(self.lanes.items())}
        value |= self.holdings.to_json()
        value["_lanes"] = {str(priority): lane.to_json() for priority, lane in self.lanes.items()}
        value["_next_segment"] = self._next_segment
        if segments := self._segments.to_json():
            value["_segments"] = segments
        if self._garbage.ranges:
            value["_garbage"] = self._garbage.ranges
        if (shelf := self.shelf.to_json()) is not None:
            value["_shelf"] = shelf
        if (calendar := self.calendar.to_json()) is not None:
            value["_calendar"] = calendar
        return value

    @classmethod
    def restore(cls, name: str, metadata: dict[str, Any]) -> Steps[Stock]:
        stock = cls(name)
        for priority, value in metadata["_lanes"].items():
            stock.lanes[int(priority)] = Lane.from_json(int(priority), metadata[priority], value)
        stock.holdings = yield from Holdings.restore(metadata)
        for number, group in stock.holdings.groups.items():
            if group.due is None:
                for taken in group.taken:
                    lane = stock.lanes[taken.place.priority]
                    lane.give_back(taken, number)
                    lane.count -= 1  # it was counted when it was saved
        stock.shelf = Shelf.from_json(metadata.get("_shelf"))
        stock.calendar = Calendar.from_json(metadata.get("_calendar"))
        stock._next_segment = metadata["_next_segment"]
        stock._segments = Segments(name, metadata.get("_segments"))
        stock._garbage.ranges = [tuple(entry) for entry in metadata.get("_garbage", ())]
        return stock


def waiting_at(place: Place, entry: dict[str, Any] | None) -> Taken | None:
    """What lies at a place that no pop has come to yet; None for a gap."""
    if entry is None or GONE in entry:
        return None
    return Taken(place, 0, None, Shelved(*entry["shelved"]) if "shelved" in entry else None)


def has_expired(expires_at: float | None, now: float) -> bool:
    return expires_at is not None and expires_at <= now
