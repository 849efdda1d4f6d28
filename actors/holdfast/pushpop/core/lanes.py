"""A lane: the items of one priority, first in first out, in numbered segments of bounded size.

A push writes the last segment, a pop reads the first; neither cost depends on the number of segments between. Items are
never moved: a pop moves the lane's head past them, and a segment is deleted when none of its items is needed. An item
that is withdrawn from the middle leaves a gap.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from holdfast.pushpop.core.items import Place

if TYPE_CHECKING:
    from holdfast.pushpop.core.items import Delivered

# A push rewrites the last segment, so it must be small; a pop of many items should not have to read many.
SEGMENT_ITEMS = 100
SEGMENT_BYTES = 32 * 1024


@dataclass(slots=True)
class Returned:
    """An item that was delivered and returned: it comes before all items that were never delivered."""

    taken: Delivered
    #: The redelivery it belongs to, which is saved as one value.
    group: int


@dataclass(slots=True)
class Lane:
    priority: int
    #: The next item that was never delivered: its segment, and its position there.
    head: int
    offset: int = 0
    #: The segment that new items are added to.
    tail: int = -1
    filled: int = 0
    size: int = 0
    #: The number of items that can be popped, including returned ones.
    count: int = 0
    #: The number of withdrawn items between head and tail, which are skipped.
    gaps: int = 0
    #: When the last segment is checked for expired items.
    look_at: float | None = None
    returned: list[Returned] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tail = max(self.tail, self.head)

    def append(self, size: int) -> Place:
        """Returns the place of one more item."""
        if self.filled >= SEGMENT_ITEMS or (self.filled and self.size + size > SEGMENT_BYTES):
            self._start_segment()
        place = Place(self.priority, self.tail, self.filled)
        self.filled += 1
        self.size += size
        self.count += 1
        return place

    @property
    def exhausted(self) -> bool:
        """Whether every item was delivered at least once."""
        return self.head == self.tail and self.offset >= self.filled

    def pass_head(self, segment_length: int) -> None:
        """Moves the head past its item; ``segment_length`` is the number of entries in its segment."""
        self.offset += 1
        if self.offset >= segment_length:
            if self.head == self.tail:
                # The next item starts a new segment, so that consumed items are not written again.
                self._start_segment()
            self.head, self.offset = self.head + 1, 0

    def spans(self, place: Place) -> bool:
        """Returns whether a place is between head and tail: never delivered, though perhaps withdrawn."""
        return (self.head, self.offset) <= (place.segment, place.ordinal) < (self.tail, self.filled)

    def is_head(self, place: Place) -> bool:
        return (self.head, self.offset) == (place.segment, place.ordinal)

    def give_back(self, taken: Delivered, group: int) -> None:
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
