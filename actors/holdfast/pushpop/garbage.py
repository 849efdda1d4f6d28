"""State values of a queue that may not be wanted any more: segments, and files of the shelf."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.pushpop.items import Taken

# Those of a purged queue that are deleted in one transaction.
SWEEP_AT_ONCE = 200


class Garbage:
    def __init__(self) -> None:
        #: Nobody wants what lies in these: priority (none for the shelf's), first and last.
        self.ranges: list[tuple[int | None, int, int]] = []
        #: What is looked at when the turn is over.
        self._segments: set[tuple[int, int]] = set()
        self._files: set[int] = set()

    def discard(self, priority: int | None, first: int, last: int) -> None:
        """They go later, some at a time."""
        if first <= last:
            self.ranges.append((priority, first, last))

    def suspect(self, taken: Taken) -> None:
        """It is done with: what it lies in may not be wanted any more."""
        self._segments.add((taken.place.priority, taken.place.segment))
        if taken.shelved is not None:
            self._files.add(taken.shelved.file)

    def suspect_segment(self, priority: int, segment: int) -> None:
        self._segments.add((priority, segment))

    def sweep(self) -> bool:
        """Makes some of what nobody wants go in this turn; whether there was any."""
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

    def suspects(self) -> tuple[set[tuple[int, int]], set[int]]:
        """What may go, since the last call: segments with their priorities, and files."""
        suspects, self._segments, self._files = (self._segments, self._files), set(), set()
        return suspects
