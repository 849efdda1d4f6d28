"""State values of a queue that may be unused and can be deleted: segments, and files of delayed items."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.pushpop.core.items import Delivered

# The number of values of a purged queue to delete in one transaction.
SWEEP_AT_ONCE = 200


class DeferredDeletes:
    def __init__(self) -> None:
        #: Unused values: priority (None for files of delayed items), first and last number.
        self.ranges: list[tuple[int | None, int, int]] = []
        #: Candidates, checked at the end of the turn.
        self._segments: set[tuple[int, int]] = set()
        self._files: set[int] = set()

    def discard(self, priority: int | None, first: int, last: int) -> None:
        """Schedules a range of values for deletion in later turns."""
        if first <= last:
            self.ranges.append((priority, first, last))

    def maybe_unused(self, taken: Delivered) -> None:
        """Marks the values of a finished item as candidates."""
        self._segments.add((taken.place.priority, taken.place.segment))
        if taken.shelved is not None:
            self._files.add(taken.shelved.file)

    def maybe_unused_segment(self, priority: int, segment: int) -> None:
        self._segments.add((priority, segment))

    def sweep(self) -> bool:
        """Marks some scheduled values for deletion in this turn; returns whether there were any."""
        room = SWEEP_AT_ONCE
        found = bool(self.ranges)
        while self.ranges and room > 0:
            priority, first, last = self.ranges.pop()
            upto = min(last, first + room - 1)
            for number in range(first, upto + 1):
                if priority is None:
                    self._files.add(number)
                else:
                    self._segments.add((priority, number))
            room -= upto - first + 1
            if upto < last:
                self.ranges.append((priority, upto + 1, last))
        return found

    def candidates(self) -> tuple[set[tuple[int, int]], set[int]]:
        """Returns and clears the candidates: segments with their priorities, and files."""
        candidates, self._segments, self._files = (self._segments, self._files), set(), set()
        return candidates
