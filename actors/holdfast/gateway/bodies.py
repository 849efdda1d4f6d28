"""Request bodies: JSON objects, not too deep."""

from __future__ import annotations

from typing import Any

from holdfast.errors import InvalidRequest
from holdfast.runtime.serialization import load

MAX_DEPTH = 100


def parse_object(body: bytes) -> dict[str, Any]:
    """What the body says. Raises InvalidRequest."""
    if not body.strip():
        raise InvalidRequest("A body is missing: send a JSON object.")
    try:
        value = load(body)
    except ValueError as error:
        raise InvalidRequest(f"The body is not JSON: {error}.") from error
    if not isinstance(value, dict):
        raise InvalidRequest("The body must be a JSON object.")
    if _deeper_than(MAX_DEPTH, value):
        raise InvalidRequest(f"The body is nested more than {MAX_DEPTH} levels deep.")
    return value


def _deeper_than(limit: int, value: Any) -> bool:
    level = [value]
    for _ in range(limit):
        level = [
            child
            for parent in level
            for child in (parent.values() if type(parent) is dict else parent)
            if type(child) is dict or type(child) is list
        ]
        if not level:
            return False
    return True
