"""The timers of an execution that have been created and have not fired."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncio import TimerHandle
    from collections.abc import Iterator

    from holdfast.orchestration.core.history import TimerCreated

# Above this number of timers the cancelled ones are removed before they are due: an execution with a time-out around
# every message would accumulate them.
_TOLERATED = 64


class Timers:
    """Timers ordered by due time on the host's clock, then by creation."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int]] = []
        self._handles: dict[int, tuple[TimerCreated, TimerHandle]] = {}
        self._tolerated = _TOLERATED

    def add(self, event: TimerCreated, handle: TimerHandle) -> None:
        if len(self._heap) > self._tolerated:
            self._compact()
        self._handles[event.seq] = (event, handle)
        heapq.heappush(self._heap, (event.fire_at, event.seq))

    def next_moment(self) -> float | None:
        while self._heap:
            fire_at, seq = self._heap[0]
            if self._is_live(seq):
                return fire_at
            heapq.heappop(self._heap)
            self._handles.pop(seq, None)
        return None

    def pop_due(self, now: float) -> list[int]:
        """Returns the numbers of all timers with the earliest due time, if that is reached. Their handles remain."""
        moment = self.next_moment()
        due: list[int] = []
        while moment is not None and moment <= now and self.next_moment() == moment:
            due.append(heapq.heappop(self._heap)[1])
        return due

    def moment_of(self, seq: int) -> float | None:
        """Returns the due time of a timer; None when it does not exist, was cancelled, or has fired."""
        return self._handles[seq][0].fire_at if self._is_live(seq) else None

    def at(self, moment: float) -> list[int]:
        """Returns the numbers of the timers that are due at ``moment`` and have not fired."""
        return [event.seq for event in self.live() if event.fire_at == moment]

    def when(self, seq: int) -> float:
        """Returns the due time the code asked for, in history time."""
        return self._handles[seq][1].when()

    def live(self) -> Iterator[TimerCreated]:
        """Yields the timers that have not fired, in the order of creation."""
        return (event for seq, (event, _) in self._handles.items() if self._is_live(seq))

    def take(self, seq: int) -> TimerHandle | None:
        entry = self._handles.pop(seq, None)
        return None if entry is None else entry[1]

    def _is_live(self, seq: int) -> bool:
        entry = self._handles.get(seq)
        return entry is not None and not entry[1].cancelled()

    def _compact(self) -> None:
        self._handles = {seq: entry for seq, entry in self._handles.items() if not entry[1].cancelled()}
        self._heap = [(event.fire_at, seq) for seq, (event, _) in self._handles.items()]
        heapq.heapify(self._heap)
        self._tolerated = max(_TOLERATED, 2 * len(self._heap))
