"""JSON without conversions: every value is read back as it was written.

The SDK's own serializer turns strings that look like dates or durations ("2024-01-01", "5s") into objects, and writes
1.6 seconds as ``2s600ms``; payloads and deadlines need exact values.
"""

from __future__ import annotations

import asyncio
import base64
import gc
import math
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic_core import PydanticSerializationError, from_json, to_json

from holdfast.errors import InvalidRequest, TooLarge
from holdfast.runtime.actor_api.durations import go_duration
from holdfast.wire.json_writer import dumps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


Text = TypeVar("Text", bytes, str, bytes | str)
Read = TypeVar("Read")

MAX_DEPTH = 100
#: Lists and objects in one payload, and in one call: to read half a million of them takes 60 ms, a turn does it several
#: times, and to look through them for garbage takes 130 ms.
MAX_CONTAINERS = 100_000

#: From so many bytes on a text is read by :func:`read_large`.
LARGE = 256 * 1024
# How many lists and objects are looked at one by one.
_MANY = 5_000
# How deep both writers of JSON write lists and objects: orjson (3.11) and pydantic-core (2.50).
_WRITTEN_DEPTH = 254
_TOO_DEEP = f"The body is nested more than {MAX_DEPTH} levels deep."
# How much of a text is searched for brackets at once.
_PIECE = 256 * 1024
# All bytes but those that open a list or an object, and those around strings.
_NO_BRACKETS = bytes(set(range(256)) - set(b'[{"'))
# 1e400 is read as infinity (pydantic-core 2.50), which JSON has no word for.
_TOO_LARGE = "The body has a number that is too large."


def dump(value: object) -> bytes:
    try:
        return dumps(value, default=_plain)
    except TypeError:
        # orjson is limited to integers of 64 bits; a payload's integer may be longer.
        return to_json(value, inf_nan_mode="null")


def load(data: bytes | str) -> Any:
    if len(data) < LARGE:
        return from_json(data, allow_inf_nan=False)
    return read_large(_read_uncached, data)


def read_large(read: Callable[[Text], Read], text: Text) -> Read:
    """Reads a large text with garbage collection off: parsing creates many objects and no garbage."""
    if not gc.isenabled():
        return read(text)
    gc.disable()
    try:
        return read(text)
    finally:
        gc.enable()


def _read_uncached(data: bytes | str) -> Any:
    # 100,000 keys that differ are not found in a cache.
    return from_json(data, allow_inf_nan=False, cache_strings="none")


def check_number_of_containers(text: bytes | str) -> None:
    """Raises TooLarge for JSON text of too many lists and objects, before it is read."""
    for _ in _checks_of_containers(text):
        pass


async def check_number_of_containers_in_pieces(text: bytes | str) -> None:
    """The same, letting other tasks run: 16 MiB of brackets in strings take 0.1 s."""
    for _ in _checks_of_containers(text):
        await asyncio.sleep(0)


def _checks_of_containers(text: bytes | str) -> Iterator[None]:
    """Yields after each piece of the text."""
    if len(text) <= 2 * MAX_CONTAINERS:
        return
    data = text.encode() if isinstance(text, str) else text
    # Brackets in strings do not count; they are rarely so many that strings have to be told apart.
    if data.count(b"[") + data.count(b"{") <= MAX_CONTAINERS:
        return
    found = 0
    in_string = False
    start = 0
    while start < len(data):
        end = start + _PIECE
        while data[end - 1 : end] == b"\\":
            # What it escapes comes next.
            end += 1
        opened, in_string = _opened(data[start:end], in_string)
        found += opened
        if found > MAX_CONTAINERS:
            raise TooLarge(f"The body has more than {MAX_CONTAINERS:,} lists and objects.")
        start = end
        yield


def _opened(piece: bytes, in_string: bool) -> tuple[int, bool]:
    """Returns how many lists and objects a piece of JSON text opens, and whether a string goes on after it.

    Runs no Python code per string.
    """
    # Backslashes are in strings only; without them every quotation mark begins or ends a string. Two that are next to
    # each other cancel out, which leaves the strings with brackets: 460,000 keys take 10 ms instead of 33 ms.
    unescaped = piece.replace(b"\\\\", b"").replace(b'\\"', b"")
    parts = unescaped.translate(None, _NO_BRACKETS).replace(b'""', b"").split(b'"')
    return len(b"".join(parts[in_string::2])), in_string ^ (len(parts) % 2 == 0)


def is_deep(text: bytes | str) -> bool:
    """Returns whether JSON text may be nested deeper than allowed. Fast; False is certain, True is not."""
    if isinstance(text, str):
        return text.count("[") + text.count("{") > MAX_DEPTH
    return text.count(b"[") + text.count(b"{") > MAX_DEPTH


def check_depth(body: bytes) -> None:
    """Raises InvalidRequest for JSON that is nested too deep; invalid JSON is left to its reader."""
    if is_deep(body):
        try:
            value = load(body)
        except ValueError:
            return
        check_lossless([value])


def check_lossless(value: Any) -> None:
    """Raises InvalidRequest for a parsed value that cannot be written back as it was sent."""
    level = [value]
    seen = 0
    for depth in range(MAX_DEPTH):
        below: list[Any] = []
        has_empty = False
        for container in level:
            for child in container.values() if type(container) is dict else container:
                kind = type(child)
                if kind is dict or kind is list:
                    if child:
                        below.append(child)
                    else:
                        has_empty = True
                elif kind is float and math.isinf(child):
                    raise InvalidRequest(_TOO_LARGE)
        if not below and not (has_empty and depth == MAX_DEPTH - 1):
            return
        seen += len(below)
        if seen > _MANY:
            # They may be 100,000 in each other, which takes this loop 50 ms.
            _check_many(value)
            return
        level = below
    raise InvalidRequest(_TOO_DEEP)


def _check_many(value: Any) -> None:
    """The same for a value of many lists and objects, without Python code for each of them.

    Beside an integer past 64 bits an empty list or object may be one level deeper: only orjson counts it as one.
    """
    wrapped = value
    for _ in range(_WRITTEN_DEPTH - MAX_DEPTH):
        wrapped = [wrapped]
    text = b"null"
    try:
        text = dumps(wrapped)
    except TypeError as error:
        if "Recursion" in str(error):
            raise InvalidRequest(_TOO_DEEP) from None
    if b"null" not in text:
        # There is no infinity in it, which orjson writes as null.
        return
    try:
        text = to_json(wrapped, inf_nan_mode="constants")
    except PydanticSerializationError:
        raise InvalidRequest(_TOO_DEEP) from None
    # The word may be part of a string; infinity alone has another length in each of the two.
    if b"Infinity" in text and len(text) != len(to_json(wrapped, inf_nan_mode="null")):
        raise InvalidRequest(_TOO_LARGE)


def _plain(value: object) -> str:
    if isinstance(value, timedelta):
        return go_duration(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")
