"""Validates large pushes before their turn, item by item, so that other actors are not blocked meanwhile."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError
from holdfast.pushpop.api.requests import CheckedPush, WrittenPush
from holdfast.runtime.serialization import check_lossless
from holdfast.runtime.yielding import Piecework

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.pushpop.api.requests import ItemOptions

#: The key of a push whose payloads come as JSON text.
ENTRIES = "entries"


async def read_written(calls: Sequence[tuple[str, Any]]) -> Sequence[tuple[str, Any]]:
    """Returns the calls with each written push validated; an invalid push is replaced by its error."""
    if not any(map(_is_written, calls)):
        return calls
    return [(call[0], await _read(call[1])) if _is_written(call) else call for call in calls]


def _is_written(call: tuple[str, Any]) -> bool:
    method, data = call
    return method == "Push" and isinstance(data, dict) and ENTRIES in data


async def _read(data: dict[str, Any]) -> CheckedPush | HoldfastError:
    work = Piecework()
    checked: list[tuple[ItemOptions, str]] = []
    try:
        push = WrittenPush.parse(data)
        for entry in push.entries:
            text, value = entry.read()
            checked.append((entry, text))
            if work.is_due(len(text)):
                await asyncio.sleep(0)
            check_lossless([[value]])
            del value
            if work.is_due(len(text)):
                await asyncio.sleep(0)
    except HoldfastError as error:
        return error
    return CheckedPush(checked, push.elsewhere, push.traceparent)
