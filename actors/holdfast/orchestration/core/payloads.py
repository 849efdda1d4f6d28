"""Converts values of declared types to JSON text and back."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, SchemaValidator, from_json, to_json

from holdfast.errors import InvalidRequest, TooLarge
from holdfast.runtime.serialization import (
    LARGE,
    MAX_DEPTH,
    check_lossless,
    check_number_of_containers,
    is_deep,
    load,
    read_large,
)
from holdfast.wire.json_writer import dumps

if TYPE_CHECKING:
    from collections.abc import Callable

NULL = "null"
# The limit of a payload, and the limit of a payload in a queue item, which holds a few more fields.
MAX_BYTES = 1024 * 1024
_MAX_SENT = MAX_BYTES - 4096
# How many validation errors of an input are reported, and up to how many they are listed at all.
_MOST_TOLD = 5
_MOST_LOOKED_AT = 1000
_MAX_QUOTED = 200
_MAX_PROBLEM = 500

# Schema types that support ``fail_fast``.
_SEQUENCES = frozenset({"list", "tuple", "set", "frozenset"})
# Keys of a schema that hold values of the author, not nested schemas.
_VALUES = frozenset({"default", "expected", "metadata", "serialization", "custom_error_context", "members"})


class Codec:
    """Reads and writes values of one declared type; ``Any`` takes every JSON value."""

    def __init__(self, declared: Any) -> None:
        self._untyped = declared is Any
        #: The type if orjson can write its values, which takes a tenth of pydantic's time.
        self._plain = declared if declared is int or declared is str or declared is bool else None
        self._adapter: TypeAdapter[Any] = _adapter(declared)
        self._validate = _validator(self._adapter)

    def dump(self, value: Any) -> str:
        """Returns ``value`` as JSON text. Raises TypeError when it is of another type or has no form in JSON."""
        if type(value) is self._plain:
            try:
                return dumps(value).decode()
            except TypeError:
                pass  # an integer beyond 64 bits, or text that is not valid Unicode: pydantic decides
        try:
            if self._untyped:
                return _strict(to_json(value).decode())
            return _strict(self._adapter.dump_json(value, warnings="error").decode())
        except (PydanticSerializationError, ValueError, RecursionError) as error:
            raise TypeError(f"{type(value).__name__} cannot be written as JSON here: {error}") from error

    def load(self, text: str) -> Any:
        """Returns the value of JSON text. Raises pydantic's ValidationError when it does not fit the type."""
        read = from_json if self._untyped else self._validate
        return read(text) if len(text) < LARGE else read_large(read, text)

    def json_schema(self) -> dict[str, Any]:
        """Returns the JSON schema of the type. Raises PydanticUserError for a type that has none."""
        return self._adapter.json_schema()

    def check(self, text: str, what: str) -> None:
        """Raises InvalidRequest, with the place and the reason, when ``text`` does not fit the type."""
        if self._untyped:
            return
        try:
            self.load(text)
        except (ValidationError, ValueError) as error:
            raise InvalidRequest(f"{what}: {in_words(error)}.") from error


def _adapter(declared: Any) -> TypeAdapter[Any]:
    try:
        # Keep NaN and Infinity, so that they can be rejected: pydantic would write null.
        return TypeAdapter(declared, config=ConfigDict(ser_json_inf_nan="constants"))
    except PydanticUserError:
        return TypeAdapter(declared)  # a model has its own configuration


def _validator(adapter: TypeAdapter[Any]) -> Callable[[str], Any]:
    """Returns a validator of JSON text that stops at the first invalid element of a list.

    Otherwise pydantic creates an error of a few hundred bytes for each field of each of 300,000 elements.
    """
    schema = adapter.core_schema
    if not isinstance(schema, dict):
        return adapter.validate_json  # not complete yet: pydantic completes it at first use
    fast = _failing_fast(schema)
    try:
        # Without the prebuilt validators of models, whose lists do not stop at the first error.
        return SchemaValidator(fast, _use_prebuilt=False).validate_json
    except TypeError:
        return SchemaValidator(fast).validate_json  # pydantic-core before 2.32 has no prebuilt validators


def _failing_fast(schema: Any) -> Any:
    if isinstance(schema, list | tuple):
        return type(schema)(map(_failing_fast, schema))
    if not isinstance(schema, dict):
        return schema
    copied = {key: value if key in _VALUES else _failing_fast(value) for key, value in schema.items()}
    if copied.get("type") in _SEQUENCES:
        copied["fail_fast"] = True
    return copied


def _strict(text: str) -> str:
    """Returns ``text``. Raises ValueError for NaN and Infinity, which pydantic writes but JSON does not have."""
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
    """Returns the cached codec of a type."""
    if declared is Any:
        return ANYTHING
    try:
        return _cached(declared)
    except TypeError:
        # Not hashable, for example Annotated with a list in it.
        return Codec(declared)


def in_words(error: Exception) -> str:
    """Returns the problems of a value and their places, without the value and without pydantic's links."""
    if not isinstance(error, ValidationError):
        return str(error)
    count = error.error_count()
    if count > _MOST_LOOKED_AT:
        return f"{count} values do not fit the declared type"
    problems = [
        ".".join(str(part) for part in problem["loc"])[:_MAX_QUOTED] + (": " if problem["loc"] else "") + problem["msg"]
        for problem in error.errors(include_url=False, include_context=False, include_input=False)
    ]
    more = f"; and {count - _MOST_TOLD} more" if count > _MOST_TOLD else ""
    return "; ".join(problem[:_MAX_PROBLEM] for problem in problems[:_MOST_TOLD]) + more


def as_json(value: Any) -> str:
    """Returns the JSON text of a JSON value."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def sendable(text: str, what: str) -> str:
    """Returns ``text`` if it fits into a queue item. Raises TooLarge in the author's code otherwise."""
    return _within(_MAX_SENT, text, what)


def keepable(text: str, what: str) -> str:
    """Returns ``text`` if it can be stored with an instance. Raises TooLarge in the author's code otherwise."""
    return _within(MAX_BYTES, text, what)


def _within(most: int, text: str, what: str) -> str:
    size = len(text) if text.isascii() else len(text.encode())
    if size > most:
        raise TooLarge(f"{what} may have {most} bytes of JSON; this one has {size}. Pass a reference to it instead.")
    try:
        check_number_of_containers(text)
    except TooLarge as error:
        raise TooLarge(f"{what}: {error} Pass a reference to it instead.") from None
    if is_deep(text):
        try:
            check_lossless([load(text)])
        except (ValueError, InvalidRequest):
            raise TooLarge(f"{what} may be nested {MAX_DEPTH - 1} levels deep; this one is deeper.") from None
    return text


def stored_size(text: str) -> int:
    """Returns the size in bytes of JSON text stored as a string in a JSON object."""
    size = len(text) if text.isascii() else len(text.encode())
    return size + text.count('"') + text.count("\\")
