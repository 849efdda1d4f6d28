"""Bodies that are too large are refused while they arrive, before anything reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import TooLarge
from holdfast.gateway.answers import send_error

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY = 16 * 1024 * 1024


class BodyLimit:
    """Counts what arrives, whatever the request says of itself."""

    def __init__(self, app: ASGIApp, limit: int = MAX_BODY) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        announced = dict(scope["headers"]).get(b"content-length", b"")
        if announced.isdigit() and int(announced) > self._limit:
            await send_error(send, too_large(self._limit))
            return
        received = 0
        answered = False

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self._limit:
                raise _Exceeded
            return message

        async def watched(message: Message) -> None:
            nonlocal answered
            answered = True
            await send(message)

        try:
            await self._app(scope, counted, watched)
        except _Exceeded:
            if not answered:
                await send_error(send, too_large(self._limit))


def too_large(limit: int = MAX_BODY) -> TooLarge:
    return TooLarge(f"A request may have {limit // 1024 // 1024} MiB at most.")


class _Exceeded(Exception):
    pass
