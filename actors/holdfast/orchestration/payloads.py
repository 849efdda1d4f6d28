"""Values of declared types as JSON text, and back."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

import orjson
from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, from_json, to_json

from holdfast.errors import InvalidRequest, TooLarge

NULL = "null"
# What a payload may have; and what is left of an item of a queue, less what is sent along with it.
MAX_BYTES = 1024 * 1024
_MAX_SENT = MAX_BYTES - 4096


class Codec:
    """Reads and writes values of one declared type; ``Any`` takes every JSON value."""

    def __init__(self, declared: Any) -> None:
        self._untyped = declared is Any
        #: Whose values are written without pydantic, which takes ten times as long for them.
        self._plain = declared if declared is int or declared is str or declared is bool else None
        self._adapter: TypeAdapter[Any] = _adapter(declared)

    def dump(self, value: Any) -> str:
        """Raises TypeError for what is not of that type, or has no form in JSON."""
        if type(value) is self._plain:
            try:
                return orjson.dumps(value).decode()
            except TypeError:
                pass  # an integer past 64 bits, or text that is no Unicode: as pydantic has it
        try:
            if self._untyped:
                return _strict(to_json(value).decode())
            return _strict(self._adapter.dump_json(value, warnings="error").decode())
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


def _adapter(declared: Any) -> TypeAdapter[Any]:
    try:
        # As they are, so that they can be refused: pydantic would write null.
        return TypeAdapter(declared, config=ConfigDict(ser_json_inf_nan="constants"))
    except PydanticUserError:
        return TypeAdapter(declared)  # a model: its own configuration counts


def _strict(text: str) -> str:
    """pydantic writes NaN and Infinity, which JSON does not have."""
    if "NaN" in text or "Infinity" in text:
        try:
            from_json(text, allow_inf_nan=False)
        except ValueError:
            raise ValueError("JSON has no NaN and no Infinity") from None
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


def sendable(text: str, what: str) -> str:
    """What travels with a queue. Raises TooLarge, where the author's code can see it."""
    return _within(_MAX_SENT, text, what)


def keepable(text: str, what: str) -> str:
    """What is kept of an instance. Raises TooLarge, where the author's code can see it."""
    return _within(MAX_BYTES, text, what)


def _within(most: int, text: str, what: str) -> str:
    size = len(text) if text.isascii() else len(text.encode())
    if size > most:
        raise TooLarge(f"{what} may have {most} bytes of JSON; this one has {size}. Send where it lies instead.")
    return text
