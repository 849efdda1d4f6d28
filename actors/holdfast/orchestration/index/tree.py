"""A search tree of bounded pages, in the state of one actor: a B-tree.

No I/O: methods that need pages yield their keys, as in a queue. Reading or changing one entry touches a few pages,
whatever the number of entries. A page that is full is split in two; one that becomes small is merged with its
neighbour, or removed.

Every page above the leaves has, for each page below it, an upper bound of a measure of its entries. A scan for entries
with a certain measure leaves out whole parts of the tree by it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias

from holdfast.errors import StorageBroken

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from holdfast.runtime.reads import Reads

#: A list, a time and a name. A shorter key is before all keys that it begins.
Key: TypeAlias = "list[str | float]"
#: In a leaf: a key and its value. Above: the least key below a page (of the first page: any), the number of the page,
#: and the upper bound of the measure of its entries.
Entry = list[Any]

ROOT = 0
#: Entries in a leaf, and in a page above.
LEAF_ENTRIES, INNER_ENTRIES = 48, 96
#: A leaf is split when it is larger after a change to an entry of more than the average size.
LEAF_BYTES = 32 * 1024

_key_of: Callable[[Entry], Key] = itemgetter(0)


def page_key(number: int) -> str:
    return f"page-{number}"


def is_above_leaves(value: Any) -> bool:
    """Returns whether a state value is a page above the leaves."""
    return value is not None and value["level"] > 0


@dataclass(eq=False, slots=True)
class Page:
    number: int
    #: 0 for a leaf.
    level: int = 0
    entries: list[Entry] = field(default_factory=list)

    @property
    def capacity(self) -> int:
        return INNER_ENTRIES if self.level else LEAF_ENTRIES

    def dump(self) -> dict[str, Any]:
        return {"level": self.level, "entries": self.entries}


@dataclass(eq=False, slots=True)
class Step:
    """A page on the way from the root to a leaf."""

    page: Page
    #: The place of the next page on the way among the entries of this one.
    place: int


@dataclass(frozen=True, slots=True)
class Slice:
    """The entries of a leaf that are in a range, and the bound of the rest of the range; None if there is none."""

    entries: Sequence[Entry]
    bound: Key | None


class Tree:
    """The pages of a tree that were read in one turn, and their changes.

    ``measure`` returns the measure of a value, and ``size`` its approximate size in bytes.
    """

    def __init__(
        self, next_page: int = ROOT + 1, *, measure: Callable[[Any], float], size: Callable[[Any], int]
    ) -> None:
        #: The number of the next new page. It is saved together with the changes.
        self.next_page = next_page
        self._measure = measure
        self._size = size
        self._pages: dict[int, Page] = {}
        self._changed: set[int] = set()
        #: The number of pages read so far.
        self.pages_read = 0

    def changes(self) -> dict[str, Any]:
        """Returns the state values that changed since the last call; None deletes a value."""
        pages = self._pages
        changed = {page_key(number): pages[number].dump() if number in pages else None for number in self._changed}
        self._changed = set()
        return changed

    @property
    def pages_changed(self) -> int:
        return len(self._changed)

    # Reading

    def get(self, key: Key) -> Reads[Any]:
        """Reads the value of a key; None if it is not in the tree."""
        leaf = (yield from self._path(key))[-1].page
        place = bisect_left(leaf.entries, key, key=_key_of)
        return leaf.entries[place][1] if _has(leaf, place, key) else None

    def fetch(self, keys: Iterable[Key]) -> Reads[None]:
        """Reads the pages on the way to all of these keys, level by level, the pages of one level together."""
        below: dict[int, list[Key]] = {ROOT: list(keys)}
        while below:
            pages = yield from self._read(*below)
            wanted, below = below, {}
            for page in pages:
                if page.level:
                    for key in wanted[page.number]:
                        below.setdefault(page.entries[_place(page, key)][1], []).append(key)

    def from_low(self, low: Key, high: Key, least: float, ahead: int = 0) -> Reads[Slice]:
        """Reads entries from ``low`` on and below ``high``: those in the first leaf that has any or may have more.

        Leaves out pages with a measure below ``least``. Reads up to ``ahead`` further leaves together with the first.
        """
        path, bound = yield from self._descend(lambda page: _place(page, low), 1, least, ahead, high)
        if bound is not None and bound >= high:
            bound = None
        if path is None:
            return Slice([], bound)
        entries = path[-1].page.entries
        return Slice(entries[bisect_left(entries, low, key=_key_of) : bisect_left(entries, high, key=_key_of)], bound)

    def from_high(self, low: Key, high: Key, least: float, ahead: int = 0) -> Reads[Slice]:
        """Reads entries below ``high`` and not below ``low``, from the end: as :meth:`from_low`, in reverse order."""
        path, bound = yield from self._descend(lambda page: _place_below(page, high), -1, least, ahead, low)
        if bound is not None and bound <= low:
            bound = None
        if path is None:
            return Slice([], bound)
        entries = path[-1].page.entries
        found = entries[bisect_left(entries, low, key=_key_of) : bisect_left(entries, high, key=_key_of)]
        return Slice(found[::-1], bound)

    def share(self, low: Key, high: Key) -> Reads[float]:
        """Reads about which part of all entries is in a range, from 0 to 1."""
        return (yield from self._rank(high)) - (yield from self._rank(low))

    def _rank(self, key: Key) -> Reads[float]:
        rank, part = 0.0, 1.0
        for step in (yield from self._path(key)):
            count = max(1, len(step.page.entries))
            place = step.place if step.page.level else bisect_left(step.page.entries, key, key=_key_of)
            part /= count
            rank += part * place
        return rank

    def _path(self, key: Key) -> Reads[list[Step]]:
        path = []
        [page] = yield from self._read(ROOT)
        while page.level:
            step = Step(page, _place(page, key))
            path.append(step)
            [page] = yield from self._read(page.entries[step.place][1])
        path.append(Step(page, 0))
        return path

    def _descend(
        self, choose: Callable[[Page], int], direction: int, least: float, ahead: int, end: Key
    ) -> Reads[tuple[list[Step] | None, Key | None]]:
        """Reads the way to the chosen leaf, and the bound between this leaf and the next one in the direction.

        Goes on to the next page where the measures of a page are below ``least``. At the end of a page above the leaves
        it returns no way, but the bound from which to go on. Reads no leaves ahead that are beyond ``end``.
        """
        path: list[Step] = []
        bound: Key | None = None
        [page] = yield from self._read(ROOT)
        while page.level:
            place = choose(page)
            while 0 <= place < len(page.entries) and page.entries[place][2] < least:
                place += direction
            if not 0 <= place < len(page.entries):
                return None, bound
            step = Step(page, place)
            path.append(step)
            if direction > 0 and place + 1 < len(page.entries):
                bound = page.entries[place + 1][0]
            elif direction < 0 and place > 0:
                bound = page.entries[place][0]
            numbers = [page.entries[place][1]]
            if page.level == 1 and numbers[0] not in self._pages:
                numbers += _beside(page, place, direction, least, end)[:ahead]
            page, *_ = yield from self._read(*numbers)
        path.append(Step(page, 0))
        return path, bound

    def _read(self, *numbers: int) -> Reads[list[Page]]:
        missing = [number for number in numbers if number not in self._pages]
        if missing:
            self.pages_read += len(missing)
            stored = yield tuple(page_key(number) for number in missing)
            for number, value in zip(missing, stored, strict=True):
                if value is None and number != ROOT:
                    raise StorageBroken("The instance index is damaged: a page is missing from the store.")
                self._pages[number] = Page(number) if value is None else Page(number, value["level"], value["entries"])
        return [self._pages[number] for number in numbers]

    # Changes

    def put(self, key: Key, value: Any) -> Reads[None]:
        """Adds an entry, or replaces its value."""
        path = yield from self._path(key)
        leaf = path[-1].page
        place = bisect_left(leaf.entries, key, key=_key_of)
        if _has(leaf, place, key):
            leaf.entries[place][1] = value
        else:
            leaf.entries.insert(place, [key, value])
        self._changed.add(leaf.number)
        self._raise_measure(path, self._measure(value))
        # Entries that are small take no more than a leaf may have.
        if len(leaf.entries) > LEAF_ENTRIES or (
            self._size(value) > LEAF_BYTES // LEAF_ENTRIES and self._is_too_large(leaf.entries)
        ):
            self._split(path, place)

    def remove(self, key: Key) -> Reads[None]:
        """Removes an entry, if there is one."""
        path = yield from self._path(key)
        leaf = path[-1].page
        place = bisect_left(leaf.entries, key, key=_key_of)
        if _has(leaf, place, key):
            del leaf.entries[place]
            self._changed.add(leaf.number)
            yield from self._shrink(path)

    def _raise_measure(self, path: Sequence[Step], measure: float) -> None:
        # A measure that became lower stays as an upper bound until a page is split or merged.
        for step in path[:-1]:
            entry = step.page.entries[step.place]
            if entry[2] < measure:
                entry[2] = measure
                self._changed.add(step.page.number)

    def _is_too_large(self, entries: Sequence[Entry]) -> bool:
        return len(entries) > 1 and sum(self._size(entry[1]) for entry in entries) > LEAF_BYTES

    def _split(self, path: list[Step], place: int) -> None:
        """Splits a page that is full after an insertion at ``place``, and the pages above it that this makes full."""
        page = path.pop().page
        cut = _cut(page, place)
        right = self._new(page.level, page.entries[cut:])
        del page.entries[cut:]
        self._changed.add(page.number)
        if path:
            above = path[-1]
            above.page.entries[above.place][2] = self._measured(page)
            above.page.entries.insert(above.place + 1, self._reference(right, after=page))
            self._changed.add(above.page.number)
            if len(above.page.entries) > INNER_ENTRIES:
                self._split(path, above.place + 1)
            return
        # The root keeps its number: its entries move into a new page.
        left = self._new(page.level, page.entries)
        page.level, page.entries = page.level + 1, [self._reference(left), self._reference(right, after=left)]

    def _shrink(self, path: list[Step]) -> Reads[None]:
        """Merges a page that became small with its neighbour, and the pages above it that this makes small."""
        while len(path) > 1:
            page, above = path.pop().page, path[-1]
            if len(page.entries) > page.capacity // 4:
                return
            entries = above.page.entries
            if not page.entries:
                self._drop(page)
                del entries[above.place]
            else:
                if len(entries) < 2:
                    return
                left = max(0, above.place - 1)
                [first, second] = yield from self._read(entries[left][1], entries[left + 1][1])
                if not self._merge(first, second, entries[left + 1][0]):
                    return
                entries[left][2] = max(entries[left][2], entries[left + 1][2])
                del entries[left + 1]
            self._changed.add(above.page.number)
        root = path[0].page
        while root.level and len(root.entries) < 2:
            if not root.entries:
                root.level = 0
                return
            [only] = yield from self._read(root.entries[0][1])
            root.level, root.entries = only.level, only.entries
            self._drop(only)
            self._changed.add(ROOT)

    def _merge(self, first: Page, second: Page, least: Key) -> bool:
        """Moves the entries of the second page, of ``least`` and greater keys, to the first, unless that would be full.

        It leaves room, so that the page is not split again soon.
        """
        merged = first.entries + second.entries
        if len(merged) > first.capacity * 3 // 4 or (not first.level and self._is_too_large(merged)):
            return False
        if second.level:
            # There may be lesser keys below its first page.
            second.entries[0][0] = least
        first.entries = merged
        self._changed.add(first.number)
        self._drop(second)
        return True

    def _new(self, level: int, entries: list[Entry]) -> Page:
        page = self._pages[self.next_page] = Page(self.next_page, level, entries)
        self._changed.add(page.number)
        self.next_page += 1
        return page

    def _drop(self, page: Page) -> None:
        del self._pages[page.number]
        self._changed.add(page.number)

    def _reference(self, page: Page, after: Page | None = None) -> Entry:
        """Returns the entry of a page in the page above, where it is ``after`` another page.

        Where a list begins with the page, the key is that of the list. So a scan that comes to the page knows that the
        list has no entries before it.
        """
        key: Key = page.entries[0][0]
        begins_list = after is not None and not page.level and after.entries[-1][0][0] != key[0]
        return [key[:1] if begins_list else key, page.number, self._measured(page)]

    def _measured(self, page: Page) -> float:
        measures: Iterable[float] = (
            (entry[2] for entry in page.entries) if page.level else (self._measure(entry[1]) for entry in page.entries)
        )
        return max(measures)


def _has(leaf: Page, place: int, key: Key) -> bool:
    return place < len(leaf.entries) and leaf.entries[place][0] == key


def _place(page: Page, key: Key) -> int:
    """Returns the place of the page below that has this key, if any has."""
    return max(0, bisect_right(page.entries, key, key=_key_of) - 1)


def _place_below(page: Page, key: Key) -> int:
    """Returns the place of the page below that has the greatest key below this one."""
    return max(0, bisect_left(page.entries, key, key=_key_of) - 1)


def _beside(page: Page, place: int, direction: int, least: float, end: Key) -> list[int]:
    """Returns the pages below that a scan comes to after the one at ``place``, the nearest first."""
    entries = page.entries
    if direction > 0:
        beside = [entry for entry in entries[place + 1 :] if entry[0] < end]
    else:
        # The keys of a page are below the least key of the next one.
        beside = [entry for entry, following in pairwise(entries[: place + 1]) if following[0] > end]
        beside.reverse()
    return [entry[1] for entry in beside if entry[2] >= least]


def _cut(page: Page, place: int) -> int:
    """Returns where to split a page: in the middle, or at the end of a list that grows at its end.

    Such a list fills its pages instead of leaving each of them half full.
    """
    entries = page.entries
    middle = len(entries) // 2
    grown = entries[place][0][0]
    last = place + 1
    if entries[middle][0][0] == grown and (last == len(entries) or entries[last][0][0] != grown):
        return min(last, len(entries) - 1)
    return middle
