"""How fast items may be pushed."""

from __future__ import annotations

from math import ceil


class Pace:
    """Lets through so many a second, and as many at once as come in a second.

    A request larger than that is let through whole when nothing is owed, and paid for afterwards: refused for its size
    it could never pass. Not saved: after a restart nothing is owed.
    """

    def __init__(self) -> None:
        self._free = float("inf")
        self._at = 0.0

    def wait(self, now: float, rate: float) -> int:
        """How many seconds until something may be pushed; 0 when it may be now."""
        # Nothing is earned by a clock that was set back.
        self._free = min(max(1.0, rate), self._free + max(0.0, now - self._at) * rate)
        self._at = now
        return 0 if self._free >= 1.0 else max(1, ceil((1.0 - self._free) / rate))

    def spend(self, count: int) -> None:
        self._free -= count
