"""Queues over REST."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from holdfast.errors import HoldfastError, InvalidRequest, by_code
from holdfast.gateway import documents
from holdfast.gateway.endpoints import Endpoint, Endpoints
from holdfast.gateway.gather import Gatherer
from holdfast.gateway.parameters import FLAG, INTEGER, NUMBER
from holdfast.gateway.polling import Poller
from holdfast.identity import check_queue_id
from holdfast.pushpop.core import DEFAULT_TTL, MAX_POP
from holdfast.pushpop.doorbell import Doorbell
from holdfast.pushpop.index import INDEX_TYPE, SHARDS
from holdfast.pushpop.interface import ACTOR_TYPE
from holdfast.runtime.serialization import dump, load

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.gateway.endpoints import Call
    from holdfast.runtime.contract import HostClient

MAX_WAIT_SECONDS = 300.0
MAX_LISTED = 100

Answer = dict[str, Any]


Count = Annotated[int, Field(ge=1, le=MAX_POP), INTEGER]


class Query(BaseModel):
    model_config = ConfigDict(extra="forbid")


class PopQuery(Query):
    require_ack: Annotated[bool, Field(description="Take under a lock, to be acknowledged."), FLAG] = False
    ttl_seconds: Annotated[int, Field(description="How long the lock lasts: taken as 1 to 300."), INTEGER] = DEFAULT_TTL
    count: Count = 1
    wait_seconds: Annotated[
        float, Field(ge=0, le=MAX_WAIT_SECONDS, description="How long to wait for something."), NUMBER
    ] = 0


class PeekQuery(Query):
    count: Count = 1


class ListQuery(Query):
    limit: Annotated[int, Field(ge=1, le=MAX_LISTED), INTEGER] = 50
    cursor: Annotated[str | None, Field(max_length=255, description="next_cursor of the page before.")] = None


class Queues:
    """What each call does: which actor it asks, and for what."""

    def __init__(self, client: HostClient) -> None:
        self._client = client
        self._gatherer = Gatherer(client, ACTOR_TYPE)
        self._poller = Poller(self._gatherer, Doorbell(client))

    def end_waits(self) -> None:
        """Answers those who wait for something to come."""
        self._poller.stop()

    def endpoints(self) -> Endpoints:
        queue = "/queue/{queue}"
        return Endpoints(
            [
                Endpoint("POST", f"{queue}/push", self._sending("Push"), documents.PUSH),
                Endpoint("POST", f"{queue}/pop", self.pop, documents.pop(PopQuery)),
                Endpoint("POST", f"{queue}/acknowledge", self._sending("Acknowledge"), documents.ACKNOWLEDGE),
                Endpoint("POST", f"{queue}/abandon", self._sending("Abandon"), documents.ABANDON),
                Endpoint("POST", f"{queue}/extend-lock", self._sending("ExtendLock"), documents.EXTEND_LOCK),
                Endpoint("POST", f"{queue}/dead-letter", self._sending("DeadLetter"), documents.DEAD_LETTER),
                Endpoint("GET", queue, self.stats, documents.STATS),
                Endpoint("GET", f"{queue}/peek", self.peek, documents.peek(PeekQuery)),
                Endpoint("GET", f"{queue}/in-flight", self._asking("InFlight"), documents.IN_FLIGHT),
                Endpoint("DELETE", f"{queue}/items", self._asking("Purge"), documents.PURGE),
                Endpoint("GET", f"{queue}/config", self._asking("GetConfig"), documents.GET_CONFIG),
                Endpoint("PUT", f"{queue}/config", self._sending("SetConfig"), documents.SET_CONFIG),
                Endpoint("GET", "/queues", self.list, documents.queues(ListQuery)),
            ]
        )

    async def pop(self, call: Call) -> Answer:
        queue, query = _queue_id(call), call.query(PopQuery)
        method, data = "Pop", {"count": query.count}
        if query.require_ack:
            method, data = "PopWithAck", data | {"ttl_seconds": query.ttl_seconds}
        if query.wait_seconds:
            return _accepted(await self._poller.pop(call, queue, method, data, query.wait_seconds))
        return await self._ask(queue, method, dump(data))

    async def peek(self, call: Call) -> Answer:
        return await self._ask(_queue_id(call), "Peek", dump({"count": call.query(PeekQuery).count}))

    async def stats(self, call: Call) -> Answer:
        return await self._stats(_queue_id(call))

    async def list(self, call: Call) -> Answer:
        query = call.query(ListQuery)
        shards = await asyncio.gather(
            *(self._client.invoke_method(INDEX_TYPE, str(shard), "List") for shard in range(SHARDS))
        )
        names = sorted(name for shard in shards for name in load(shard))
        page = [name for name in names if query.cursor is None or name > query.cursor][: query.limit + 1]
        shown = await asyncio.gather(*(self._stats(name) for name in page[: query.limit]))
        answer: Answer = {
            "queues": [{key: one[key] for key in ("queue", "count", "locked", "dead_letters")} for one in shown]
        }
        if len(page) > query.limit:
            answer["next_cursor"] = page[query.limit - 1]
        return answer

    def _sending(self, method: str) -> Callable[[Call], Awaitable[Answer]]:
        """Hands the request's body on to the actor, which is the one to check it."""

        async def send(call: Call) -> Answer:
            return await self._ask(_queue_id(call), method, await call.json_object())

        return send

    def _asking(self, method: str) -> Callable[[Call], Awaitable[Answer]]:
        async def ask(call: Call) -> Answer:
            return await self._ask(_queue_id(call), method)

        return ask

    async def _ask(self, queue: str, method: str, data: bytes = b"null") -> Answer:
        return _accepted(await self._gatherer.call(queue, method, data))

    async def _stats(self, queue: str) -> Answer:
        stats = await self._ask(queue, "Stats")
        target = stats.pop("dead_letter_queue")
        return stats | {"dead_letters": 0 if target is None else (await self._ask(target, "Stats"))["count"]}


def _queue_id(call: Call) -> str:
    return check_queue_id(call.parameters[0])


def _accepted(answer: Answer) -> Answer:
    """The actor's answer, unless it is a refusal, which is raised."""
    if answer.get("success") is False:
        raise _refusal(answer)
    return answer


def _refusal(answer: Answer) -> HoldfastError:
    details = {"lock_expires_at": answer["lock_expires_at"]} if "lock_expires_at" in answer else {}
    return by_code(answer.get("error_code", InvalidRequest.code), answer.get("message", ""), **details)
