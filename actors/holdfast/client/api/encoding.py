"""Encodes callers' values as JSON, and rejects values JSON cannot represent."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from pydantic_core import PydanticSerializationError, from_json, to_json

from holdfast.errors import InvalidRequest
from holdfast.runtime.serialization import dump

_NOT_JSON = (TypeError, ValueError, RecursionError, PydanticSerializationError)


def path_segment(text: str, what: str) -> str:
    """Quotes a path segment. Dots are quoted too if there is nothing else: "." and ".." have a meaning in paths."""
    try:
        quoted = quote(text, safe="")
    except UnicodeEncodeError:
        raise InvalidRequest(f"The {what} is not valid Unicode: it has half of a surrogate pair.") from None
    return quoted.replace(".", "%2E") if not quoted.strip(".") else quoted


def encode(value: Any, what: str) -> bytes:
    """Encodes a JSON value. Raises InvalidRequest for any other."""
    try:
        data = dump(value)
        if b"null" in data:
            # orjson (3.13) also writes NaN and the infinities as null, and has no switch for it.
            _strict(to_json(value, bytes_mode="base64"))
    except _NOT_JSON as error:
        raise _refused(what, error) from error
    return data


def encode_typed(value: Any, what: str) -> bytes:
    """Encodes a JSON value or a value pydantic can serialize. Raises InvalidRequest for any other."""
    try:
        return _strict(to_json(value))
    except _NOT_JSON as error:
        raise _refused(what, error) from error


def _strict(text: bytes) -> bytes:
    """Rejects NaN and the infinities, which pydantic writes as they are."""
    if b"NaN" in text or b"Infinity" in text:
        try:
            from_json(text, allow_inf_nan=False)
        except ValueError:
            raise ValueError("JSON has neither NaN nor Infinity.") from None
    return text


def _refused(what: str, error: Exception) -> InvalidRequest:
    return InvalidRequest(f"{what}: the value cannot be written as JSON: {error}")
