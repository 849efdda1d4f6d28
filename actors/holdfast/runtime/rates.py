"""How often something may be done in a second, without a clock of its own."""

from __future__ import annotations


class Rates:
    """A bucket of tokens a name, each as one number: when it will be full again (GCRA).

    It holds what comes in a second, and one at least. A full bucket is as good as none, so only those in use are kept,
    and never more than ``room``.
    """

    def __init__(self, room: int = 10_000) -> None:
        self._room = room
        self._full_at: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._full_at)

    def take(self, name: str, rate: float, now: float) -> float:
        """0 when there is one to take, which then is taken; else how many seconds until there is."""
        full_at = max(self._full_at.pop(name, now), now)
        wait = full_at - now - max(1.0, rate) / rate + 1 / rate
        # A millionth of a token: sums of fractions do not come out even.
        if wait * rate > 1e-6:
            self._full_at[name] = full_at
            return wait
        # Put in again at the end: the first is the one that was asked longest ago.
        self._full_at[name] = full_at + 1 / rate
        if len(self._full_at) > self._room:
            self._make_room(now)
        return 0.0

    def _make_room(self, now: float) -> None:
        self._full_at = {name: full_at for name, full_at in self._full_at.items() if full_at > now}
        # Some at once, so that not every request looks through all of them.
        if len(self._full_at) > self._room * 3 // 4:
            for name in list(self._full_at)[: len(self._full_at) - self._room * 3 // 4]:
                del self._full_at[name]
