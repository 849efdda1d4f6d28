"""Limits answers that wait in memory until their clients read them: how long each, and how many bytes in total.

uvicorn (0.54) and asyncio buffer unread answers of any number of connections, without a time limit.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

#: A client must read ``MIN_TAKEN`` bytes of its answer in this time, or all that is left of it.
WRITE_SECONDS = 30.0
MIN_TAKEN = 64 * 1024
#: The limit for the unread bytes of all connections together.
MAX_UNSENT = 64 * 1024 * 1024
CHECK_SECONDS = 1.0


class Connection(Protocol):
    """A connection with an answer that its client has not read completely."""

    @property
    def unsent(self) -> int:
        """The bytes that wait in this process."""

    @property
    def tenant(self) -> str:
        """The tenant whose call is answered."""

    def break_off(self, reason: str) -> None:
        """Closes the connection at once and drops unsent bytes."""


@dataclass(slots=True)
class _Progress:
    size: int
    since: float


class WriteBuffers:
    """All connections of a server with unread answers."""

    def __init__(
        self,
        seconds: float = WRITE_SECONDS,
        most: int = MAX_UNSENT,
        clock: Callable[[], float] = lambda: asyncio.get_running_loop().time(),
    ) -> None:
        self._seconds = seconds
        self._most = most
        self._clock = clock
        self._progress: dict[Connection, _Progress] = {}
        self._check: asyncio.TimerHandle | None = None

    def add(self, connection: Connection) -> None:
        """Adds a connection whose transport had to pause writing."""
        self._progress[connection] = _Progress(connection.unsent, self._clock())
        self._limit()
        if self._progress and self._check is None:
            self._check = asyncio.get_running_loop().call_later(CHECK_SECONDS, self._check_all)

    def discard(self, connection: Connection) -> None:
        """Removes a connection whose answer was sent or that is closed."""
        self._progress.pop(connection, None)

    def check(self) -> None:
        """Closes connections whose clients have read too little for too long."""
        now = self._clock()
        for connection, progress in list(self._progress.items()):
            self._measure(connection, progress, now)
            if now - progress.since >= self._seconds:
                self._break_off(connection, f"its client read less than {MIN_TAKEN} bytes in {self._seconds:g} s")

    def _check_all(self) -> None:
        self._check = None
        self.check()
        if self._progress:
            self._check = asyncio.get_running_loop().call_later(CHECK_SECONDS, self._check_all)

    def _measure(self, connection: Connection, progress: _Progress, now: float) -> None:
        size = connection.unsent
        if progress.size - size >= MIN_TAKEN or not size:
            progress.size, progress.since = size, now

    def _limit(self) -> None:
        """Drops answers until the rest fits: the slowest of the tenant with the most unread bytes first."""
        by_tenant: dict[str, int] = {}
        for connection in self._progress:
            by_tenant[connection.tenant] = by_tenant.get(connection.tenant, 0) + connection.unsent
        total = sum(by_tenant.values())
        if total <= self._most:
            return
        now = self._clock()
        for connection, progress in self._progress.items():
            self._measure(connection, progress, now)
        slowest = sorted(self._progress, key=lambda connection: self._progress[connection].since)
        while total > self._most and slowest:
            most = max(by_tenant, key=lambda tenant: by_tenant[tenant])
            victim = next(connection for connection in slowest if connection.tenant == most)
            slowest.remove(victim)
            size = victim.unsent
            by_tenant[most] -= size
            total -= size
            self._break_off(victim, f"all unread answers together had more than {self._most} bytes")

    def _break_off(self, connection: Connection, reason: str) -> None:
        self.discard(connection)
        connection.break_off(reason)
