"""An index of times in the future: items that become due, items that expire. Pure, like the queue it belongs to.

Time is counted in ticks of a tenth of a second; the entries of one tick are taken in the order they were added. Ticks
are in a tree with 64 children per node, so that adding costs the same few state values for ten entries as for ten
million. A queue without delays and expiries does not touch the index.
"""

from __future__ import annotations

from bisect import insort
from math import ceil, inf
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from holdfast.runtime.reads import Reads

TICKS_PER_SECOND = 10
# A page spans 64 ticks, the node above it 64 pages, and so on; each child of the root spans 19 days.
_SHIFT = 6
_LEVELS = 4
# The number of entries in one state value.
CHUNK = 100
# The number of outdated entries to delete in one transaction.
SWEEP_AT_ONCE = 200

PREFIX = "due"


def tick_of(moment: float) -> int:
    """Returns the first tick that is not before this time."""
    # Rounded, because floats of present-day times have noise beyond the tenth of a second.
    return ceil(round(moment * TICKS_PER_SECOND, 4))


def moment_of(tick: int) -> float:
    return tick / TICKS_PER_SECOND


class DueIndex:
    """The entries by time, and the time of the first one."""

    def __init__(self, generation: int = 0) -> None:
        """``generation`` counts the indexes that a queue had before, whose state values may still exist."""
        self.generation = generation
        self._prefix = f"{PREFIX}{generation or ''}-"
        #: The tick of the first entry.
        self._next: int | None = None
        self._root: list[int] = []
        self._changed: dict[str, Any] = {}

    @property
    def next_due(self) -> float | None:
        return None if self._next is None else moment_of(self._next)

    def changes(self) -> dict[str, Any]:
        changed, self._changed = self._changed, {}
        return changed

    def add(self, moment: float, what: list[Any]) -> Reads[None]:
        """Adds an entry. Touches up to six state values; two if the tick, or one near it, has entries already."""
        tick = tick_of(moment)
        page_key = self._node_key(1, tick >> _SHIFT)
        page = yield from self._load(page_key)
        if page is None:
            page = {}
            yield from self._add_path(tick >> _SHIFT)
        first, last, filled = page.get(str(tick), (0, -1, CHUNK))
        if filled >= CHUNK:
            last, filled = last + 1, 0
        entries = (yield from self._load(self._chunk_key(tick, last))) if filled else []
        entries.append(what)
        page[str(tick)] = [first, last, filled + 1]
        self._changed[self._chunk_key(tick, last)] = entries
        self._changed[page_key] = page
        self._next = tick if self._next is None else min(self._next, tick)

    @property
    def is_empty(self) -> bool:
        return not self._root

    def take_due(self, now: float, fits: Callable[[Any], Reads[bool]]) -> Reads[list[Any]]:
        """Removes and returns the due entries in order, up to the first that does not fit."""
        taken: list[Any] = []
        while self._next is not None and moment_of(self._next) <= now:
            entries = yield from self._first_chunk(self._next)
            count = 0
            while count < len(entries) and (yield from fits(entries[count])):
                count += 1
            taken += entries[:count]
            if count < len(entries):
                if count:
                    yield from self._leave_in_chunk(self._next, entries[count:])
                break
            yield from self._remove_chunk(self._next)
            self._next = yield from self._first_tick()
        return taken

    def to_json(self) -> list[Any] | None:
        return [self._next, self._root] if self._root else None

    @classmethod
    def from_json(cls, value: list[Any] | None, generation: int = 0) -> DueIndex:
        due_index = cls(generation)
        if value is not None:
            due_index._next, due_index._root = value
        return due_index

    def _load(self, key: str) -> Reads[Any]:
        if key in self._changed:
            return self._changed[key]
        [value] = yield (key,)
        return value

    def _add_path(self, page: int) -> Reads[None]:
        """Adds a new page to the nodes above it, as far up as they are new too."""
        child = page
        for level in range(2, _LEVELS + 1):
            key = self._node_key(level, child >> _SHIFT)
            children = yield from self._load(key)
            self._changed[key] = _with(children or [], child)
            if children:
                return
            child >>= _SHIFT
        self._root = _with(self._root, child)

    def _first_tick(self) -> Reads[int | None]:
        if not self._root:
            return None
        number = self._root[0]
        for level in range(_LEVELS, 1, -1):
            number = (yield from self._load(self._node_key(level, number)))[0]
        page = yield from self._load(self._node_key(1, number))
        return min(map(int, page))

    def _first_chunk(self, tick: int) -> Reads[list[Any]]:
        page = yield from self._load(self._node_key(1, tick >> _SHIFT))
        first, _, _ = page[str(tick)]
        entries: list[Any] = yield from self._load(self._chunk_key(tick, first))
        return entries

    def _leave_in_chunk(self, tick: int, entries: list[Any]) -> Reads[None]:
        """Stores the remaining entries of the first chunk of a tick."""
        page_key = self._node_key(1, tick >> _SHIFT)
        page = yield from self._load(page_key)
        first, last, _ = page[str(tick)]
        self._changed[self._chunk_key(tick, first)] = entries
        if first == last:
            page[str(tick)] = [first, last, len(entries)]
            self._changed[page_key] = page

    def _remove_chunk(self, tick: int) -> Reads[None]:
        """Removes the first chunk of a tick, and with the last one the tick itself."""
        page_key = self._node_key(1, tick >> _SHIFT)
        page = yield from self._load(page_key)
        first, last, filled = page[str(tick)]
        self._changed[self._chunk_key(tick, first)] = None
        if first < last:
            page[str(tick)] = [first + 1, last, filled]
            self._changed[page_key] = page
        else:
            del page[str(tick)]
            self._changed[page_key] = page or None
            if not page:
                yield from self._remove_path(tick >> _SHIFT)

    def _remove_path(self, page: int) -> Reads[None]:
        """Removes a page from the nodes above it, and nodes that become empty from theirs."""
        child = page
        for level in range(2, _LEVELS + 1):
            key = self._node_key(level, child >> _SHIFT)
            children = [number for number in (yield from self._load(key)) if number != child]
            self._changed[key] = children or None
            if children:
                return
            child >>= _SHIFT
        self._root = [number for number in self._root if number != child]

    def _node_key(self, level: int, number: int) -> str:
        return f"{self._prefix}{level}-{number}"

    def _chunk_key(self, tick: int, number: int) -> str:
        return f"{self._prefix}0-{tick}-{number}"


class OldDueIndexes:
    """The due indexes of earlier generations of a queue: their entries are outdated, and deleted some at a time."""

    def __init__(self, old: Iterable[DueIndex] = ()) -> None:
        self._old = list(old)
        self._changed: dict[str, Any] = {}

    def __bool__(self) -> bool:
        return bool(self._old)

    def add(self, due_index: DueIndex) -> None:
        self._changed |= due_index.changes()
        if not due_index.is_empty:
            self._old.append(due_index)

    def sweep(self) -> Reads[bool]:
        """Deletes some entries; returns whether there were any."""
        if not self._old:
            return False
        room = SWEEP_AT_ONCE

        def fits(_: Any) -> Reads[bool]:
            nonlocal room
            yield from ()
            room -= 1
            return room >= 0

        due_index = self._old[0]
        yield from due_index.take_due(inf, fits)
        self._changed |= due_index.changes()
        if due_index.is_empty:
            self._old.pop(0)
        return True

    def changes(self) -> dict[str, Any]:
        changed, self._changed = self._changed, {}
        return changed

    def to_json(self) -> list[Any]:
        return [[due_index.generation, due_index.to_json()] for due_index in self._old]

    @classmethod
    def from_json(cls, value: Iterable[Any]) -> OldDueIndexes:
        return cls(DueIndex.from_json(saved, generation) for generation, saved in value)


def _with(children: list[int], child: int) -> list[int]:
    if child in children:
        return children
    extended = [*children]
    insort(extended, child)
    return extended
