"""Limits for the body of every request, checked by its headers before the body is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError, InvalidRequest, TooLarge
from holdfast.gateway.error_responses import send_error

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.types import ASGIApp, Receive, Scope, Send

    from holdfast.gateway.auth.audit_log import AuditLog

#: The limit for a push of many items, and for requests without a limit of their own, in bytes.
MAX_BODY = 16 * 1024 * 1024
#: The limit for a call with one payload: the payload and the JSON around it.
MAX_CALL = (1024 + 256) * 1024
#: The limit for a call whose payload is JSON text in a JSON string, where quotation marks take two characters.
MAX_TEXT_CALL = (2 * 1024 + 256) * 1024
# The digits of a 64-bit number.
_MAX_DIGITS = 20
#: The limit for an answer. Lists stop before it and return a cursor.
MAX_ANSWER = 8 * 1024 * 1024


class BodyLimits:
    """Refuses bodies whose headers say that they are too large or compressed.

    A body without Content-Length is limited while it is read. ``except_below`` are paths with limits of their own.
    """

    def __init__(self, app: ASGIApp, audit: AuditLog, except_below: Collection[str] = ()) -> None:
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
            if len(value) > _MAX_DIGITS:
                # Python (3.11) does not parse more than 4300 digits, even if they are zeros.
                return InvalidRequest("Content-Length has too many digits.")
            if int(value) > MAX_BODY:
                return too_large()
        elif name == b"content-encoding" and value.strip().lower() not in (b"", b"identity"):
            # The size of a compressed body is known only after it was decompressed.
            return InvalidRequest("The body must not be compressed: leave out Content-Encoding.")
    return None


def too_large(most: int = MAX_BODY) -> TooLarge:
    shown = f"{most // 1024 // 1024} MiB" if most % (1024 * 1024) == 0 else f"{most // 1024} KiB"
    return TooLarge(f"The body of this request may have at most {shown}.")
