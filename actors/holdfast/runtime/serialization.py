"""JSON as it was given: what goes in comes out, whatever it looks like.

The SDK's own serializer turns strings that look like dates or durations ("2024-01-01", "5s") into objects, and
writes 1.6 seconds as ``2s600ms``; neither will do for other people's payloads and for deadlines.
"""

from __future__ import annotations

import base64
import math
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import orjson
from dapr.serializers import Serializer
from pydantic_core import from_json, to_json

from holdfast.errors import InvalidRequest
from holdfast.runtime.durations import go_duration

if TYPE_CHECKING:
    from collections.abc import Callable


MAX_DEPTH = 100


class JsonSerializer(Serializer):
    """The serializer of all of Holdfast's actors, for messages and for state."""

    def serialize(self, obj: object, custom_hook: Callable[[object], bytes] | None = None) -> bytes:
        return custom_hook(obj) if custom_hook else dump(obj)

    def deserialize(
        self,
        data: bytes,
        data_type: type | None = object,
        custom_hook: Callable[[bytes], object] | None = None,
    ) -> Any:
        if custom_hook:
            return custom_hook(data)
        try:
            return load(data) if data else None
        except ValueError as error:
            raise InvalidRequest(f"The body is not JSON: {error}.") from error


def dump(value: object) -> bytes:
    try:
        return orjson.dumps(value, default=_plain)
    except TypeError:
        # orjson stops at 64 bits; a payload's integer may be longer.
        return to_json(value, inf_nan_mode="null")


def load(data: bytes | str) -> Any:
    return from_json(data, allow_inf_nan=False)


def check_lossless(value: Any) -> None:
    """Raises InvalidRequest for what was read, but could not be given back as it came."""
    level = [value]
    for _ in range(MAX_DEPTH):
        below: list[Any] = []
        for container in level:
            for child in container.values() if type(container) is dict else container:
                kind = type(child)
                if kind is dict or kind is list:
                    below.append(child)
                elif kind is float and math.isinf(child):
                    # 1e400 is read as infinity (pydantic-core 2.50), which JSON has no word for.
                    raise InvalidRequest("The body has a number that is too large.")
        if not below:
            return
        level = below
    raise InvalidRequest(f"The body is nested more than {MAX_DEPTH} levels deep.")


def _plain(value: object) -> str:
    if isinstance(value, timedelta):
        return go_duration(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")
