"""Many items on their way to a queue: as few requests as possible, none of them too large."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from holdfast.errors import InvalidRequest
from holdfast.runtime.serialization import dump

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MOST_ITEMS = 1000
MOST_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Parcel:
    """The body of one push, which is stored as a whole or not at all."""

    count: int
    body: bytes


def encode(item: Any) -> bytes:
    """An item as JSON."""
    try:
        return dump(item)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequest(f"This item cannot be written as JSON: {error}") from error


def pack(items: Iterable[bytes], priority: int) -> Iterator[Parcel]:
    """Items that are JSON already, in their order."""
    packed: list[bytes] = []
    size = 0
    for item in items:
        if packed and (len(packed) == MOST_ITEMS or size + len(item) > MOST_BYTES):
            yield _parcel(packed, priority)
            packed, size = [], 0
        packed.append(item)
        size += len(item)
    if packed:
        yield _parcel(packed, priority)


def _parcel(items: list[bytes], priority: int) -> Parcel:
    entries = [{"item": orjson.Fragment(item), "priority": priority} for item in items]
    return Parcel(len(items), dump({"items": entries}))
