"""Bulkheads: limit the concurrent work of one tenant, so that the rest stays free for others."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from holdfast.errors import RateLimited

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@dataclass(slots=True)
class _Compartment:
    free: int
    #: Calls that are inside or waiting.
    present: int = 0
    #: Waiting calls, with the room each one needs.
    waiting: deque[tuple[int, asyncio.Future[None]]] = field(default_factory=deque)

    async def take(self, room: int) -> None:
        if not self.waiting and room <= self.free:
            self.free -= room
            return
        admitted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append((room, admitted))
        try:
            await admitted
        except asyncio.CancelledError:
            if admitted.done() and not admitted.cancelled():
                self.release(room)
            else:
                # Smaller calls may have waited behind this one.
                self.release(0)
            raise

    def release(self, room: int) -> None:
        self.free += room
        while self.waiting and (self.waiting[0][0] <= self.free or self.waiting[0][1].done()):
            needed, admitted = self.waiting.popleft()
            if not admitted.done():
                self.free -= needed
                admitted.set_result(None)


class Bulkhead:
    """Runs at most ``at_once`` calls of each tenant at a time; at most ``waiting`` others wait.

    A call may take the room of several.
    """

    def __init__(self, at_once: int, waiting: int | None = None) -> None:
        self._at_once = at_once
        self._most_waiting = waiting
        self._compartments: dict[str, _Compartment] = {}

    @asynccontextmanager
    async def enter(self, tenant: str, room: int = 1) -> AsyncIterator[None]:
        """Returns a context for one call. Raises RateLimited when too many of the tenant's calls are waiting."""
        compartment = self._compartments.get(tenant)
        if compartment is None:
            compartment = self._compartments[tenant] = _Compartment(self._at_once)
        room = min(room, self._at_once)
        waits = bool(compartment.waiting) or room > compartment.free
        if waits and self._most_waiting is not None and len(compartment.waiting) >= self._most_waiting:
            raise RateLimited(
                f"This tenant has {compartment.present} such calls in progress. Try again later.", retry_after=1
            )
        compartment.present += 1
        try:
            await compartment.take(room)
            try:
                yield
            finally:
                compartment.release(room)
        finally:
            compartment.present -= 1
            if not compartment.present:
                del self._compartments[tenant]
