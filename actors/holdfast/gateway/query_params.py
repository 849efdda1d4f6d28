"""Validators for query parameters, which check the text before it is converted.

Pydantic alone would also accept ``1_0``, ``1.0`` and `` 1`` as integers, and ``1``, ``on`` and ``y`` as true.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

from holdfast.wire.times import read_time

if TYPE_CHECKING:
    from pydantic import ValidationInfo

#: The maximal length of a value: enough for any sensible number, and cheap to parse.
MAX_LENGTH = 64


def _looks_like(pattern: str, what: str) -> BeforeValidator:
    # No two adjacent parts of a pattern match the same character, so matching takes linear time.
    matches = re.compile(pattern, re.ASCII | re.IGNORECASE).fullmatch

    def check(text: str) -> str:
        if len(text) > MAX_LENGTH or not matches(text):
            raise PydanticCustomError("query_value", "{what}", {"what": f"Input should be {what}"})
        return text

    return BeforeValidator(check)


INTEGER = _looks_like(r"[+-]?\d+", "an integer")
NUMBER = _looks_like(r"[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?", "a number")
FLAG = _looks_like("true|false", "true or false")


def _unix_time(given: Any, info: ValidationInfo) -> float:
    if not isinstance(given, str):
        raise PydanticCustomError("query_value", "Input should be a string")
    return read_time(given, info.field_name or "time")


#: A time in ISO 8601, in UTC unless it says otherwise, as Unix seconds.
MOMENT = BeforeValidator(_unix_time, json_schema_input_type=str)
