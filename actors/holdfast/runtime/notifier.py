"""Wakes long polls: tells a waiting server that a queue has items, wherever the queue's actor runs.

Each server process has one notifier, an actor that placement put into that process. A poll that finds nothing leaves
the notifier's id with the queue, and the queue's actor calls it when there is something. Within one process no call is
needed.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Any

from dapr.actor import ActorInterface

from holdfast.errors import HoldfastError, InvalidRequest
from holdfast.kinds import NOTIFIER_TYPE
from holdfast.runtime.local_actors import PROCESS_ID, find_local, is_local
from holdfast.runtime.serialization import dump
from holdfast.runtime.unit_of_work import InternalActor

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.runtime.background import BackgroundTasks
    from holdfast.runtime.contract import HostClient

# Many polls are woken together: they need not all check that the notifier is still placed in this process.
_TRUSTED_SECONDS = 1.0

_waiting: dict[str, set[Wakeup]] = {}
_local_notifiers: set[str] = set()


class Wakeup(asyncio.Event):
    """Set when the subscribed topic has something."""

    #: What came with the notification, as JSON.
    payload: str | None = None


class NotifierInterface(ActorInterface):
    @abstractmethod
    async def ProcessId(self) -> str: ...

    @abstractmethod
    async def Notify(self, data: dict[str, Any]) -> None:
        """``{topic, payload}``"""


class NotifierActor(InternalActor, NotifierInterface):
    """Receives notifications for the process it is placed in. It has no state."""

    exact_numbers = False

    async def ProcessId(self) -> str:
        return PROCESS_ID

    async def Notify(self, data: dict[str, Any]) -> None:
        match data:
            case {"topic": str(topic), "payload": str() | None as payload}:
                _notify_here(self.host, topic, payload)
            case _:
                raise InvalidRequest("A notification has a topic and a payload: strings, or null as the payload.")


class Notifier:
    """The notifier of this process: finds an actor id that placement maps to this process."""

    def __init__(self, client: HostClient) -> None:
        self._client = client
        self._id: str | None = None
        self._trusted_until = 0.0
        self._finding = asyncio.Lock()

    async def subscribe(self) -> str | None:
        """Returns the id to leave with a queue or an instance. None: no local id was found, so the caller polls."""
        clock = asyncio.get_running_loop().time
        async with self._finding:
            if self._id is not None and clock() < self._trusted_until:
                return self._id
            try:
                self._id = await self._find()
            except HoldfastError:
                # Further tries would fail the same way, and a caller is waiting for this.
                return None
            self._trusted_until = clock() + _TRUSTED_SECONDS
            if self._id is not None:
                _local_notifiers.add(self._id)
        return self._id

    async def _find(self) -> str | None:
        if self._id is not None and await is_local(self._client, NOTIFIER_TYPE, self._id):
            return self._id
        return await find_local(self._client, NOTIFIER_TYPE)


class Subscription:
    """``with Subscription(queue) as wakeup``: the event is set when the queue has something."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._wakeup = Wakeup()

    def __enter__(self) -> Wakeup:
        _waiting.setdefault(self._topic, set()).add(self._wakeup)
        return self._wakeup

    def __exit__(self, *_: object) -> None:
        wakeups = _waiting[self._topic]
        wakeups.discard(self._wakeup)
        if not wakeups:
            del _waiting[self._topic]


def wake_all() -> None:
    """Wakes every subscription of this process, whatever its topic."""
    for wakeups in _waiting.values():
        for wakeup in wakeups:
            wakeup.set()


def has_waiting(topic: str) -> bool:
    """Returns whether this process has a subscription to the topic."""
    return topic in _waiting


def notify(
    client: HostClient, background: BackgroundTasks, notifiers: Iterable[str], topic: str, payload: str | None = None
) -> None:
    """Wakes the subscriptions of this process at once, and those behind the other notifiers in the background.

    Those of this process do not depend on the notifiers that an actor knows, which it forgets when it is deactivated.
    """
    if topic in _waiting:
        _notify_here(client, topic, payload)
    for notifier in notifiers:
        if notifier not in _local_notifiers:
            body = dump({"topic": topic, "payload": payload})
            background.start(f"notifying {notifier}", partial(_call, client, notifier, body))


async def _call(client: HostClient, notifier: str, body: bytes) -> None:
    await client.invoke_method(NOTIFIER_TYPE, notifier, "Notify", body)


def _notify_here(client: HostClient, topic: str, payload: str | None) -> None:
    client.metrics.long_poll_wakeups.inc()
    for wakeup in _waiting.get(topic, ()):
        wakeup.payload = payload
        wakeup.set()
