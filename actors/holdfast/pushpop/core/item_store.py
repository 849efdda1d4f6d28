"""The items of one queue: where each is stored, their order, and their due and expiry times.

An item is in its lane (waiting), in a file of delayed items (not due yet), or in flight (locked, returned, in a
transfer). No I/O: generators yield the keys to read, as in the queue itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.errors import StorageBroken
from holdfast.pushpop.core.budgets import ResponseBudget, TurnBudget
from holdfast.pushpop.core.deferred_deletes import DeferredDeletes
from holdfast.pushpop.core.delayed import FILE_BYTES, DelayedItems
from holdfast.pushpop.core.due_index import DueIndex, OldDueIndexes
from holdfast.pushpop.core.in_flight import InFlight, Lock, Redelivery
from holdfast.pushpop.core.items import (
    WITHDRAWN,
    DelayedPlace,
    Delivered,
    Delivery,
    Item,
    ItemId,
    Place,
    delayed_key,
    has_expired,
    segment_key,
    size_of,
    waiting_at,
)
from holdfast.pushpop.core.lanes import SEGMENT_BYTES, Lane
from holdfast.pushpop.core.outgoing import Transfer
from holdfast.pushpop.core.segments import Segments

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.runtime.reads import Reads

# The most due entries to process in one transaction, unless they touch too many bytes before.
CATCH_UP_AT_ONCE = 200
# daprd limits a save to 32 MiB, and text can take four times as many bytes as characters.
CATCH_UP_BYTES = 2 * 1024 * 1024
# The most expired items that one pop skips; the rest is left to the next pop or to the due index.
EXPIRED_AT_ONCE = 200

# Kinds of entries in the due index.
FALLS_DUE, LOOK_THROUGH = "due", "expire"


@dataclass(frozen=True, slots=True)
class Found:
    """An item found by its id."""

    #: None while the item is not due yet.
    taken: Delivered | None
    shelved: DelayedPlace | None
    #: The lock or redelivery that has it; None while it waits or is not due yet.
    holder: Lock | Redelivery | None


class ItemStore:
    def __init__(self, name: str) -> None:
        self._name = name
        self.lanes: dict[int, Lane] = {}
        self.in_flight = InFlight()
        self.delayed_items = DelayedItems()
        self.due_index = DueIndex()
        #: Those of earlier generations of the queue, whose state values are being deleted.
        self._old_due_indexes = OldDueIndexes()
        #: Segment numbers are never reused, so that an item's id stays unique.
        self._next_segment = 0
        self.segments = Segments(name)
        self._deferred_deletes = DeferredDeletes()
        #: The size of all items, including those in transfers.
        self.bytes = 0

    @property
    def waiting(self) -> int:
        """The number of items that can be popped now."""
        return sum(lane.count for lane in self.lanes.values())

    @property
    def delayed(self) -> int:
        return self.delayed_items.waiting + self.in_flight.postponed

    @property
    def load(self) -> int:
        """The number of all items."""
        return self.waiting + self.delayed + self.in_flight.locked

    @property
    def inline_changed(self) -> bool:
        """Whether the metadata has to be saved because of its segments."""
        return self.segments.inline_changed

    @property
    def has_deferred_deletes(self) -> bool:
        return bool(self._deferred_deletes.ranges) or bool(self._old_due_indexes)

    def next_moment(self) -> float | None:
        """Returns the next time at which an item becomes due or expires, or a lock ends."""
        moments = (self.in_flight.next_expiry(), self.in_flight.next_postponed(), self.due_index.next_due)
        return min((moment for moment in moments if moment is not None), default=None)

    def keys_in_use(self) -> set[str]:
        """Returns the state keys that the next push or pop needs."""
        segments = {
            segment_key(lane.priority, number) for lane in self.lanes.values() for number in (lane.head, lane.tail)
        }
        return segments | self.delayed_items.keys_in_use()

    def changes(self) -> dict[str, Any]:
        """Returns the state values that changed since the last call, except the metadata; None deletes a value."""
        segments, files = self._deferred_deletes.candidates()
        for priority, segment in segments:
            if not self._is_used(priority, segment):
                self.segments.delete(segment_key(priority, segment))
        for file in files:
            if file < self.delayed_items.floor and not self.in_flight.holds(delayed_key(file)):
                self.delayed_items.discard(file)
        return (
            self.segments.changes()
            | self.in_flight.changes()
            | self.delayed_items.changes()
            | self.due_index.changes()
            | self._old_due_indexes.changes()
        )

    # Adding

    def append(self, items: Sequence[tuple[int, Item]]) -> Reads[list[Place]]:
        """Adds items at the end of their lanes."""
        self.bytes += sum(item.size for _, item in items)
        return (yield from self._append([(priority, item.to_json(), item.size) for priority, item in items]))

    def delay(self, priority: int, item: Item) -> Reads[DelayedPlace]:
        """Adds an item that becomes available when it is due."""
        assert item.due_at is not None
        self.bytes += item.size
        shelved = yield from self.delayed_items.put(priority, item)
        yield from self.due_index.add(item.due_at, [FALLS_DUE, priority, *shelved])
        return shelved

    def give_back(self, taken: list[Delivered], due: float | None = None) -> None:
        """Returns items to the front of their lanes, at once or when they are due."""
        number = self.in_flight.give_back(taken, due)
        if due is None:
            self._to_the_front(number, taken)

    # Removing

    def take(self, now: float, count: int) -> Reads[tuple[list[Delivery], list[Delivered]]]:
        """Removes the next items from their lanes; returns them, and the expired items before them.

        Skips a bounded number of expired items, so it may return fewer items than there are, or none.
        """
        budget, expired_items = ResponseBudget(count), ResponseBudget(EXPIRED_AT_ONCE)
        for priority in sorted(self.lanes):
            lane = self.lanes[priority]
            while lane.count and not budget.full:
                taken = yield from self._first(lane)
                delivery = yield from self.deliver(taken)
                expired = has_expired(delivery.item.expires_at, now)
                if not (expired_items if expired else budget).add(delivery):
                    break
                yield from self._pass(lane)
            if budget.closed or expired_items.closed:
                break
        return budget.found, [delivery.taken for delivery in expired_items.found]

    def withdraw(self, taken: Delivered, *, keep: bool = False) -> Reads[None]:
        """Removes a waiting item from its lane; ``keep`` preserves its payload for a transfer."""
        lane = self.lanes[taken.place.priority]
        if not lane.spans(taken.place):
            [returned] = [entry for entry in lane.returned if entry.taken.place == taken.place]
            lane.returned.remove(returned)
            self.in_flight.forget_returned(returned)
            lane.count -= 1
        elif lane.is_head(taken.place):
            yield from self._pass_head(lane)
            lane.count -= 1
        else:
            items = yield from self.segments.items(taken.place.key)
            items[taken.place.ordinal] = items[taken.place.ordinal] | {WITHDRAWN: True} if keep else None
            self.segments.put(taken.place.key)
            lane.gaps += 1
            lane.count -= 1
        self._remove_if_empty(lane)

    def forget(self, taken: Iterable[Delivered]) -> Reads[None]:
        """Removes finished items; their state values may be deleted."""
        for entry in taken:
            self.bytes -= entry.size
            if entry.shelved is not None:
                yield from self.delayed_items.remove(entry.shelved)
            self._deferred_deletes.maybe_unused(entry)

    def discard_delayed(self, shelved: DelayedPlace) -> Reads[None]:
        """Removes an item that is not due yet."""
        slot = yield from self.delayed_items.get(shelved)
        if slot is not None:
            self.bytes -= size_of(slot["item"])
        yield from self.delayed_items.remove(shelved)

    def purge(self) -> int:
        """Drops all waiting and delayed items, but not locked ones. State values are deleted later, some at a time."""
        purged = self.waiting + self.delayed
        if purged:
            self._drop_unlocked()
        return purged

    def erase(self, generation: int) -> int:
        """Drops all items and locks, for the next generation of the queue; transfers are kept until they arrive."""
        erased = self.load
        self._drop_unlocked()
        for taken in self.in_flight.release_all():
            self._deferred_deletes.maybe_unused(taken)
        self.bytes = self.in_flight.bytes
        self._old_due_indexes.add(self.due_index)
        self.due_index = DueIndex(generation)
        return erased

    def sweep(self) -> Reads[bool]:
        """Deletes some unused state values; returns whether there were any."""
        swept = yield from self._old_due_indexes.sweep()
        return self._deferred_deletes.sweep() or swept

    # Reading

    def oldest(self) -> Reads[float | None]:
        """Returns when the item that has waited longest became available; reads the first of every priority."""
        moments = []
        for lane in self.lanes.values():
            item = (yield from self.deliver((yield from self._first(lane)))).item
            moments.append(item.enqueued_at if item.due_at is None else max(item.due_at, item.enqueued_at))
        return min(moments, default=None)

    def deliver(self, taken: Delivered) -> Reads[Delivery]:
        """Returns the item with its payload."""
        if taken.shelved is not None:
            slot = yield from self.delayed_items.get(taken.shelved)
            if slot is None:
                raise StorageBroken(f"Queue {self._name} is damaged: a delayed item is missing from the store.")
            return Delivery(taken, Item.from_json(slot))
        items = yield from self.segments.items(taken.place.key)
        return Delivery(taken, Item.from_json(items[taken.place.ordinal]))

    def expired_of(self, taken: Iterable[Delivered], now: float) -> Reads[list[Delivered]]:
        """Returns the expired items among these."""
        found = []
        for entry in taken:
            if has_expired((yield from self.deliver(entry)).item.expires_at, now):
                found.append(entry)
        return found

    def find(self, item_id: str, partition: int) -> Reads[Found | None]:
        """Returns the item with this id, or None if this partition does not have it, or has it in a transfer."""
        wanted = ItemId.parse(item_id)
        if wanted is None or wanted.partition != partition:
            return None
        shelved = None
        place = Place(wanted.priority, wanted.container, wanted.ordinal)
        if wanted.delayed:
            shelved = DelayedPlace(wanted.container, wanted.ordinal)
            slot = yield from self.delayed_items.get(shelved)
            if slot is None or slot["priority"] != wanted.priority:
                return None
            if "lane" not in slot:
                return Found(None, shelved, None) if shelved.file >= self.delayed_items.floor else None
            place = Place(wanted.priority, *slot["lane"])
        holder = self.in_flight.holder(place)
        if holder is not None:
            if isinstance(holder, Transfer):
                return None
            [taken] = [entry for entry in holder.taken if entry.place == place]
            # A delayed item's place in its lane looks like the id of another item.
            return Found(taken, shelved, holder) if taken.shelved == shelved else None
        lane = self.lanes.get(place.priority)
        if lane is None or not lane.spans(place):
            return None
        items = yield from self.segments.items(place.key)
        waiting = waiting_at(place, items[place.ordinal]) if place.ordinal < len(items) else None
        return Found(waiting, shelved, None) if waiting is not None and waiting.shelved == shelved else None

    # Due times

    def catch_up(self, now: float, *, keep: bool) -> Reads[list[Delivered]]:
        """Processes a bounded number of due entries. Returns the expired items, withdrawn but not removed.

        ``keep`` preserves their payloads for a transfer.
        """
        for number, group in self.in_flight.fall_due(now):
            self._to_the_front(number, group.taken)
        expired_items: list[Delivered] = []
        turn_budget = TurnBudget(CATCH_UP_AT_ONCE, CATCH_UP_BYTES)
        due = yield from self.due_index.take_due(now, lambda entry: self._fits(turn_budget, entry))
        for what, *where in due:
            if what == FALLS_DUE:
                priority, file, ordinal = where
                yield from self._fall_due(priority, DelayedPlace(file, ordinal))
            else:
                priority, segment = where
                expired_items += yield from self._expire_segment(priority, segment, now, keep=keep)
        return expired_items

    def _fits(self, turn_budget: TurnBudget, entry: list[Any]) -> Reads[bool]:
        """Returns whether this entry fits into the turn's budget."""
        what, priority, number, *_ = entry
        if what == FALLS_DUE:
            if number < self.delayed_items.floor:
                return turn_budget.add({})
            sizes = {delayed_key(number): (yield from self.delayed_items.size(number))}
            lane = self.lanes.get(priority)
            if lane is not None and lane.size < SEGMENT_BYTES:
                sizes[segment_key(priority, lane.tail)] = lane.size  # the last segment, to which the item is appended
            return turn_budget.add(sizes)
        items = [item for item in (yield from self.segments.items_if_any(segment_key(priority, number))) or () if item]
        sizes = {delayed_key(item["shelved"][0]): FILE_BYTES for item in items if "shelved" in item}
        sizes[segment_key(priority, number)] = sum(len(item["item"]) for item in items if "shelved" not in item)
        return turn_budget.add(sizes)

    def _fall_due(self, priority: int, shelved: DelayedPlace) -> Reads[None]:
        slot = (yield from self.delayed_items.get(shelved)) if shelved.file >= self.delayed_items.floor else None
        if slot is None:
            return  # revoked, or purged
        size = size_of(slot["item"])
        entry = {"shelved": list(shelved), "size": size} | ({"until": slot["until"]} if "until" in slot else {})
        # Counts the payload's size, so that the items of one segment, which expire together, fit into one transfer.
        [place] = yield from self._append([(priority, entry, size)])
        yield from self.delayed_items.fall_due(shelved, place)

    def _expire_segment(self, priority: int, segment: int, now: float, *, keep: bool) -> Reads[list[Delivered]]:
        """Withdraws the expired items of a segment, and adds the next expiry to the due index."""
        items = yield from self.segments.items_if_any(segment_key(priority, segment))
        expired_items: list[Delivered] = []
        again: list[float] = []
        for ordinal, entry in enumerate(items or ()):
            if entry is None or "until" not in entry:
                continue
            place = Place(priority, segment, ordinal)
            holder = self.in_flight.holder(place)
            if isinstance(holder, Lock):
                # The lock may be abandoned at any time. An expired item is handled when its lock ends.
                again.append(holder.expires_at if has_expired(entry["until"], now) else entry["until"])
            elif (taken := self._not_locked(place, entry, holder)) is None:
                continue
            elif not has_expired(entry["until"], now):
                again.append(entry["until"])
            else:
                if isinstance(holder, Redelivery) and holder.due is not None:
                    self.in_flight.forget_postponed(taken)
                else:
                    yield from self.withdraw(taken, keep=keep)
                expired_items.append(taken)
        look_at = min(again, default=None)
        lane = self.lanes.get(priority)
        if lane is not None and lane.tail == segment:
            lane.look_at = look_at
        if look_at is not None:
            yield from self.due_index.add(look_at, [LOOK_THROUGH, priority, segment])
        return expired_items

    def _not_locked(
        self, place: Place, entry: dict[str, Any], holder: Redelivery | Transfer | None
    ) -> Delivered | None:
        """Returns the item at a place that waits or was returned; None if it was removed or is in a transfer."""
        if isinstance(holder, Redelivery):
            return next(taken for taken in holder.taken if taken.place == place)
        lane = self.lanes.get(place.priority)
        return waiting_at(place, entry) if holder is None and lane is not None and lane.spans(place) else None

    # Private

    def _drop_unlocked(self) -> None:
        for lane in self.lanes.values():
            self._discard(lane)
            for returned in lane.returned:
                self.in_flight.forget_returned(returned)
                self._deferred_deletes.maybe_unused(returned.taken)
        for taken in self.in_flight.purge_postponed():
            self._deferred_deletes.maybe_unused(taken)
        self.lanes.clear()
        self._deferred_deletes.discard(None, *self.delayed_items.purge())
        self.bytes = self.in_flight.bytes

    def _append(self, entries: Sequence[tuple[int, dict[str, Any], int]]) -> Reads[list[Place]]:
        places = []
        segments: dict[str, list[Any]] = {}
        for priority, entry, size in entries:
            lane = self._lane(priority)
            place = lane.append(size)
            key = place.key
            if place.ordinal == 0:
                segments[key] = self.segments.begin(key)
            elif key not in segments:
                segments[key] = yield from self.segments.items(key)
            segments[key].append(entry)
            places.append(place)
            until = entry.get("until")
            if until is not None and (lane.look_at is None or until < lane.look_at):
                lane.look_at = until
                yield from self.due_index.add(until, [LOOK_THROUGH, priority, place.segment])
        for key in segments:
            self.segments.put(key)
        return places

    def _to_the_front(self, number: int, taken: Iterable[Delivered]) -> None:
        for entry in taken:
            self._lane(entry.place.priority).give_back(entry, number)

    def _lane(self, priority: int) -> Lane:
        lane = self.lanes.get(priority)
        if lane is None:
            lane = self.lanes[priority] = Lane(priority, self._next_segment)
        return lane

    def _first(self, lane: Lane) -> Reads[Delivered]:
        """Returns the next item of a lane that is not empty, skipping gaps."""
        if lane.returned:
            return lane.returned[0].taken
        while True:
            items = yield from self.segments.items(segment_key(lane.priority, lane.head))
            taken = waiting_at(Place(lane.priority, lane.head, lane.offset), items[lane.offset])
            if taken is not None:
                return taken
            lane.gaps -= 1
            yield from self._pass_head(lane)

    def _pass(self, lane: Lane) -> Reads[None]:
        """Moves the lane past its first item."""
        if lane.returned:
            self.in_flight.forget_returned(lane.returned.pop(0))
        else:
            yield from self._pass_head(lane)
        lane.count -= 1
        self._remove_if_empty(lane)

    def _pass_head(self, lane: Lane) -> Reads[None]:
        segment = lane.head
        lane.pass_head(len((yield from self.segments.items(segment_key(lane.priority, segment)))))
        if lane.head != segment:
            self._deferred_deletes.maybe_unused_segment(lane.priority, segment)

    def _remove_if_empty(self, lane: Lane) -> None:
        if lane.count == 0:
            self._discard(lane)
            del self.lanes[lane.priority]

    def _discard(self, lane: Lane) -> None:
        """Schedules all segments of a lane for deletion."""
        if not lane.exhausted:
            self._deferred_deletes.discard(lane.priority, lane.head, lane.tail)
        self._next_segment = max(self._next_segment, lane.tail + 1)

    def _is_used(self, priority: int, segment: int) -> bool:
        lane = self.lanes.get(priority)
        if lane is not None and segment >= lane.head and not lane.exhausted:
            return True
        return self.in_flight.holds(segment_key(priority, segment))

    # Saved state

    def to_json(self) -> dict[str, Any]:
        """Returns its part of the metadata."""
        value: dict[str, Any] = {str(priority): lane.count for priority, lane in sorted(self.lanes.items())}
        value |= self.in_flight.to_json()
        value["_lanes"] = {str(priority): lane.to_json() for priority, lane in self.lanes.items()}
        value["_next_segment"] = self._next_segment
        value["_bytes"] = self.bytes
        if segments := self.segments.to_json():
            value["_segments"] = segments
        if self._deferred_deletes.ranges:
            value["_deferred_deletes"] = self._deferred_deletes.ranges
        if (delayed_items := self.delayed_items.to_json()) is not None:
            value["_delayed"] = delayed_items
        if (due_index := self.due_index.to_json()) is not None:
            value["_due_index"] = due_index
        if self._old_due_indexes:
            value["_old_due_indexes"] = self._old_due_indexes.to_json()
        return value

    @classmethod
    def restore(cls, name: str, metadata: dict[str, Any]) -> Reads[ItemStore]:
        store = cls(name)
        for priority, value in metadata["_lanes"].items():
            store.lanes[int(priority)] = Lane.from_json(int(priority), metadata[priority], value)
        store.in_flight = yield from InFlight.restore(metadata)
        for number, group in store.in_flight.groups.items():
            if group.due is None:
                for taken in group.taken:
                    lane = store.lanes[taken.place.priority]
                    lane.give_back(taken, number)
                    lane.count -= 1  # the saved count includes it
        store.delayed_items = DelayedItems.from_json(metadata.get("_delayed"))
        store.due_index = DueIndex.from_json(metadata.get("_due_index"), metadata.get("_generation", 0))
        store._old_due_indexes = OldDueIndexes.from_json(metadata.get("_old_due_indexes", ()))
        store._next_segment = metadata["_next_segment"]
        store.bytes = metadata["_bytes"]
        store.segments = Segments(name, metadata.get("_segments"))
        store._deferred_deletes.ranges = [tuple(entry) for entry in metadata.get("_deferred_deletes", ())]
        return store
