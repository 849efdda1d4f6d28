"""Reads the bodies of Dapr's HTTP API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.gateway.dapr_api.api_errors import bad_request
from holdfast.gateway.middleware.body_limits import MAX_BODY

if TYPE_CHECKING:
    from starlette.types import Receive


async def read_body(receive: Receive, most: int = MAX_BODY) -> bytes:
    """Returns the body. Raises ApiError when it has more than ``most`` bytes, or the caller disconnects."""
    parts = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise bad_request("failed to read body: the caller disconnected")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > most:
            raise bad_request("failed to read body: stream too large")
        if not message.get("more_body"):
            return b"".join(parts)
