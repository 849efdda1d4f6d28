"""Sends requests of this process to the gateway's own ASGI application."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Scope

#: The key in the ASGI scope of an AsyncExitStack that is closed when the request ends, also one whose caller has gone.
TAKEN = "holdfast.taken"


class Response(NamedTuple):
    """The answer of the application."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


class Dispatcher:
    """Runs requests as an HTTP server does: if the caller has gone, the request gets ``http.disconnect``."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._running: set[asyncio.Task[Response]] = set()

    async def send(self, scope: Scope, body: bytes = b"") -> Response:
        """Returns the answer to a request."""
        gone = asyncio.Event()
        # Moved before the task begins: its caller closes what is left in the stack.
        taken = scope[TAKEN].pop_all() if TAKEN in scope else AsyncExitStack()
        running = asyncio.create_task(self._run(scope, body, gone, taken))
        self._running.add(running)
        running.add_done_callback(self._ended)
        try:
            # Cancelled in the middle, a request could pop items that no consumer gets.
            return await asyncio.shield(running)
        finally:
            gone.set()

    async def finished(self, timeout: float) -> None:
        """Returns when all requests have ended, or the time in seconds is over."""
        if self._running:
            await asyncio.wait(self._running, timeout=timeout)

    def _ended(self, request: asyncio.Task[Response]) -> None:
        self._running.discard(request)
        if not request.cancelled():
            # Read here too, for a request whose caller has gone.
            request.exception()

    async def _run(self, scope: Scope, body: bytes, gone: asyncio.Event, taken: AsyncExitStack) -> Response:
        status = 500
        headers: list[tuple[bytes, bytes]] = []
        parts: list[bytes] = []
        unread = True

        async def receive() -> Message:
            nonlocal unread
            if unread:
                unread = False
                return {"type": "http.request", "body": body, "more_body": False}
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            nonlocal status, headers
            if message["type"] == "http.response.start":
                status, headers = message["status"], list(message.get("headers", ()))
            else:
                parts.append(message.get("body", b""))

        async with taken:
            await self._app(scope, receive, send)
        return Response(status, headers, b"".join(parts))
