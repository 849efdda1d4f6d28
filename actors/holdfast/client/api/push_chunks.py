"""Splits items to push into as few requests as possible, none of them too large."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.runtime.serialization import dump

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MOST_ITEMS = 1000
MOST_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class PushChunk:
    """The body of one push, which is stored as a whole or not at all."""

    count: int
    body: bytes
    #: Whether it may be pushed again: every item has a dedup id.
    repeatable: bool


@dataclass(frozen=True, slots=True)
class Entry:
    """One item as JSON, with its options; options that are None are not sent."""

    item: bytes
    priority: int = 0
    dedup_id: str | None = None
    delay_seconds: float | None = None
    ttl_seconds: int | None = None
    idempotency_key: str | None = None
    tenant_id: str | None = None

    def sent(self) -> bytes:
        """Returns the entry as JSON."""
        options = {
            "priority": self.priority,
            "dedup_id": self.dedup_id,
            "delay_seconds": self.delay_seconds,
            "ttl_seconds": self.ttl_seconds,
            "idempotency_key": self.idempotency_key,
            "tenant_id": self.tenant_id,
        }
        rest = dump({key: value for key, value in options.items() if value is not None})
        return b'{"item":%b,%b' % (self.item, rest[1:])


def single(entry: Entry) -> PushChunk:
    """Returns the request for one item."""
    return PushChunk(1, entry.sent(), entry.dedup_id is not None)


def chunked(entries: Iterable[Entry]) -> Iterator[PushChunk]:
    """Yields the requests for many items, in their order."""
    packed: list[Entry] = []
    size = 0
    for entry in entries:
        if packed and (len(packed) == MOST_ITEMS or size + len(entry.item) > MOST_BYTES):
            yield _chunk(packed)
            packed, size = [], 0
        packed.append(entry)
        size += len(entry.item)
    if packed:
        yield _chunk(packed)


def _chunk(entries: list[Entry]) -> PushChunk:
    repeatable = all(entry.dedup_id is not None for entry in entries)
    body = b'{"items":[%b]}' % b",".join(entry.sent() for entry in entries)
    return PushChunk(len(entries), body, repeatable)
