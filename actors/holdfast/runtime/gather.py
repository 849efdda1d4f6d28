"""Requests for one actor that come while it is busy travel together: one call, one turn, one transaction.

Nothing waits to be gathered. A request for an idle actor goes at once; those that come until it returns go next.
"""

from __future__ import annotations

import asyncio
import contextvars
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import orjson

from holdfast.runtime.serialization import dump, load

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.runtime.contract import HostClient

#: Instead of an answer, when that would have grown too large together with those before it: to come again.
LATER = {"later": True}

# Bounds what one turn does, and with it how long the others wait.
MOST_CALLS = 200
MOST_BYTES = 4 * 1024 * 1024


class _Call(NamedTuple):
    method: str
    data: bytes
    answer: asyncio.Future[dict[str, Any]]


def _heard_by_nobody(actor_id: str, reply: dict[str, Any]) -> None:
    pass


class Gatherer:
    """Calls actors of one type that have a ``Batch`` method.

    ``heard`` is told, before the callers are, what each reply says of its actor.
    """

    _of: ClassVar[weakref.WeakKeyDictionary[HostClient, dict[str, Gatherer]]] = weakref.WeakKeyDictionary()

    def __init__(
        self, client: HostClient, actor_type: str, heard: Callable[[str, dict[str, Any]], None] = _heard_by_nobody
    ) -> None:
        self._client = client
        self._actor_type = actor_type
        self._heard = heard
        self._waiting: dict[str, deque[_Call]] = {}
        self._riders: dict[str, _Call] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @classmethod
    def of(cls, client: HostClient, actor_type: str) -> Gatherer:
        """The one that all share who call these actors from inside this process."""
        gatherers = cls._of.setdefault(client, {})
        if actor_type not in gatherers:
            # The client keeps this, through the dictionary: held here, it would never go.
            gatherers[actor_type] = cls(weakref.proxy(client), actor_type)
        return gatherers[actor_type]

    async def call(self, actor_id: str, method: str, data: bytes = b"null") -> dict[str, Any]:
        """``data`` is JSON, already checked to be so: a broken call would break the others."""
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        call = _Call(method, data, answer)
        waiting = self._waiting.get(actor_id)
        if waiting is None:
            waiting = self._waiting[actor_id] = deque([call])
            # A context of its own: it serves many requests, and belongs to none.
            task = asyncio.get_running_loop().create_task(self._serve(actor_id, waiting), context=contextvars.Context())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            waiting.append(call)
        return await answer

    def ride(self, actor_id: str, method: str, data: bytes) -> asyncio.Future[dict[str, Any]]:
        """A call that costs no turn of its own: it goes with the next others for this actor, after them.

        One for each actor. Whoever no longer wants it takes it :meth:`back`.
        """
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._riders[actor_id] = _Call(method, data, answer)
        return answer

    def back(self, actor_id: str) -> bool:
        """Takes the call back that waits for others; False when there is none, because it is under way."""
        return self._riders.pop(actor_id, None) is not None

    async def _serve(self, actor_id: str, waiting: deque[_Call]) -> None:
        try:
            while waiting:
                calls = _take(waiting)
                if calls and (rider := self._riders.pop(actor_id, None)):
                    calls.append(rider)
                again = await self._send(actor_id, calls)
                waiting.extendleft(reversed(again))
        finally:
            del self._waiting[actor_id]

    async def _send(self, actor_id: str, calls: list[_Call]) -> list[_Call]:
        """Answers those that were done, and returns those that are to be sent again."""
        if not calls:
            return []
        try:
            body = dump({"calls": [{"method": call.method, "data": orjson.Fragment(call.data)} for call in calls]})
            reply = load(await self._client.invoke_method(self._actor_type, actor_id, "Batch", body))
            answered = list(zip(calls, reply["replies"], strict=True))
            self._heard(actor_id, reply)
        except Exception as error:
            # Each caller hears of it, and is the one to answer for it.
            for call in calls:
                if not call.answer.done():
                    call.answer.set_exception(error)
            return []
        for call, answer in answered:
            if answer != LATER and not call.answer.done():
                call.answer.set_result(answer)
        return [call for call, answer in answered if answer == LATER]


def _take(waiting: deque[_Call]) -> list[_Call]:
    """The next to go together; those whose callers went away are left out."""
    taken: list[_Call] = []
    size = 0
    while waiting and len(taken) < MOST_CALLS:
        size += len(waiting[0].data)
        if taken and size > MOST_BYTES:
            break
        call = waiting.popleft()
        if not call.answer.done():
            taken.append(call)
    return taken
