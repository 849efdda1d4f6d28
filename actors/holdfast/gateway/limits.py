"""What no request may be, whatever it is for: refused by what it says of itself, before anything of it is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError, InvalidRequest, TooLarge
from holdfast.gateway.answers import send_error

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.types import ASGIApp, Receive, Scope, Send

    from holdfast.gateway.audit import Audit

MAX_BODY = 16 * 1024 * 1024


class Announced:
    """Refuses bodies that say they are too large, or compressed.

    Those that say nothing are counted by whoever reads them. ``except_below`` are paths with limits of their own.
    """

    def __init__(self, app: ASGIApp, audit: Audit, except_below: Collection[str] = ()) -> None:
        self._app = app
        self._audit = audit
        self._except_below = tuple(except_below)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (error := _problem(scope)) and not scope["path"].startswith(self._except_below):
            self._audit.refused(scope, error)
            await send_error(send, error)
            return
        await self._app(scope, receive, send)


def _problem(scope: Scope) -> HoldfastError | None:
    for name, value in scope["headers"]:
        if name == b"content-length":
            if int(value) > MAX_BODY:
                return too_large()
        elif name == b"content-encoding" and value.strip().lower() not in (b"", b"identity"):
            # What a few bytes become is known only after it was unpacked.
            return InvalidRequest("Bodies are taken as they are, not compressed: leave Content-Encoding out.")
    return None


def too_large() -> TooLarge:
    return TooLarge(f"A request may have {MAX_BODY // 1024 // 1024} MiB at most.")
