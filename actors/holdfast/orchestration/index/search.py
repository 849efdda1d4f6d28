"""Searching the index: criteria, the search in one shard, and merging what several shards found.

A search goes over the shortest list that has all it may find, and leaves out the entries that do not match. It reads a
bounded number of pages. A position is a time of start and an id: where the search goes on, whatever was added or
removed meanwhile.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from holdfast.orchestration.index.entries import (
    ALL,
    IDS,
    Entry,
    list_of_name,
    list_of_status,
    list_of_tag,
    size,
)
from holdfast.orchestration.index.tree import LEAF_ENTRIES
from holdfast.pushpop.api.requests import Request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.orchestration.index.tree import Key, Tree
    from holdfast.runtime.reads import Reads

#: Pages that one search reads in a shard; the last one may need the pages above it, too.
PAGES_AT_ONCE = 24
#: Entries that one search returns, and their approximate size.
MOST_FOUND = 1000
_FOUND_BYTES = 512 * 1024
#: Ids with one prefix that a search sorts by the times of their starts. Of more, it goes over another list.
_PREFIX_IDS = 400
_ENTRIES_AT_ONCE = 50

Position = tuple[float, str]
Order = Literal["newest", "oldest"]


class Criteria(Request):
    """What is searched. Times are Unix seconds; ``after`` is inclusive, ``before`` is not."""

    status: list[str] = Field(default_factory=list, max_length=20)
    name: str | None = None
    version: str | None = None
    #: Pairs of key and value.
    tags: list[Annotated[list[str], Field(min_length=2, max_length=2)]] = Field(default_factory=list, max_length=20)
    started_after: float | None = None
    started_before: float | None = None
    ended_after: float | None = None
    ended_before: float | None = None
    id_prefix: str = ""

    def match(self, entry: Entry) -> bool:
        """Returns whether an entry has all that is searched, except for the time of its start."""
        ended_at = entry.ended_at
        return (
            (not self.status or entry.status in self.status)
            and self.name in (None, entry.name)
            and self.version in (None, entry.version)
            and all(entry.tags.get(key) == value for key, value in self.tags)
            and (self.ended_after is None or (ended_at is not None and ended_at >= self.ended_after))
            and (self.ended_before is None or (ended_at is not None and ended_at < self.ended_before))
            and entry.instance_id.startswith(self.id_prefix)
        )

    @property
    def after(self) -> float:
        """The time from which on all that is found was started."""
        return -math.inf if self.started_after is None else self.started_after

    @property
    def before(self) -> float:
        """The time before which all that is found was started: no instance ends before its start."""
        return min((time for time in (self.started_before, self.ended_before) if time is not None), default=math.inf)

    @property
    def least_measure(self) -> float:
        return -math.inf if self.ended_after is None else self.ended_after


@dataclass(frozen=True, slots=True)
class Found:
    """Entries in order, and where the search goes on; None if it has reached the end."""

    entries: Sequence[Entry]
    position: Position | None


@dataclass(frozen=True, slots=True)
class Search:
    """One search in one direction."""

    criteria: Criteria
    newest: bool
    limit: int
    #: The next start: below it for the newest first, otherwise from it on.
    position: Position | None = None

    def run(self, tree: Tree) -> Reads[Found]:
        """Searches one shard."""
        if self.criteria.id_prefix:
            instances = yield from self._with_prefix(tree)
            if instances is not None:
                return (yield from self._among(tree, instances))
        lists = yield from self._lists(tree)
        pages = max(2, PAGES_AT_ONCE // len(lists))
        parts = []
        for name in lists:
            parts.append((yield from self._scan(tree, name, pages)))
        return self.merge(parts)

    def merge(self, parts: Sequence[Found]) -> Found:
        """Returns the first entries of several parts in order, as far as all parts have been searched."""
        entries = sorted((entry for part in parts for entry in part.entries), key=_position_of, reverse=self.newest)
        positions = [part.position for part in parts if part.position is not None]
        frontier: Position | None = None
        if positions:
            frontier = nearest = max(positions) if self.newest else min(positions)
            # The next position is the first that is not searched, or the last that is.
            entries = list(takewhile(lambda entry: (_position_of(entry) < nearest) is not self.newest, entries))
        if len(entries) > self.limit:
            entries = entries[: self.limit]
            return Found(entries, self.after(entries[-1]))
        return Found(entries, frontier)

    def after(self, entry: Entry) -> Position:
        """Returns the position after an entry."""
        return entry.created_at, entry.instance_id if self.newest else entry.instance_id + "\0"

    # Which list

    def _lists(self, tree: Tree) -> Reads[list[str]]:
        """Chooses the lists that together have all that can be found, and the fewest entries."""
        criteria = self.criteria
        choices = [[list_of_tag((key, value))] for key, value in criteria.tags]
        if criteria.name is not None:
            choices.append([list_of_name(criteria.name)])
        if criteria.status:
            choices.append([list_of_status(status) for status in sorted(set(criteria.status))])
        if len(choices) < 2:
            return choices[0] if choices else [ALL]
        shares = []
        for lists in choices:
            share = 0.0
            for name in lists:
                share += yield from tree.share(*self._range(name))
            shares.append(share)
        return choices[shares.index(min(shares))]

    def _range(self, name: str) -> tuple[Key, Key]:
        low: Key = [name, self.criteria.after]
        high: Key = [name, self.criteria.before]
        if self.position is not None:
            if self.newest:
                high = min(high, [name, *self.position])
            else:
                low = max(low, [name, *self.position])
        return low, high

    def _scan(self, tree: Tree, name: str, pages: int) -> Reads[Found]:
        low, high = self._range(name)
        found: list[Entry] = []
        room = _FOUND_BYTES
        last_page = tree.pages_read + pages
        # The first leaf may have few that are in the range.
        ahead = min(pages - 1, 1 + self.limit // LEAF_ENTRIES)
        while low < high:
            read = tree.from_high if self.newest else tree.from_low
            part = yield from read(low, high, self.criteria.least_measure, ahead)
            for key, value in part.entries:
                entry = Entry.of(key, value)
                if self.criteria.match(entry):
                    found.append(entry)
                    room -= size(value)
                    if len(found) > self.limit or room < 0:
                        return Found(found, self.after(entry))
            if part.bound is None:
                break
            if tree.pages_read >= last_page:
                return Found(found, (part.bound[1], part.bound[2]))  # type: ignore[arg-type]
            low, high = (low, part.bound) if self.newest else (part.bound, high)
        return Found(found, None)

    # Ids

    def _with_prefix(self, tree: Tree) -> Reads[list[Position] | None]:
        """Reads all instances with the prefix, in order; None if there are too many."""
        low: Key = [IDS, 0.0, self.criteria.id_prefix]
        # Ids are ASCII.
        high: Key = [IDS, 0.0, self.criteria.id_prefix + "\x7f"]
        found: list[Position] = []
        while True:
            part = yield from tree.from_low(low, high, -math.inf)
            found += [(created_at, key[2]) for key, created_at in part.entries]
            if len(found) > _PREFIX_IDS:
                return None
            if part.bound is None:
                return sorted(found, reverse=self.newest)
            low = part.bound

    def _among(self, tree: Tree, instances: Sequence[Position]) -> Reads[Found]:
        low, high = self._range(ALL)
        every: list[Key] = [[ALL, *one] for one in instances]
        left = [key for key in every if low <= key < high]
        found: list[Entry] = []
        for start in range(0, len(left), _ENTRIES_AT_ONCE):
            keys = left[start : start + _ENTRIES_AT_ONCE]
            yield from tree.fetch(keys)
            for key in keys:
                value = yield from tree.get(key)
                entry = None if value is None else Entry.of(key, value)
                if entry is not None and self.criteria.match(entry):
                    found.append(entry)
                    if len(found) > self.limit:
                        return Found(found, self.after(entry))
            if start + len(keys) < len(left) and tree.pages_read > 4 * PAGES_AT_ONCE:
                return Found(found, self._after(keys[-1]))
        return Found(found, None)

    def _after(self, key: Key) -> Position:
        return key[1], key[2] if self.newest else f"{key[2]}\0"  # type: ignore[return-value]


def _position_of(entry: Entry | Any) -> Position:
    return entry[0], entry[1]
