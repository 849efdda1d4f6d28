"""Allocates slot numbers for values that have their own keys."""

from __future__ import annotations

from heapq import heappop, heappush


class Slots:
    """Allocates the smallest free numbers, so that the extent is enough to find all values after a restart."""

    def __init__(self) -> None:
        self._used: set[int] = set()
        self._free: list[int] = []
        #: One more than the highest number used since no number was in use.
        self.extent = 0

    def acquire(self) -> int:
        while self._free:
            number = heappop(self._free)
            if number not in self._used:
                break
        else:
            number = self.extent
        self.occupy(number)
        return number

    def occupy(self, number: int) -> None:
        for skipped in range(self.extent, number):
            heappush(self._free, skipped)
        self.extent = max(self.extent, number + 1)
        self._used.add(number)

    def release(self, number: int) -> None:
        self._used.discard(number)
        if self._used:
            heappush(self._free, number)
        else:
            self._free.clear()
            self.extent = 0
