"""The routes of a server that daprd calls."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from dapr.actor import Actor, ActorInterface, actormethod

from holdfast.gateway.auth.tokens import Tokens
from holdfast.gateway.middleware.body_limits import MAX_BODY
from holdfast.runtime.dapr import DaprHost
from holdfast.server import create_gateway

if TYPE_CHECKING:
    from starlette.types import ASGIApp


class ScaleInterface(ActorInterface):
    @actormethod(name="weigh")
    async def weigh(self, load: str) -> int: ...


class Scale(Actor, ScaleInterface):
    async def weigh(self, load: str) -> int:
        return len(load)


async def put(app: ASGIApp, path: str, body: bytes) -> tuple[int, Any]:
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "PUT", "path": path, "raw_path": path.encode(), "query_string": b""}
    headers = [(b"host", b"127.0.0.1:8080"), (b"content-length", b"%d" % len(body))]
    await app({**scope, "headers": headers, "client": ("127.0.0.1", 1234)}, receive, send)
    return sent[0]["status"], json.loads(sent[1]["body"])


async def test_a_turn_may_be_larger_than_a_request_of_others() -> None:
    gateway = create_gateway(DaprHost, tokens=lambda: Tokens.of_one("a-token-for-others"), loopback=True)
    await gateway.host.register(Scale)
    try:
        load = "x" * MAX_BODY
        answer = await put(gateway.app, "/actors/Scale/kitchen/method/weigh", json.dumps(load).encode())
        assert answer == (200, MAX_BODY)
    finally:
        await gateway.host.stop()


async def test_a_body_that_is_nested_too_deep_is_refused_before_the_actor_reads_it() -> None:
    gateway = create_gateway(DaprHost, tokens=lambda: Tokens.of_one("a-token-for-others"), loopback=True)
    await gateway.host.register(Scale)
    try:
        status, answer = await put(gateway.app, "/actors/Scale/kitchen/method/weigh", b"[" * 101 + b"]" * 101)
        assert (status, answer["errorCode"]) == (500, "INVALID_REQUEST")
        assert "100 levels" in answer["message"]
        assert await put(gateway.app, "/actors/Scale/kitchen/method/weigh", b"[" * 99 + b"]" * 99) == (200, 1)
    finally:
        await gateway.host.stop()
