"""The timers of an execution that have been created and have not fired."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncio import TimerHandle

# How many there may be before those that were cancelled are dropped, instead of when their hour comes: a long run with
# a time-out around every message would have no end of them.
_TOLERATED = 64


class Timers:
    """Ordered by the moment they fire at, those of the same moment as they were created."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int]] = []
        self._handles: dict[int, tuple[float, TimerHandle]] = {}
        self._tolerated = _TOLERATED

    def add(self, seq: int, fire_at: float, handle: TimerHandle) -> None:
        if len(self._heap) > self._tolerated:
            self._compact()
        self._handles[seq] = (fire_at, handle)
        heapq.heappush(self._heap, (fire_at, seq))

    def next_moment(self) -> float | None:
        while self._heap:
            fire_at, seq = self._heap[0]
            if self._is_live(seq):
                return fire_at
            heapq.heappop(self._heap)
            self._handles.pop(seq, None)
        return None

    def pop_due(self, now: float) -> list[int]:
        """The numbers of all timers of the earliest moment that has come; they are yet to be taken."""
        moment = self.next_moment()
        due: list[int] = []
        while moment is not None and moment <= now and self.next_moment() == moment:
            due.append(heapq.heappop(self._heap)[1])
        return due

    def moment_of(self, seq: int) -> float | None:
        """When a timer fires; None when it is none, or was cancelled, or has fired."""
        return self._handles[seq][0] if self._is_live(seq) else None

    def take(self, seq: int) -> TimerHandle | None:
        entry = self._handles.pop(seq, None)
        return None if entry is None else entry[1]

    def _is_live(self, seq: int) -> bool:
        entry = self._handles.get(seq)
        return entry is not None and not entry[1].cancelled()

    def _compact(self) -> None:
        self._handles = {seq: entry for seq, entry in self._handles.items() if not entry[1].cancelled()}
        self._heap = [(fire_at, seq) for seq, (fire_at, _) in self._handles.items()]
        heapq.heapify(self._heap)
        self._tolerated = max(_TOLERATED, 2 * len(self._heap))
