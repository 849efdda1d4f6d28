"""Monitors whether this app has owned its actors without interruption, so that their memory matches the store.

daprd tells the app when it takes an actor away, with one exception (1.18.2): with --enable-app-health-check it takes
all actors from an app that does not answer its probes, does not notify the unhealthy app, and returns them when a probe
is answered again. Other hosts may have changed them meanwhile.

Between taking and returning there is at least one probe interval. So if we query daprd more often than it probes, and
always find the actors in place, they never left. Otherwise memory cannot be trusted.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from typing import TYPE_CHECKING

from holdfast.runtime.dapr.sidecar import probe

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.runtime.dapr.http import SidecarHttp

log = logging.getLogger(__name__)

_QUERIES_PER_BREAK = 4
_SHORTEST_BREAK = 0.2
_PAUSE = 1.0


class OwnershipMonitor:
    """Awaits ``lost`` when the actors were taken away, ``on_unknown`` when the last query was too long ago to know."""

    def __init__(
        self,
        http: SidecarHttp,
        *,
        lost: Callable[[], Awaitable[None]],
        on_unknown: Callable[[], Awaitable[None]],
    ) -> None:
        self._http = http
        self._lost = lost
        self._on_unknown = on_unknown
        self._asking = asyncio.Lock()
        # Counts daprd processes, so that the reply of an earlier one is not attributed to the current one.
        self._sidecar = 0
        #: The shortest time for which the actors can be taken away unnoticed; None before the first query.
        self._shortest_break: float | None = None
        self._not_before = 0.0
        self._certain_until = 0.0
        self._watch: asyncio.Task[None] | None = None

    async def is_held(self) -> bool:
        """Returns whether the actors were owned without interruption since the last call."""
        if self._unknown():
            await self._begin()
        return self.is_held_now()

    def is_held_now(self) -> bool:
        return asyncio.get_running_loop().time() < self._certain_until

    async def end(self) -> None:
        """Ends monitoring of this daprd; the next query is to another one."""
        self._sidecar += 1
        self._shortest_break = None
        self._certain_until = 0.0
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)

    async def _begin(self) -> None:
        async with self._asking:
            if not self._unknown():
                return
            sidecar = self._sidecar
            metadata = (await probe(self._http)).metadata
            if sidecar != self._sidecar:
                return
            if metadata is None:
                # Calls that arrive meanwhile must not wait for one query after the other.
                self._not_before = asyncio.get_running_loop().time() + _PAUSE
                return
            self._shortest_break = metadata.shortest_break
            if self._shortest_break == float("inf"):
                self._certain_until = self._shortest_break
            elif self._shortest_break > _SHORTEST_BREAK:
                # A separate context: the task is not a part of the call that started it.
                self._watch = asyncio.create_task(self._monitor(self._shortest_break), context=contextvars.Context())
            else:
                log.warning(
                    "daprd's --app-health-probe-timeout leaves no time between two probes: "
                    "actors read their state again in every turn"
                )

    def _unknown(self) -> bool:
        return self._shortest_break is None and asyncio.get_running_loop().time() >= self._not_before

    async def _monitor(self, shortest_break: float) -> None:
        clock = asyncio.get_running_loop().time
        last_query: float | None = None
        while True:
            began = clock()
            metadata = (await probe(self._http)).metadata
            if metadata is None:
                last_query = None
            elif metadata.has_our_actors:
                if last_query is None or clock() - last_query >= shortest_break:
                    await self._on_unknown()
                last_query, self._certain_until = began, began + shortest_break
            elif self._certain_until > 0.0:
                log.warning(
                    "the sidecar took this app's actors away: health probes timed out; state will be read again"
                )
                last_query, self._certain_until = None, 0.0
                await self._lost()
            await asyncio.sleep(shortest_break / _QUERIES_PER_BREAK)
