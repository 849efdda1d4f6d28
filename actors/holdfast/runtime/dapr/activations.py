"""The actors in memory: when they are deactivated, and which of their timers are valid.

daprd has an idle time-out and timers of its own, but it (1.18.2) measures idleness from the start of the last call and
interrupts a call that lasts longer, and its timers outlive the actor's activation and even the app. So both are handled
here: daprd gets a longer time-out, and a timer of an earlier activation is not fired.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections import OrderedDict
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING
from uuid import uuid4

from dapr.actor import ActorId

from holdfast.runtime.contract import ActorAddress

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dapr.actor.runtime.manager import ActorManager

log = logging.getLogger(__name__)

DEFAULT_MAX_IDLE = 4_000

_SECONDS_TO_LEAVE = 10.0
_AT_A_TIME = 64
# The number of longest idle actors to check for one that can be deactivated early, and the pause if there is none.
_EVICTION_CANDIDATES = 8
_EVICTION_PAUSE_SECONDS = 0.1


class Activations:
    """Tracks active actors. ``managers`` are the SDK's, by actor type.

    An actor is deactivated after ``idle_timeout`` idle seconds, or earlier if more than ``max_idle`` actors are idle.
    """

    def __init__(
        self, managers: Mapping[str, ActorManager], idle_timeout: float, max_idle: int = DEFAULT_MAX_IDLE
    ) -> None:
        self._managers = managers
        self._idle_timeout = idle_timeout
        self._max_idle = max_idle
        # When each idle actor ended its last call, oldest first.
        self._idle: OrderedDict[ActorAddress, float] = OrderedDict()
        self._leaving: dict[ActorAddress, asyncio.Event] = {}
        self._activation_ids: dict[ActorAddress, str] = {}
        self._sweeper: asyncio.Task[None] | None = None
        #: Set when more actors are idle than may be.
        self._crowded = asyncio.Event()
        self._ended = False

    def all(self) -> list[ActorAddress]:
        return [
            ActorAddress(kind, actor_id)
            for kind, manager in self._managers.items()
            for actor_id in manager._active_actors
        ]

    def counts(self) -> dict[str, int]:
        return {kind: len(manager._active_actors) for kind, manager in self._managers.items()}

    async def acquire(self, address: ActorAddress) -> None:
        """Keeps the actor in memory for a call that begins; waits for a deactivation that is under way."""
        self._idle.pop(address, None)
        if (left := self._leaving.get(address)) is not None:
            await left.wait()

    def released(self, address: ActorAddress) -> None:
        """Marks the actor as idle after its last call."""
        self._idle[address] = asyncio.get_running_loop().time()
        if self._sweeper is None and not self._ended:
            # A separate context: the task is not a part of the call that started it.
            self._sweeper = asyncio.create_task(self._sweep(), context=contextvars.Context())
        if len(self._idle) > self._max_idle:
            self._crowded.set()

    async def drop(self, address: ActorAddress) -> None:
        """Deactivates the actor."""
        self._idle.pop(address, None)
        self._activation_ids.pop(address, None)
        manager = self._managers.get(address.type)
        if manager is None or address.id not in manager._active_actors:
            return
        left = self._leaving[address] = asyncio.Event()
        try:
            async with asyncio.timeout(_SECONDS_TO_LEAVE):
                await manager.deactivate_actor(ActorId(address.id))
        except Exception:
            # The actor's own clean-up code failed; the actor is deactivated all the same.
            log.exception("%s %s: deactivation failed", address.type, address.id)
        finally:
            del self._leaving[address]
            left.set()

    async def drop_all(self, addresses: Iterable[ActorAddress]) -> None:
        for count, address in enumerate(addresses, start=1):
            await self.drop(address)
            if count % _AT_A_TIME == 0:
                await asyncio.sleep(0)

    async def release_idle(self) -> int:
        """Deactivates half of the idle actors, those not used for longest, except those that are needed."""
        released = 0
        for address in list(islice(self._idle, (len(self._idle) + 1) // 2)):
            # It may have begun a call since.
            if address in self._idle and not self._is_needed(address):
                await self.drop(address)
                released += 1
                if released % _AT_A_TIME == 0:
                    await asyncio.sleep(0)
        return released

    def activation_id(self, address: ActorAddress) -> str:
        """Returns the id of the actor's current activation, which distinguishes it from earlier ones."""
        return self._activation_ids.setdefault(address, uuid4().hex)

    def is_current(self, address: ActorAddress, activation_id: str) -> bool:
        return self._activation_ids.get(address) == activation_id

    async def end(self) -> None:
        """Stops deactivating idle actors."""
        self._ended = True
        sweeper, self._sweeper = self._sweeper, None
        if sweeper is not None:
            sweeper.cancel()
            await asyncio.gather(sweeper, return_exceptions=True)

    async def _sweep(self) -> None:
        clock = asyncio.get_running_loop().time
        while self._idle:
            if len(self._idle) > self._max_idle:
                await self._make_room()
                continue
            self._crowded.clear()
            address, since = next(iter(self._idle.items()))
            rest = since + self._idle_timeout - clock()
            if rest > 0:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._crowded.wait(), rest)
            else:
                await self.drop(address)
        self._sweeper = None

    async def _make_room(self) -> None:
        for address in list(islice(self._idle, _EVICTION_CANDIDATES)):
            if not self._is_needed(address):
                await self.drop(address)
                return
            # Considered again after all others, one of which may be deactivated in its place.
            del self._idle[address]
            self._idle[address] = asyncio.get_running_loop().time()
        await asyncio.sleep(_EVICTION_PAUSE_SECONDS)

    def _is_needed(self, address: ActorAddress) -> bool:
        """Returns whether a deactivation would stop the actor's timers or delay its work."""
        actor = self._managers[address.type]._active_actors.get(address.id)
        return address in self._activation_ids or not getattr(actor, "can_leave", True)
