"""Many items on their way to a queue: as few requests as possible, none of them too large."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

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
    #: Pushed twice, it is stored once: every item says by which id it is known.
    repeatable: bool


@dataclass(frozen=True, slots=True)
class Entry:
    """One item, as JSON, and what is said of it; what is None is not said."""

    item: bytes
    priority: int = 0
    dedup_id: str | None = None
    delay_seconds: float | None = None
    ttl_seconds: int | None = None
    idempotency_key: str | None = None
    tenant_id: str | None = None

    def sent(self) -> dict[str, Any]:
        said = {
            "dedup_id": self.dedup_id,
            "delay_seconds": self.delay_seconds,
            "ttl_seconds": self.ttl_seconds,
            "idempotency_key": self.idempotency_key,
            "tenant_id": self.tenant_id,
        }
        entry: dict[str, Any] = {"item": orjson.Fragment(self.item), "priority": self.priority}
        return entry | {key: value for key, value in said.items() if value is not None}


def wrap(entry: Entry) -> Parcel:
    """One item."""
    return Parcel(1, dump(entry.sent()), entry.dedup_id is not None)


def pack(entries: Iterable[Entry]) -> Iterator[Parcel]:
    """Many items, in their order."""
    packed: list[Entry] = []
    size = 0
    for entry in entries:
        if packed and (len(packed) == MOST_ITEMS or size + len(entry.item) > MOST_BYTES):
            yield _parcel(packed)
            packed, size = [], 0
        packed.append(entry)
        size += len(entry.item)
    if packed:
        yield _parcel(packed)


def _parcel(entries: list[Entry]) -> Parcel:
    repeatable = all(entry.dedup_id is not None for entry in entries)
    return Parcel(len(entries), dump({"items": [entry.sent() for entry in entries]}), repeatable)
