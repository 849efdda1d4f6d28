"""How a server that waits for something to pop hears of it, wherever the queue's actor runs.

A server has one doorbell: an actor in the server's own process. A queue remembers the doorbells of those who came for
nothing, and rings them when there is something; one that hangs in the queue's own process is rung without a call.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Any

from dapr.actor import ActorInterface

from holdfast.errors import HoldfastError
from holdfast.runtime.nearby import PROCESS, find_nearby, is_nearby
from holdfast.runtime.serialization import dump
from holdfast.runtime.work import DurableActor

if TYPE_CHECKING:
    from holdfast.runtime.contract import HostClient
    from holdfast.runtime.errands import Errands

DOORBELL_TYPE = "DoorbellActor"
# Many who wait are woken together: they need not all ask whether their doorbell still hangs here.
_SURE_SECONDS = 1.0

# What a doorbell of this process rings.
_waiting: dict[str, set[Rung]] = {}
_hanging_here: set[str] = set()


class Rung(asyncio.Event):
    """Set when what one listens for has happened."""

    #: What came with it, as JSON.
    news: str | None = None


class DoorbellInterface(ActorInterface):
    @abstractmethod
    async def Where(self) -> str: ...

    @abstractmethod
    async def Ring(self, data: dict[str, Any]) -> None:
        """``{what, news}``: what was listened for, and what is told with it."""


class DoorbellActor(DurableActor, DoorbellInterface):
    """Has no state: only a place."""

    async def Where(self) -> str:
        return PROCESS

    async def Ring(self, data: dict[str, Any]) -> None:
        _ring_here(self.host, data["what"], data["news"])


class Doorbell:
    """The doorbell of this process."""

    def __init__(self, client: HostClient) -> None:
        self._client = client
        self._id: str | None = None
        self._sure_until = 0.0
        self._finding = asyncio.Lock()

    async def hang(self) -> str | None:
        """The id to leave with a queue; None when no place was found, and one has to ask from time to time."""
        clock = asyncio.get_running_loop().time
        async with self._finding:
            if self._id is not None and clock() < self._sure_until:
                return self._id
            try:
                self._id = await self._find()
            except HoldfastError:
                # Whoever is away now would be away for the next tries too, and somebody waits for this.
                return None
            self._sure_until = clock() + _SURE_SECONDS
            if self._id is not None:
                _hanging_here.add(self._id)
        return self._id

    async def _find(self) -> str | None:
        if self._id is not None and await is_nearby(self._client, DOORBELL_TYPE, self._id):
            return self._id
        return await find_nearby(self._client, DOORBELL_TYPE)


class Listening:
    """``with Listening(queue) as rung``: set when the queue has something."""

    def __init__(self, queue: str) -> None:
        self._queue = queue
        self._event = Rung()

    def __enter__(self) -> Rung:
        _waiting.setdefault(self._queue, set()).add(self._event)
        return self._event

    def __exit__(self, *_: object) -> None:
        listeners = _waiting[self._queue]
        listeners.discard(self._event)
        if not listeners:
            del _waiting[self._queue]


def wake_everyone() -> None:
    """Whatever they listen for."""
    for events in _waiting.values():
        for event in events:
            event.set()


def ring(client: HostClient, errands: Errands, doorbell: str, what: str, news: str | None = None) -> None:
    """At once where that can be done; else it is an errand of whoever rings."""
    if doorbell in _hanging_here:
        _ring_here(client, what, news)
    else:
        body = dump({"what": what, "news": news})
        errands.start(f"ringing {doorbell}", partial(_call, client, doorbell, body))


async def _call(client: HostClient, doorbell: str, body: bytes) -> None:
    await client.invoke_method(DOORBELL_TYPE, doorbell, "Ring", body)


def _ring_here(client: HostClient, what: str, news: str | None) -> None:
    client.meters.doorbells.inc()
    for rung in _waiting.get(what, ()):
        rung.news = news
        rung.set()
