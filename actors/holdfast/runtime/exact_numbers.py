"""Preserves the numbers of state values in stores that would change them.

daprd (1.18.2) reads the numbers of a state transaction over HTTP as 64-bit floats and writes them anew: integers beyond
2^53 are rounded, and 1.0 becomes 1. A value with such a number is stored as an object with its JSON as text. All other
values, nearly all in practice, are stored as they are.
"""

from __future__ import annotations

import math
import re
from typing import Any

from holdfast.runtime.serialization import dump, load

#: The only key of the object that wraps such a value.
KEY = "$json"

_LARGEST_INTEGER = 2**53
# Go writes a float of this size or more with an exponent, so it is read as a float again.
_SMALLEST_EXPONENT = 1e21
# Found in the JSON of every such value, and of few others: an integer of 16 digits, a whole float, an exponent.
_SUSPECT = re.compile(rb'\d{16}|\d\.0|\d[eE]|"\$json"')


def check_json(value: object) -> None:
    """Raises TypeError or ValueError for a value that does not survive JSON unchanged."""
    rest = [value]
    while rest:
        part = rest.pop()
        if isinstance(part, dict):
            for key in part:
                if not isinstance(key, str):
                    raise TypeError(f"A state value has the key {key!r}: keys of objects are strings in JSON.")
            rest.extend(part.values())
        elif isinstance(part, list):
            rest.extend(part)
        elif isinstance(part, float):
            if not math.isfinite(part):
                raise ValueError(f"A state value has the number {part}, which JSON does not have.")
        elif not (part is None or isinstance(part, str | int)):
            raise TypeError(
                f"A state value has a {type(part).__name__}, which JSON cannot preserve: "
                "use None, bool, int, float, str, list and dict."
            )


def protected(value: bytes) -> bytes:
    """Returns the JSON to store for this JSON."""
    if not _SUSPECT.search(value) or not _is_changed(load(value)):
        return value
    return dump({KEY: value.decode()})


def protected_transaction(operations: bytes) -> bytes:
    """Applies :func:`protected` to the values of a transaction of Dapr's actor API."""
    if not _SUSPECT.search(operations):
        return operations
    parsed = load(operations)
    for operation in parsed:
        request = operation["request"]
        if "value" in request and _is_changed(request["value"]):
            request["value"] = {KEY: dump(request["value"]).decode()}
    return dump(parsed)


def original(stored: bytes) -> bytes:
    """Returns the JSON that was given to :func:`protected`."""
    if not stored.lstrip().startswith(b'{"$json"'):
        return stored
    value = load(stored)
    return value[KEY].encode() if _stands_for_another(value) else stored


def _stands_for_another(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {KEY} and isinstance(value[KEY], str)


def _is_changed(value: Any) -> bool:
    # A value that looks like a wrapper is wrapped too, so that it is read back unchanged.
    if _stands_for_another(value):
        return True
    rest = [value]
    while rest:
        part = rest.pop()
        if isinstance(part, dict):
            rest.extend(part.values())
        elif isinstance(part, list):
            rest.extend(part)
        elif isinstance(part, float):
            if part.is_integer() and abs(part) < _SMALLEST_EXPONENT:
                return True
        elif isinstance(part, int) and abs(part) > _LARGEST_INTEGER:
            return True
    return False
