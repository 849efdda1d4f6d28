"""Storage of items that were pushed with a delay: numbered files of bounded size.

An item stays in its file when it becomes due, so that its id finds it as long as it exists; its lane then refers to the
file. Items leave in any order: each leaves a gap, and a file that has only gaps is deleted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.pushpop.core.items import DelayedPlace, delayed_key

if TYPE_CHECKING:
    from holdfast.pushpop.core.items import Item, Place
    from holdfast.runtime.reads import Reads

FILE_ITEMS = 100
FILE_BYTES = 32 * 1024
# The number of deleted files to skip in one turn.
RISE_AT_ONCE = 50


class DelayedItems:
    def __init__(self) -> None:
        #: The number of items that are not due yet.
        self.waiting = 0
        #: Files below this number were purged; only locked items in them are still used.
        self.floor = 0
        #: The first file that may exist, apart from purged ones, and whether it is known to exist.
        self._low = 0
        self._low_exists = False
        self._passed = 0
        #: The file that new items are added to.
        self.tail = 0
        self._filled = 0
        self._size = 0
        self._changed: dict[str, Any] = {}

    @property
    def files(self) -> range:
        """The files that may exist, apart from purged ones."""
        return range(self._low, self.tail + 1)

    def changes(self) -> dict[str, Any]:
        self._passed = 0
        changed, self._changed = self._changed, {}
        return changed

    def put(self, priority: int, item: Item) -> Reads[DelayedPlace]:
        if self._filled >= FILE_ITEMS or (self._filled and self._size + item.size > FILE_BYTES):
            self._start_file()
        slots = (yield from self._slots(self.tail)) if self._filled else []
        slots.append(item.to_json() | {"priority": priority})
        self._changed[delayed_key(self.tail)] = slots
        shelved = DelayedPlace(self.tail, self._filled)
        self._filled += 1
        self._size += item.size
        self.waiting += 1
        return shelved

    def get(self, shelved: DelayedPlace) -> Reads[dict[str, Any] | None]:
        """Returns the stored item, or None if it was removed."""
        if shelved.file > self.tail:
            return None
        slots = yield from self._slots(shelved.file)
        return slots[shelved.ordinal] if shelved.ordinal < len(slots) else None

    def size(self, file: int) -> Reads[int]:
        """Returns the length of the text in a file."""
        slots = (yield from self._slots(file)) if file <= self.tail else []
        return sum(len(slot["item"]) for slot in slots if slot is not None)

    def fall_due(self, shelved: DelayedPlace, place: Place) -> Reads[None]:
        """Marks an item as due; its lane refers to it from this place."""
        slots = yield from self._slots(shelved.file)
        slots[shelved.ordinal]["lane"] = [place.segment, place.ordinal]
        self._changed[delayed_key(shelved.file)] = slots
        self.waiting -= 1

    def remove(self, shelved: DelayedPlace) -> Reads[None]:
        slots = yield from self._slots(shelved.file)
        if shelved.ordinal >= len(slots) or slots[shelved.ordinal] is None:
            return
        if "lane" not in slots[shelved.ordinal]:
            self.waiting -= 1
        slots[shelved.ordinal] = None
        empty = not any(slots)
        self._changed[delayed_key(shelved.file)] = None if empty else slots
        if empty and shelved.file == self.tail:
            self._start_file()
        if empty and (shelved.file == self._low or not self._low_exists):
            yield from self._rise()

    def purge(self) -> tuple[int, int]:
        """Drops all items that are not due yet. Returns the first and last file that can be deleted."""
        first = self._low
        self.waiting = 0
        if self._filled:
            self._start_file()
        self.floor = self._low = self.tail
        self._low_exists = False
        return first, self.tail - 1

    def discard(self, file: int) -> None:
        """Deletes a purged file that holds no locked items."""
        self._changed[delayed_key(file)] = None

    def keys_in_use(self) -> set[str]:
        return {delayed_key(self.tail)}

    def to_json(self) -> list[int] | None:
        """Returns the state to save, or None if no item was ever delayed."""
        if not self.tail and not self._filled:
            return None
        return [self.waiting, self.floor, self._low, self.tail, self._filled, self._size]

    @classmethod
    def from_json(cls, value: list[int] | None) -> DelayedItems:
        delayed_items = cls()
        if value is not None:
            (
                delayed_items.waiting,
                delayed_items.floor,
                delayed_items._low,
                delayed_items.tail,
                delayed_items._filled,
                delayed_items._size,
            ) = value
        return delayed_items

    def _start_file(self) -> None:
        self.tail, self._filled, self._size = self.tail + 1, 0, 0

    def _rise(self) -> Reads[None]:
        """Advances to the first file that exists. Each deleted file is skipped once, so a purge need not scan them."""
        self._low_exists = False
        while self._low < self.tail and self._passed < RISE_AT_ONCE:
            if (yield from self._slots(self._low)):
                self._low_exists = True
                return
            self._low += 1
            self._passed += 1

    def _slots(self, file: int) -> Reads[list[Any]]:
        key = delayed_key(file)
        if key in self._changed:
            return self._changed[key] or []
        [slots] = yield (key,)
        return slots or []
