"""Where an item lies, what its id is, and what is known of it once it has been taken out of its lane."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, NamedTuple

# No number in an id is longer than what a counter can reach.
_ITEM_ID = re.compile(r"(\d{1,15})-(\d{1,15})-(d?)(\d{1,15})-(\d{1,15})\Z", re.ASCII)
_LOCK_PARTITION = re.compile(r"(\d{1,5})\.", re.ASCII)


class Place(NamedTuple):
    """Where an item lies in its lane. Places of one priority are ordered as the items became available."""

    priority: int
    segment: int
    ordinal: int

    @property
    def key(self) -> str:
        return segment_key(self.priority, self.segment)

    def item_id(self, partition: int) -> str:
        """Of an item that was pushed to this place."""
        return f"{partition}-{self.priority}-{self.segment}-{self.ordinal}"


class Shelved(NamedTuple):
    """Where an item lies that was pushed with a delay; its lane only refers to it."""

    file: int
    ordinal: int

    @property
    def key(self) -> str:
        return shelf_key(self.file)


class ItemId(NamedTuple):
    """What an id says: which partition has the item, and where it was first put there."""

    partition: int
    priority: int
    delayed: bool
    container: int
    ordinal: int

    def __str__(self) -> str:
        return f"{self.partition}-{self.priority}-{'d' * self.delayed}{self.container}-{self.ordinal}"

    @classmethod
    def parse(cls, text: str) -> ItemId | None:
        """None when it is not the id of any item."""
        found = _ITEM_ID.match(text)
        if found is None:
            return None
        partition, priority, delayed, container, ordinal = found.groups()
        parsed = cls(int(partition), int(priority), bool(delayed), int(container), int(ordinal))
        return parsed if str(parsed) == text else None


def partition_of(item_id: str) -> int | None:
    """Which partition an item is in; None when there is no such item."""
    parsed = ItemId.parse(item_id)
    return None if parsed is None else parsed.partition


def lock_prefix(partition: int) -> str:
    """What the ids of a partition's locks begin with, so that whoever has one finds the partition."""
    return f"{partition}." if partition else ""


def marked(lock_id: str, mark: str) -> str:
    """The id with a mark that those who took the lock know it by."""
    partition, dot, secret = lock_id.rpartition(".")
    return f"{partition}{dot}{mark}~{secret}"


def lock_mark(lock_id: str) -> str | None:
    """What whoever took the lock wanted it to be known by."""
    mark, sign, _ = lock_id.rpartition(".")[2].rpartition("~")
    return mark if sign else None


def shown_from(lock_id: str) -> int:
    """Where the part of a lock's id begins that is its own: after its partition and its mark."""
    return max(lock_id.rfind("."), lock_id.rfind("~")) + 1


def partition_of_lock(lock_id: str) -> int:
    found = _LOCK_PARTITION.match(lock_id)
    return int(found[1]) if found else 0


@dataclass(frozen=True, slots=True)
class Taken:
    """An item that is out of its lane's order: delivered and still owed an answer, or on its way elsewhere."""

    place: Place
    deliveries: int
    error: str | None = None
    shelved: Shelved | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        """The state values it lies in."""
        return (self.place.key,) if self.shelved is None else (self.place.key, self.shelved.key)

    def item_id(self, partition: int) -> str:
        if self.shelved is None:
            return self.place.item_id(partition)
        return str(ItemId(partition, self.place.priority, True, *self.shelved))

    def to_json(self, *, with_error: bool = True) -> list[Any]:
        error = self.error if with_error else None
        if self.shelved is not None:
            return [*self.place, self.deliveries, error, *self.shelved]
        return [*self.place, self.deliveries] if error is None else [*self.place, self.deliveries, error]

    @classmethod
    def from_json(cls, value: list[Any]) -> Taken:
        priority, segment, ordinal, deliveries, *more = value
        shelved = Shelved(more[1], more[2]) if len(more) > 1 else None
        return cls(Place(priority, segment, ordinal), deliveries, more[0] if more else None, shelved)


@dataclass(frozen=True, slots=True)
class Item:
    """An item as it is stored. The payload is JSON text: daprd would read its numbers as 64-bit floats."""

    text: str
    enqueued_at: float
    idempotency_key: str | None = None
    dedup_id: str | None = None
    #: After this nobody wants it any more.
    expires_at: float | None = None
    #: Of one that was pushed with a delay: when that ends.
    due_at: float | None = None
    #: Of a dead letter: where it came from and why.
    origin: dict[str, Any] | None = None
    #: On whose behalf it was pushed, when that is not whose queue it is.
    tenant_id: str | None = None

    @property
    def size(self) -> int:
        # In bytes, as it is stored and sent.
        return 64 + (len(self.text) if self.text.isascii() else len(self.text.encode()))

    def to_json(self) -> dict[str, Any]:
        value: dict[str, Any] = {"item": self.text, "at": self.enqueued_at}
        for key, field in _STORED:
            if (stored := getattr(self, field)) is not None:
                value[key] = stored
        return value

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Item:
        if len(value) == 2:
            return cls(value["item"], value["at"])
        return cls(value["item"], value["at"], **{field: value.get(key) for key, field in _STORED})


_STORED = (
    ("key", "idempotency_key"),
    ("dedup", "dedup_id"),
    ("until", "expires_at"),
    ("due", "due_at"),
    ("origin", "origin"),
    ("tenant", "tenant_id"),
)


@dataclass(frozen=True, slots=True)
class Pushed:
    """What somebody wants to put into a queue."""

    priority: int
    text: str
    idempotency_key: str | None = None
    dedup_id: str | None = None
    delay_seconds: float = 0.0
    ttl_seconds: int | None = None
    tenant_id: str | None = None

    def item(self, now: float, default_ttl: int | None, due_at: float | None = None) -> Item:
        ttl = default_ttl if self.ttl_seconds is None else self.ttl_seconds
        return Item(
            self.text,
            now,
            self.idempotency_key,
            self.dedup_id,
            # Its time runs from when it can be taken.
            None if ttl is None else (due_at or now) + ttl,
            due_at,
            tenant_id=self.tenant_id,
        )


@dataclass(frozen=True, slots=True)
class Delivery:
    """An item on its way to someone: what was pushed, and what is known of it."""

    taken: Taken
    item: Item

    def message(self, partition: int) -> dict[str, Any]:
        message: dict[str, Any] = {
            "id": self.taken.item_id(partition),
            "priority": self.taken.place.priority,
            "delivery_count": self.taken.deliveries,
            "enqueued_at": self.item.enqueued_at,
            "partition": partition,
        }
        if self.item.dedup_id is not None:
            message["dedup_id"] = self.item.dedup_id
        if self.item.idempotency_key is not None:
            message["idempotency_key"] = self.item.idempotency_key
        if self.item.tenant_id is not None:
            message["tenant_id"] = self.item.tenant_id
        if self.taken.error is not None:
            message["last_error"] = self.taken.error
        if self.item.origin is not None:
            message["dead_letter"] = self.item.origin
        return message


def segment_key(priority: int, segment: int) -> str:
    return f"segment-{priority}-{segment}"


def shelf_key(file: int) -> str:
    return f"shelf-{file}"
