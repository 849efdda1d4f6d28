"""The actors that are in memory, how long they stay there, and the timers that go with them.

daprd has an idle time-out and timers of its own, but it (1.18.2) counts idleness from the beginning of the last call
and breaks off a call that lasts longer, and its timers outlive the actor's memory and even the app. So both are kept
here: daprd gets a longer time-out, and a timer that belongs to an earlier life of its actor is not fired.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections import OrderedDict
from typing import TYPE_CHECKING
from uuid import uuid4

from dapr.actor import ActorId

from holdfast.runtime.contract import ActorAddress

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dapr.actor.runtime.manager import ActorManager

log = logging.getLogger(__name__)

_SECONDS_TO_LEAVE = 10.0
_AT_A_TIME = 256


class Activations:
    """``managers`` are the SDK's, by type of actor."""

    def __init__(self, managers: Mapping[str, ActorManager], idle_timeout: float) -> None:
        self._managers = managers
        self._idle_timeout = idle_timeout
        # Since when each actor has had nothing to do, oldest first.
        self._idle: OrderedDict[ActorAddress, float] = OrderedDict()
        self._leaving: dict[ActorAddress, asyncio.Event] = {}
        self._lives: dict[ActorAddress, str] = {}
        self._sweeper: asyncio.Task[None] | None = None
        self._ended = False

    def all(self) -> list[ActorAddress]:
        return [
            ActorAddress(kind, actor_id)
            for kind, manager in self._managers.items()
            for actor_id in manager._active_actors
        ]

    def counts(self) -> dict[str, int]:
        return {kind: len(manager._active_actors) for kind, manager in self._managers.items()}

    async def wanted(self, address: ActorAddress) -> None:
        """A call begins: the actor stays. One that is on its way out leaves first."""
        self._idle.pop(address, None)
        if (left := self._leaving.get(address)) is not None:
            await left.wait()

    def released(self, address: ActorAddress) -> None:
        """Its last call has ended."""
        self._idle[address] = asyncio.get_running_loop().time()
        if self._sweeper is None and not self._ended:
            # Not as part of the call that happens to be the first.
            self._sweeper = asyncio.create_task(self._sweep(), context=contextvars.Context())

    async def drop(self, address: ActorAddress) -> None:
        """The actor leaves memory."""
        self._idle.pop(address, None)
        self._lives.pop(address, None)
        manager = self._managers.get(address.type)
        if manager is None or address.id not in manager._active_actors:
            return
        left = self._leaving[address] = asyncio.Event()
        try:
            async with asyncio.timeout(_SECONDS_TO_LEAVE):
                await manager.deactivate_actor(ActorId(address.id))
        except Exception:
            # An actor's own clean-up code failed; it is gone all the same.
            log.exception("deactivating %s %s", address.type, address.id)
        finally:
            del self._leaving[address]
            left.set()

    async def drop_all(self, addresses: Iterable[ActorAddress]) -> None:
        for count, address in enumerate(addresses, start=1):
            await self.drop(address)
            if count % _AT_A_TIME == 0:
                await asyncio.sleep(0)

    def life(self, address: ActorAddress) -> str:
        """A name for the actor's present life: what belongs to it can be told from what a former one left."""
        return self._lives.setdefault(address, uuid4().hex)

    def is_alive(self, address: ActorAddress, life: str) -> bool:
        return self._lives.get(address) == life

    async def end(self) -> None:
        """No actor leaves any more."""
        self._ended = True
        sweeper, self._sweeper = self._sweeper, None
        if sweeper is not None:
            sweeper.cancel()
            await asyncio.gather(sweeper, return_exceptions=True)

    async def _sweep(self) -> None:
        clock = asyncio.get_running_loop().time
        while self._idle:
            address, since = next(iter(self._idle.items()))
            rest = since + self._idle_timeout - clock()
            if rest > 0:
                await asyncio.sleep(rest)
            else:
                await self.drop(address)
        self._sweeper = None
