"""What callers send, as JSON: all of it, or an error."""

from __future__ import annotations

from typing import Any

from pydantic_core import PydanticSerializationError, from_json, to_json

from holdfast.errors import InvalidRequest
from holdfast.runtime.serialization import dump

_NOT_JSON = (TypeError, ValueError, RecursionError, PydanticSerializationError)


def encode(value: Any, what: str) -> bytes:
    """Any JSON value. Raises InvalidRequest for what is none."""
    try:
        data = dump(value)
        if b"null" in data:
            # orjson (3.13) writes NaN and the infinities so too, and has no switch for it.
            _strict(to_json(value, bytes_mode="base64"))
    except _NOT_JSON as error:
        raise _refused(what, error) from error
    return data


def encode_typed(value: Any, what: str) -> bytes:
    """Any JSON value, or what pydantic can make one of. Raises InvalidRequest for what is neither."""
    try:
        return _strict(to_json(value))
    except _NOT_JSON as error:
        raise _refused(what, error) from error


def _strict(text: bytes) -> bytes:
    """pydantic writes NaN and the infinities as they are."""
    if b"NaN" in text or b"Infinity" in text:
        try:
            from_json(text, allow_inf_nan=False)
        except ValueError:
            raise ValueError("it has neither NaN nor Infinity.") from None
    return text


def _refused(what: str, error: Exception) -> InvalidRequest:
    return InvalidRequest(f"{what}: this cannot be written as JSON: {error}")
