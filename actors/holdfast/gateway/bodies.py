"""Request bodies: JSON, as a rule objects. What they say is checked by whom it is for."""

from __future__ import annotations

from typing import Any

from holdfast.errors import InvalidRequest
from holdfast.runtime.serialization import load


def parse_object(body: bytes) -> dict[str, Any]:
    """What the body says. Raises InvalidRequest."""
    if not body.strip():
        raise InvalidRequest("A body is missing: send a JSON object.")
    value = parse(body)
    if not isinstance(value, dict):
        raise InvalidRequest("The body must be a JSON object.")
    return value


def parse(body: bytes) -> Any:
    """What the body says, whatever JSON it is. Raises InvalidRequest."""
    try:
        return load(body)
    except ValueError as error:
        raise InvalidRequest(f"The body is not JSON: {error}.") from error
