"""Request bodies: JSON whatever the content type says, not too deep, in one piece."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.errors import InvalidRequest
from holdfast.runtime.serialization import load

if TYPE_CHECKING:
    from fastapi import Request

MAX_DEPTH = 100


async def read_json(request: Request) -> tuple[bytes, Any]:
    """The body as it came, and what it says."""
    body = await request.body()
    if not body.strip():
        raise InvalidRequest("A body is missing: send a JSON object.")
    try:
        value = load(body)
    except ValueError as error:
        raise InvalidRequest(f"The body is not JSON: {error}.") from error
    if _deeper_than(MAX_DEPTH, value):
        raise InvalidRequest(f"The body is nested more than {MAX_DEPTH} levels deep.")
    return body, value


async def read_object(request: Request) -> tuple[bytes, dict[str, Any]]:
    body, value = await read_json(request)
    if not isinstance(value, dict):
        raise InvalidRequest("The body must be a JSON object.")
    return body, value


def _deeper_than(limit: int, value: Any) -> bool:
    level = [value]
    for _ in range(limit + 1):
        level = [
            child
            for parent in level
            for child in (parent.values() if type(parent) is dict else parent if type(parent) is list else ())
            if type(child) is dict or type(child) is list
        ]
        if not level:
            return False
    return True
