"""Where items lie that were pushed with a delay: in numbered files of bounded size, each until it is done with.

An item stays in its file when it falls due, so that its id finds it for as long as it exists; its lane then refers to
the file. Items leave in any order: each leaves a gap, and a file of gaps is deleted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.pushpop.items import Shelved, shelf_key

if TYPE_CHECKING:
    from holdfast.pushpop.items import Item, Place
    from holdfast.pushpop.steps import Steps

FILE_ITEMS = 100
FILE_BYTES = 32 * 1024
# Files that are gone already and are passed in one turn.
RISE_AT_ONCE = 50


class Shelf:
    def __init__(self) -> None:
        #: How many items are not due yet.
        self.waiting = 0
        #: Files before this one were purged: nothing in them is wanted but what is locked.
        self.floor = 0
        #: The first file there may be, but for those that were purged; and whether it is known to be there.
        self._low = 0
        self._low_exists = False
        self._passed = 0
        #: The file that is being filled.
        self.tail = 0
        self._filled = 0
        self._size = 0
        self._changed: dict[str, Any] = {}

    @property
    def files(self) -> range:
        """Those there may be, but for purged ones."""
        return range(self._low, self.tail + 1)

    def changes(self) -> dict[str, Any]:
        self._passed = 0
        changed, self._changed = self._changed, {}
        return changed

    def put(self, priority: int, item: Item) -> Steps[Shelved]:
        if self._filled >= FILE_ITEMS or (self._filled and self._size + item.size > FILE_BYTES):
            self._start_file()
        slots = (yield from self._slots(self.tail)) if self._filled else []
        slots.append(item.to_json() | {"priority": priority})
        self._changed[shelf_key(self.tail)] = slots
        shelved = Shelved(self.tail, self._filled)
        self._filled += 1
        self._size += item.size
        self.waiting += 1
        return shelved

    def get(self, shelved: Shelved) -> Steps[dict[str, Any] | None]:
        """What lies there; None when it is gone."""
        if shelved.file > self.tail:
            return None
        slots = yield from self._slots(shelved.file)
        return slots[shelved.ordinal] if shelved.ordinal < len(slots) else None

    def size(self, file: int) -> Steps[int]:
        """How much text there is in a file."""
        slots = (yield from self._slots(file)) if file <= self.tail else []
        return sum(len(slot["item"]) for slot in slots if slot is not None)

    def fall_due(self, shelved: Shelved, place: Place) -> Steps[None]:
        """Its lane refers to it now, from this place."""
        slots = yield from self._slots(shelved.file)
        slots[shelved.ordinal]["lane"] = [place.segment, place.ordinal]
        self._changed[shelf_key(shelved.file)] = slots
        self.waiting -= 1

    def remove(self, shelved: Shelved) -> Steps[None]:
        slots = yield from self._slots(shelved.file)
        if shelved.ordinal >= len(slots) or slots[shelved.ordinal] is None:
            return
        if "lane" not in slots[shelved.ordinal]:
            self.waiting -= 1
        slots[shelved.ordinal] = None
        empty = not any(slots)
        self._changed[shelf_key(shelved.file)] = None if empty else slots
        if empty and shelved.file == self.tail:
            self._start_file()
        if empty and (shelved.file == self._low or not self._low_exists):
            yield from self._rise()

    def purge(self) -> tuple[int, int]:
        """Forgets all that lies here. Answers which files may go now: first and last."""
        first = self._low
        self.waiting = 0
        if self._filled:
            self._start_file()
        self.floor = self._low = self.tail
        self._low_exists = False
        return first, self.tail - 1

    def discard(self, file: int) -> None:
        """Deletes a purged file; nobody holds anything in it."""
        self._changed[shelf_key(file)] = None

    def keys_in_use(self) -> set[str]:
        return {shelf_key(self.tail)}

    def to_json(self) -> list[int] | None:
        """None while nothing was ever put here."""
        if not self.tail and not self._filled:
            return None
        return [self.waiting, self.floor, self._low, self.tail, self._filled, self._size]

    @classmethod
    def from_json(cls, value: list[int] | None) -> Shelf:
        shelf = cls()
        if value is not None:
            shelf.waiting, shelf.floor, shelf._low, shelf.tail, shelf._filled, shelf._size = value
        return shelf

    def _start_file(self) -> None:
        self.tail, self._filled, self._size = self.tail + 1, 0, 0

    def _rise(self) -> Steps[None]:
        """Finds the first file that exists: each is passed once, so that a purge need not go through all there were."""
        self._low_exists = False
        while self._low < self.tail and self._passed < RISE_AT_ONCE:
            if (yield from self._slots(self._low)):
                self._low_exists = True
                return
            self._low += 1
            self._passed += 1

    def _slots(self, file: int) -> Steps[list[Any]]:
        key = shelf_key(file)
        if key in self._changed:
            return self._changed[key] or []
        [slots] = yield (key,)
        return slots or []
