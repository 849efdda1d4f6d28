"""The rate limit of pushes."""

from __future__ import annotations

from math import ceil


class TokenBucket:
    """Allows ``rate`` items a second, in bursts of up to one second's worth.

    A larger request passes whole if there is no debt, and leaves a debt: refused for its size, it could never pass. Not
    saved: a restart clears the debt.
    """

    def __init__(self) -> None:
        self._free = float("inf")
        self._at = 0.0

    def wait(self, now: float, rate: float) -> int:
        """Returns the seconds until a push is allowed; 0 if it is allowed now."""
        # A clock that was set back adds nothing.
        self._free = min(max(1.0, rate), self._free + max(0.0, now - self._at) * rate)
        self._at = now
        return 0 if self._free >= 1.0 else max(1, ceil((1.0 - self._free) / rate))

    def spend(self, count: int) -> None:
        self._free -= count
