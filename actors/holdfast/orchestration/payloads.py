"""Values of declared types as JSON text, and back."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, from_json, to_json

from holdfast.errors import InvalidRequest, TooLarge

NULL = "null"
# What an item of a queue may have, less what is sent along with an input.
MAX_BYTES = 1024 * 1024 - 4096


class Codec:
    """Reads and writes values of one declared type; ``Any`` takes every JSON value."""

    def __init__(self, declared: Any) -> None:
        self._untyped = declared is Any
        self._adapter: TypeAdapter[Any] = TypeAdapter(declared)

    def dump(self, value: Any) -> str:
        """Raises TypeError for what is not of that type, or has no form in JSON."""
        try:
            if self._untyped:
                return _strict(to_json(value).decode())
            return self._adapter.dump_json(value, warnings="error").decode()
        except (PydanticSerializationError, ValueError, RecursionError) as error:
            raise TypeError(f"{type(value).__name__} cannot be written as JSON here: {error}") from error

    def load(self, text: str) -> Any:
        """Raises pydantic's ValidationError."""
        return from_json(text) if self._untyped else self._adapter.validate_json(text)

    def check(self, text: str, what: str) -> None:
        """Raises InvalidRequest, with the place and the reason, for what cannot be read as that type."""
        try:
            self.load(text)
        except (ValidationError, ValueError) as error:
            raise InvalidRequest(f"{what}: {_in_words(error)}.") from error


def _strict(text: str) -> str:
    """pydantic writes NaN and Infinity, which JSON does not have."""
    if "NaN" in text or "Infinity" in text:
        from_json(text, allow_inf_nan=False)
    return text


ANYTHING = Codec(Any)


@lru_cache(maxsize=1024)
def _cached(declared: Any) -> Codec:
    return Codec(declared)


def codec(declared: Any) -> Codec:
    """The codec of a type, made once."""
    if declared is Any:
        return ANYTHING
    try:
        return _cached(declared)
    except TypeError:
        # Not hashable, as Annotated with a list in it.
        return Codec(declared)


def _in_words(error: ValueError) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    problems = [
        ".".join(str(part) for part in problem["loc"]) + (": " if problem["loc"] else "") + problem["msg"]
        for problem in error.errors(include_url=False, include_context=False, include_input=False)
    ]
    return "; ".join(problems)


def as_json(value: Any) -> str:
    """Text for a value that is JSON already."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def sendable(text: str) -> str:
    """An input that others can be sent. Raises TooLarge, where the author's code can see it."""
    size = len(text) if text.isascii() else len(text.encode())
    if size > MAX_BYTES:
        raise TooLarge(f"An input may have {MAX_BYTES} bytes of JSON; this one has {size}. Send where it lies instead.")
    return text
