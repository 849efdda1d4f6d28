"""Calls of another protocol, which pass the same checks as HTTP requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.gateway.auth.principal import CALLER
from holdfast.tracing.spans import incoming
from holdfast.tracing.traceparent import in_headers

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

#: The key in the ASGI scope of a call to run in place of an application: an async function of the caller, which returns
#: the HTTP status of its outcome.
INNER_CALL = "holdfast.inner_call"


class InnerCalls:
    """Middleware that runs the call in the scope, if there is one. The layers before it have checked the caller."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        call = scope.get(INNER_CALL)
        if call is None:
            await self._app(scope, receive, send)
            return
        incoming.set(in_headers(scope["headers"]))
        status = await call(scope[CALLER])
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b""})
