"""The route ``GET /events``, and what its topics stand for."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from fastapi import Request  # noqa: TC002 (FastAPI reads the annotations)
from starlette.responses import StreamingResponse

from holdfast.errors import InvalidRequest
from holdfast.gateway.auth.principal import CALLER
from holdfast.gateway.middleware.access import BY_GRPC, INVOKED
from holdfast.kinds import ORCHESTRATION_TYPE
from holdfast.names import check_id, check_queue_id, qualify
from holdfast.orchestration.index.finder import counts
from holdfast.runtime.batching import CallBatcher
from holdfast.runtime.serialization import dump
from holdfast.wire.errors import raise_for_refusal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from fastapi import FastAPI
    from starlette.types import Receive, Scope, Send

    from holdfast.gateway.auth.principal import Caller
    from holdfast.gateway.events.watches import Watches
    from holdfast.gateway.metrics.queue_stats import QueueStats
    from holdfast.runtime.contract import HostClient

MOST_TOPICS = 8
#: A comment is sent this often, so that proxies keep the connection and a client that is gone is noticed.
ALIVE_SECONDS = 15.0
#: A stream ends after this time: the client opens another one, with a token that is checked again.
STREAM_SECONDS = 600.0

_ALL = ("instances", "queues")


class Topics:
    """Fetches the state of a topic: ``instances``, ``instance:ID``, ``queues`` or ``queue:NAME``."""

    def __init__(
        self, client: HostClient, queues: QueueStats, queue: Callable[[str], Awaitable[dict[str, Any]]]
    ) -> None:
        self._client = client
        self._queues = queues
        self._queue = queue
        self._batcher = CallBatcher.of(client, ORCHESTRATION_TYPE)

    async def look(self, tenant: str, topic: str) -> Any:
        kind, _, name = topic.partition(":")
        if topic == "instances":
            return await counts(self._client, tenant)
        if topic == "queues":
            counted = await self._queues.take(tenant)
            return [{queue: _lasting(stats) for queue, stats in counted.queues.items()}, dict(counted.dead_letters)]
        if kind == "instance":
            answer = raise_for_refusal(await self._batcher.call(qualify(tenant, name), "Status", dump(None)))
            return [answer["created_at"], answer["updated_at"], answer["status"], answer["events"], answer["tags"]]
        return _lasting(await self._queue(qualify(tenant, name)))


def _lasting(stats: dict[str, Any]) -> dict[str, Any]:
    """Returns the statistics of a queue without the age, which grows by itself."""
    return {name: value for name, value in stats.items() if name != "oldest_age_seconds"}


def install(app: FastAPI, watches: Watches) -> None:
    # Not in the OpenAPI document: its answer has no end, which generated clients and their tests wait for.
    @app.get("/events", include_in_schema=False)
    async def events(request: Request) -> StreamingResponse:
        if INVOKED in request.scope or BY_GRPC in request.scope:
            raise InvalidRequest("Event streams are served directly only, not by app id.")
        caller: Caller = request.scope[CALLER]
        opened = ExitStack()
        # Before the answer begins, so that a refusal has its own status.
        stream = opened.enter_context(watches.open(caller.tenant, _topics(request)))

        async def lines() -> AsyncIterator[bytes]:
            loop = asyncio.get_running_loop()
            until = loop.time() + STREAM_SECONDS
            yield b"retry: 2000\n\n"
            while not stream.ended and loop.time() < until:
                changed = await stream.changes(ALIVE_SECONDS)
                yield b"event: changed\ndata: %s\n\n" % dump(changed) if changed else b":\n\n"

        return _Closing(lines(), opened)


class _Closing(StreamingResponse):
    """A response that closes its stream however it ends."""

    def __init__(self, content: AsyncIterator[bytes], opened: ExitStack) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", "X-Content-Type-Options": "nosniff"}
        super().__init__(content, media_type="text/event-stream", headers=headers)
        self._opened = opened

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._opened.close()


def _topics(request: Request) -> list[str]:
    topics = request.query_params.getlist("topic")
    if not 1 <= len(topics) <= MOST_TOPICS or len(request.query_params.multi_items()) != len(topics):
        raise InvalidRequest(f"topic: send 1 to {MOST_TOPICS} topics, and nothing else.")
    for topic in topics:
        kind, colon, name = topic.partition(":")
        if kind == "instance" and colon:
            check_id(name, "instance id")
        elif kind == "queue" and colon:
            check_queue_id(name)
        elif topic not in _ALL:
            raise InvalidRequest("topic: send instances, instance:ID, queues or queue:NAME.")
    return topics
