"""Whether our actors have been ours without a break, so that what is in memory is what is in the store.

daprd tells the app when it takes an actor away, with one exception (1.18.2): with --enable-app-health-check it takes
all of them from an app that does not answer its probes, does not call the unhealthy app to say so, and gives them back
when a probe is answered again. Other hosts may have changed them meanwhile.

Between taking and giving back lies at least one probe. So whoever looks at daprd more often than it probes, and always
finds the actors in place, knows that they never left; nobody else may trust what it remembers.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from typing import TYPE_CHECKING

from holdfast.runtime.dapr.sidecar import look

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.runtime.dapr.http import SidecarHttp

log = logging.getLogger(__name__)

_LOOKS_IN_A_BREAK = 4
_SHORTEST_BREAK = 0.2
_PAUSE = 1.0


class Tenure:
    """``lost`` is awaited when the actors are found taken away, ``doubtful`` when we looked too late to know."""

    def __init__(
        self,
        http: SidecarHttp,
        *,
        lost: Callable[[], Awaitable[None]],
        doubtful: Callable[[], Awaitable[None]],
    ) -> None:
        self._http = http
        self._lost = lost
        self._doubtful = doubtful
        self._asking = asyncio.Lock()
        # Counts them, so that the word of one is not taken for another's.
        self._sidecar = 0
        #: The shortest time the actors can be away unnoticed; None when not asked yet.
        self._shortest_break: float | None = None
        self._not_before = 0.0
        self._certain_until = 0.0
        self._watch: asyncio.Task[None] | None = None

    async def is_certain(self) -> bool:
        """Whether what was remembered at the last call is still true at this one."""
        if self._unknown():
            await self._begin()
        return self.is_certain_now()

    def is_certain_now(self) -> bool:
        return asyncio.get_running_loop().time() < self._certain_until

    async def end(self) -> None:
        """With this daprd; what is asked next is asked of another."""
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
            metadata = (await look(self._http)).metadata
            if sidecar != self._sidecar:
                return
            if metadata is None:
                # The calls that come meanwhile are not to wait in line for one look after the other.
                self._not_before = asyncio.get_running_loop().time() + _PAUSE
                return
            self._shortest_break = metadata.shortest_break
            if self._shortest_break == float("inf"):
                self._certain_until = self._shortest_break
            elif self._shortest_break > _SHORTEST_BREAK:
                # Not as part of the call that happens to be the first.
                self._watch = asyncio.create_task(
                    self._keep_looking(self._shortest_break), context=contextvars.Context()
                )
            else:
                log.warning(
                    "daprd's --app-health-probe-timeout leaves no time between two probes: "
                    "actors read their state anew in every turn"
                )

    def _unknown(self) -> bool:
        return self._shortest_break is None and asyncio.get_running_loop().time() >= self._not_before

    async def _keep_looking(self, shortest_break: float) -> None:
        clock = asyncio.get_running_loop().time
        last_look: float | None = None
        while True:
            began = clock()
            metadata = (await look(self._http)).metadata
            if metadata is None:
                last_look = None
            elif metadata.has_our_actors:
                if last_look is None or clock() - last_look >= shortest_break:
                    await self._doubtful()
                last_look, self._certain_until = began, began + shortest_break
            elif self._certain_until > 0.0:
                log.warning("the sidecar took this app's actors away: its health probes were not answered in time")
                last_look, self._certain_until = None, 0.0
                await self._lost()
            await asyncio.sleep(shortest_break / _LOOKS_IN_A_BREAK)
