"""A lane: the items of one priority, first in first out, in numbered segments of bounded size.

A push touches the last segment, a pop reads the first; neither cost depends on how many lie between. Items are never
moved: a pop moves the lane's head past them, and a segment goes when nothing in it is wanted any more. One that is
withdrawn from the middle leaves a gap.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from holdfast.pushpop.items import Place

if TYPE_CHECKING:
    from holdfast.pushpop.items import Taken

# A push rewrites the last segment, so it must stay small; a pop of many items should not need many.
SEGMENT_ITEMS = 100
SEGMENT_BYTES = 32 * 1024


@dataclass(slots=True)
class Returned:
    """An item that was taken and given back: it goes before all that were never taken."""

    taken: Taken
    #: The group it was given back with, which is saved together.
    group: int


@dataclass(slots=True)
class Lane:
    priority: int
    #: The next item that was never taken: its segment, and its place there.
    head: int
    offset: int = 0
    #: The segment that is being filled.
    tail: int = -1
    filled: int = 0
    size: int = 0
    #: What could be taken, those given back included.
    count: int = 0
    #: How many between head and tail were withdrawn and are to be passed over.
    gaps: int = 0
    #: When the segment that is being filled is looked through for what has expired.
    look_at: float | None = None
    returned: list[Returned] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tail = max(self.tail, self.head)

    def append(self, size: int) -> Place:
        """The place of one more item."""
        if self.filled >= SEGMENT_ITEMS or (self.filled and self.size + size > SEGMENT_BYTES):
            self._start_segment()
        place = Place(self.priority, self.tail, self.filled)
        self.filled += 1
        self.size += size
        self.count += 1
        return place

    @property
    def exhausted(self) -> bool:
        """Whether every item has been taken at least once."""
        return self.head == self.tail and self.offset >= self.filled

    def pass_head(self, segment_length: int) -> None:
        """The head item was taken; ``segment_length`` is what its segment holds."""
        self.offset += 1
        if self.offset >= segment_length:
            if self.head == self.tail:
                # What comes next starts a new segment: this one is not to be rewritten with what was consumed.
                self._start_segment()
            self.head, self.offset = self.head + 1, 0

    def spans(self, place: Place) -> bool:
        """Whether this place lies between head and tail: never taken, though perhaps withdrawn."""
        return (self.head, self.offset) <= (place.segment, place.ordinal) < (self.tail, self.filled)

    def is_head(self, place: Place) -> bool:
        return (self.head, self.offset) == (place.segment, place.ordinal)

    def give_back(self, taken: Taken, group: int) -> None:
        insort(self.returned, Returned(taken, group), key=lambda entry: entry.taken.place)
        self.count += 1

    def to_json(self) -> list[Any]:
        return [self.head, self.offset, self.tail, self.filled, self.size, self.gaps, self.look_at]

    @classmethod
    def from_json(cls, priority: int, count: int, value: list[Any]) -> Lane:
        head, offset, tail, filled, size, gaps, look_at = value
        return cls(priority, head, offset, tail, filled, size, count, gaps, look_at)

    def _start_segment(self) -> None:
        self.tail, self.filled, self.size, self.look_at = self.tail + 1, 0, 0, None
