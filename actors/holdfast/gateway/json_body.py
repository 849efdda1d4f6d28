"""Parses JSON request bodies. Their fields are validated by the receiver."""

from __future__ import annotations

from typing import Any

from holdfast.errors import InvalidRequest
from holdfast.runtime.serialization import check_lossless, check_number_of_containers, is_deep, load


def parse_object(body: bytes) -> dict[str, Any]:
    """Returns the body parsed as a JSON object. Raises InvalidRequest."""
    if not body.strip():
        raise InvalidRequest("A body is missing: send a JSON object.")
    value = parse(body)
    if not isinstance(value, dict):
        raise InvalidRequest("The body must be a JSON object.")
    return value


def check_depth_of(body: bytes, value: Any) -> None:
    """Raises InvalidRequest when the body, with the parsed ``value``, is nested too deeply."""
    if is_deep(body):
        check_lossless(value)


def parse(body: bytes) -> Any:
    """Returns the body parsed as any JSON value. Raises InvalidRequest and TooLarge."""
    check_number_of_containers(body)
    try:
        return load(body)
    except ValueError as error:
        raise InvalidRequest(f"The body is not JSON: {error}.") from error
