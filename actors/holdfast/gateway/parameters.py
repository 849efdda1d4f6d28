"""Values in a query: text that has to look like what it is.

Pydantic alone would also take ``1_0``, ``1.0`` and `` 1`` for integers, and ``1``, ``on`` and ``y`` for true.
"""

from __future__ import annotations

import re

from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError


def _looks_like(pattern: str, what: str) -> BeforeValidator:
    matches = re.compile(pattern, re.ASCII | re.IGNORECASE).fullmatch

    def check(text: str) -> str:
        if not matches(text):
            raise PydanticCustomError("query_value", "{what}", {"what": f"Input should be {what}"})
        return text

    return BeforeValidator(check)


INTEGER = _looks_like(r"[+-]?\d{1,1000}", "an integer")
NUMBER = _looks_like(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", "a number")
FLAG = _looks_like("true|false", "true or false")
