"""A rate limiter without a clock of its own."""

from __future__ import annotations


class RateLimiter:
    """A token bucket for each name, stored as one number: when it will be full again (GCRA).

    A bucket holds one second's tokens, and at least one. A full bucket need not be stored, so only those in use are, at
    most ``room`` of them.
    """

    def __init__(self, room: int = 10_000) -> None:
        self._room = room
        self._full_at: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._full_at)

    def take(self, name: str, rate: float, now: float) -> float:
        """Takes a token and returns 0, or returns how many seconds until there is one."""
        full_at = max(self._full_at.pop(name, now), now)
        wait = full_at - now - max(1.0, rate) / rate + 1 / rate
        # Tolerates a millionth of a token of rounding error.
        if wait * rate > 1e-6:
            self._full_at[name] = full_at
            return wait
        # Inserted at the end, so that the first one is the least recently used.
        self._full_at[name] = full_at + 1 / rate
        if len(self._full_at) > self._room:
            self._make_room(now)
        return 0.0

    def _make_room(self, now: float) -> None:
        self._full_at = {name: full_at for name, full_at in self._full_at.items() if full_at > now}
        # Removes several at once, so that not every request scans all of them.
        if len(self._full_at) > self._room * 3 // 4:
            for name in list(self._full_at)[: len(self._full_at) - self._room * 3 // 4]:
                del self._full_at[name]
