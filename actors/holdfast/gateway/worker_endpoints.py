"""``/healthz`` and ``/metrics`` of a worker in a process of its own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, Info, ProcessCollector, generate_latest
from starlette.responses import JSONResponse, Response

from holdfast import __version__
from holdfast.errors import MethodNotAllowed, NotFound
from holdfast.gateway.auth.audit_log import AuditLog
from holdfast.gateway.auth.tokens import Tokens
from holdfast.gateway.error_responses import error_response
from holdfast.gateway.metrics.endpoint import Collectors
from holdfast.gateway.middleware.access import Authentication, SameOrigin
from holdfast.gateway.middleware.host_names import HostNames
from holdfast.gateway.middleware.http_protocol import with_deadlines

if TYPE_CHECKING:
    from collections.abc import Collection

    from prometheus_client import CollectorRegistry
    from starlette.types import ASGIApp, Receive, Scope, Send

_REQUEST_SECONDS = 30.0
_HEALTH, _METRICS = "/healthz", "/metrics"
_METHODS = ("GET", "HEAD")


class WorkerEndpoints:
    """The ASGI application. Requests pass the same checks as on a server: the host name, the origin and the token."""

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        token: str | None,
        loopback: bool,
        allowed_hosts: Collection[str] = (),
    ) -> None:
        self._registry = registry
        ProcessCollector(registry=registry)
        Info("holdfast_build", "Version and host of this process.", registry=registry).info(
            {"version": __version__, "host": "worker"}
        )
        audit = AuditLog()
        tokens = None if token is None else Tokens.of_one(token)
        front: ASGIApp = Authentication(self._answer, audit, None if tokens is None else lambda: tokens)
        names = HostNames(allowed_hosts, loopback=loopback, tokens=tokens is not None)
        self._front = SameOrigin(front, audit, names)
        #: The protocol for uvicorn, with limits on the size and the time of requests.
        self.protocol = with_deadlines(_REQUEST_SECONDS, audit, lambda: "A worker serves no gRPC.")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._front(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        response: Response
        if scope["path"] not in (_HEALTH, _METRICS):
            response = error_response(NotFound(f"A worker has {_HEALTH} and {_METRICS} only."))
        elif scope["method"] not in _METHODS:
            refusal = f"{scope['path']} does not support {scope['method']}."
            response = error_response(MethodNotAllowed(refusal, allowed=_METHODS))
        elif scope["path"] == _HEALTH:
            response = JSONResponse({"status": "ok"})
        else:
            text = await asyncio.to_thread(generate_latest, Collectors(self._registry))
            response = Response(text, media_type=CONTENT_TYPE_PLAIN_0_0_4)
        await response(scope, receive, send)
