"""Where an item lies, and what is known of it once it has been taken out of its lane."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple


class Place(NamedTuple):
    """Where an item lies for as long as it exists. Places of one priority are ordered as the items were pushed."""

    priority: int
    segment: int
    ordinal: int

    @property
    def segment_key(self) -> str:
        return segment_key(self.priority, self.segment)

    def item_id(self, partition: int) -> str:
        return f"{partition}-{self.priority}-{self.segment}-{self.ordinal}"


@dataclass(frozen=True, slots=True)
class Taken:
    """An item that was delivered at least once and is still owed an answer."""

    place: Place
    deliveries: int
    error: str | None = None

    def to_json(self) -> list[Any]:
        tail = [] if self.error is None else [self.error]
        return [*self.place, self.deliveries, *tail]

    @classmethod
    def from_json(cls, value: list[Any]) -> Taken:
        priority, segment, ordinal, deliveries, *error = value
        return cls(Place(priority, segment, ordinal), deliveries, error[0] if error else None)


@dataclass(frozen=True, slots=True)
class Item:
    """An item as it is stored. The payload is JSON text: daprd would read its numbers as 64-bit floats."""

    text: str
    enqueued_at: float
    idempotency_key: str | None = None
    #: Of a dead letter: where it came from and why.
    origin: dict[str, Any] | None = None

    @property
    def size(self) -> int:
        # In bytes, as it is stored and sent.
        return 64 + (len(self.text) if self.text.isascii() else len(self.text.encode()))

    def to_json(self) -> dict[str, Any]:
        value: dict[str, Any] = {"item": self.text, "at": self.enqueued_at}
        if self.idempotency_key is not None:
            value["key"] = self.idempotency_key
        if self.origin is not None:
            value["origin"] = self.origin
        return value

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Item:
        return cls(value["item"], value["at"], value.get("key"), value.get("origin"))


@dataclass(frozen=True, slots=True)
class Delivery:
    """An item on its way to someone: what was pushed, and what is known of it."""

    taken: Taken
    item: Item

    def message(self, partition: int) -> dict[str, Any]:
        message: dict[str, Any] = {
            "id": self.taken.place.item_id(partition),
            "priority": self.taken.place.priority,
            "delivery_count": self.taken.deliveries,
            "enqueued_at": self.item.enqueued_at,
            "partition": partition,
        }
        if self.item.idempotency_key is not None:
            message["idempotency_key"] = self.item.idempotency_key
        if self.taken.error is not None:
            message["last_error"] = self.taken.error
        if self.item.origin is not None:
            message["dead_letter"] = self.item.origin
        return message


def segment_key(priority: int, segment: int) -> str:
    return f"segment-{priority}-{segment}"
