"""Queues over REST."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response

from holdfast.errors import HoldfastError, InvalidRequest, by_code
from holdfast.gateway import documents
from holdfast.gateway.bodies import read_object
from holdfast.gateway.gather import Gatherer
from holdfast.gateway.polling import Poller
from holdfast.identity import check_id
from holdfast.pushpop.config import QueueConfig
from holdfast.pushpop.core import DEFAULT_TTL, MAX_POP
from holdfast.pushpop.doorbell import Doorbell
from holdfast.pushpop.index import INDEX_TYPE, SHARDS
from holdfast.pushpop.interface import ACTOR_TYPE
from holdfast.runtime.serialization import dump, load

if TYPE_CHECKING:
    from fastapi import FastAPI

    from holdfast.runtime.contract import HostClient

MAX_WAIT_SECONDS = 300.0
MAX_LISTED = 100

QueueId = Annotated[str, Path(description="1 to 255 letters, digits and -_.:, not starting with a dot.")]


def install(app: FastAPI, client: HostClient) -> None:
    app.include_router(_router(client))


def _router(client: HostClient) -> APIRouter:
    router = APIRouter(tags=["queues"])
    gatherer = Gatherer(client, ACTOR_TYPE)
    poller = Poller(gatherer, Doorbell(client))

    async def ask(queue: str, method: str, data: bytes = b"null") -> Response:
        return _response(await gatherer.call(check_id(queue, "queue id"), method, data))

    @router.post("/queue/{queue}/push", **documents.PUSH)
    async def push(queue: QueueId, request: Request) -> Response:
        """Puts one item, or up to 1000 at once, into the queue: all or nothing."""
        check_id(queue, "queue id")
        return await ask(queue, "Push", (await read_object(request))[0])

    @router.post("/queue/{queue}/pop", **documents.POP)
    async def pop(
        queue: QueueId,
        request: Request,
        require_ack: Annotated[bool, Query(description="Take under a lock, to be acknowledged.")] = False,
        ttl_seconds: Annotated[int, Query(description="How long the lock lasts: taken as 1 to 300.")] = DEFAULT_TTL,
        count: Annotated[int, Query(ge=1, le=MAX_POP)] = 1,
        wait_seconds: Annotated[
            float, Query(ge=0, le=MAX_WAIT_SECONDS, allow_inf_nan=False, description="How long to wait for something.")
        ] = 0,
    ) -> Response:
        """Takes the first items: lowest priority number first, first in first out."""
        check_id(queue, "queue id")
        method = "PopWithAck" if require_ack else "Pop"
        data = {"count": count, "ttl_seconds": ttl_seconds} if require_ack else {"count": count}
        if wait_seconds:
            return _response(await poller.pop(request, queue, method, data, wait_seconds))
        return await ask(queue, method, dump(data))

    @router.post("/queue/{queue}/acknowledge", **documents.ACKNOWLEDGE)
    async def acknowledge(queue: QueueId, request: Request) -> Response:
        """Removes what is locked: it is done with."""
        return await ask(queue, "Acknowledge", (await read_object(request))[0])

    @router.post("/queue/{queue}/abandon", **documents.ABANDON)
    async def abandon(queue: QueueId, request: Request) -> Response:
        """Gives what is locked back, to the front of its priority."""
        return await ask(queue, "Abandon", (await read_object(request))[0])

    @router.post("/queue/{queue}/extend-lock", **documents.EXTEND_LOCK)
    async def extend_lock(queue: QueueId, request: Request) -> Response:
        """Makes a lock last longer, up to 300 seconds from now."""
        return await ask(queue, "ExtendLock", (await read_object(request))[0])

    @router.post("/queue/{queue}/dead-letter", **documents.DEAD_LETTER)
    async def dead_letter(queue: QueueId, request: Request) -> Response:
        """Moves what is locked to the queue's dead-letter queue."""
        return await ask(queue, "DeadLetter", (await read_object(request))[0])

    @router.get("/queue/{queue}", **documents.STATS)
    async def stats(queue: QueueId) -> Response:
        """How much waits, what is locked, how old the oldest is."""
        check_id(queue, "queue id")
        return _response(await _stats(gatherer, queue))

    @router.get("/queue/{queue}/peek", **documents.PEEK)
    async def peek(queue: QueueId, count: Annotated[int, Query(ge=1, le=MAX_POP)] = 1) -> Response:
        """The next items, left where they are."""
        return await ask(queue, "Peek", dump({"count": count}))

    @router.get("/queue/{queue}/in-flight", **documents.IN_FLIGHT)
    async def in_flight(queue: QueueId) -> Response:
        """What is locked, and until when."""
        return await ask(queue, "InFlight")

    @router.delete("/queue/{queue}/items", **documents.PURGE)
    async def purge(queue: QueueId) -> Response:
        """Removes all that waits. What is locked stays."""
        return await ask(queue, "Purge")

    @router.get("/queue/{queue}/config", **documents.GET_CONFIG)
    async def get_config(queue: QueueId) -> Response:
        """The whole configuration."""
        return await ask(queue, "GetConfig")

    @router.put("/queue/{queue}/config", **documents.SET_CONFIG)
    async def set_config(queue: QueueId, request: Request) -> Response:
        """Changes the keys it names."""
        return await ask(queue, "SetConfig", (await read_object(request))[0])

    @router.get("/queues", **documents.QUEUES)
    async def queues(
        limit: Annotated[int, Query(ge=1, le=MAX_LISTED)] = 50,
        cursor: Annotated[str | None, Query(max_length=255, description="next_cursor of the page before.")] = None,
    ) -> Response:
        """The queues there are, by name."""
        shards = await asyncio.gather(
            *(client.invoke_method(INDEX_TYPE, str(shard), "List") for shard in range(SHARDS))
        )
        names = sorted(name for shard in shards for name in load(shard))
        page = [name for name in names if cursor is None or name > cursor][: limit + 1]
        shown = await asyncio.gather(*(_stats(gatherer, name) for name in page[:limit]))
        body: dict[str, Any] = {
            "queues": [{key: one[key] for key in ("queue", "count", "locked", "dead_letters")} for one in shown]
        }
        if len(page) > limit:
            body["next_cursor"] = page[limit - 1]
        return _response(body)

    return router


async def _stats(gatherer: Gatherer, queue: str) -> dict[str, Any]:
    stats = await gatherer.call(queue, "Stats")
    target = QueueConfig().changed(stats["config"]).dead_letters_of(queue)
    return stats | {"dead_letters": 0 if target is None else (await gatherer.call(target, "Stats"))["count"]}


def _response(answer: dict[str, Any]) -> Response:
    if answer.get("success") is False:
        raise _refusal(answer)
    return Response(dump(answer), media_type="application/json")


def _refusal(answer: dict[str, Any]) -> HoldfastError:
    details = {"lock_expires_at": answer["lock_expires_at"]} if "lock_expires_at" in answer else {}
    return by_code(answer.get("error_code", InvalidRequest.code), answer.get("message", ""), **details)
