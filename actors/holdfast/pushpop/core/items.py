"""Items: their places, their ids, and their delivery state."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, NamedTuple

# No counter in an id has more digits than this.
_ITEM_ID = re.compile(r"(\d{1,15})-(\d{1,15})-(d?)(\d{1,15})-(\d{1,15})\Z", re.ASCII)
# Marks a lane's entry as withdrawn while a transfer still needs its payload.
WITHDRAWN = "removed"
_LOCK_PARTITION = re.compile(r"(\d{1,5})\.", re.ASCII)


class Place(NamedTuple):
    """The position of an item in its lane. Positions of one priority are ordered by when the items became available."""

    priority: int
    segment: int
    ordinal: int

    @property
    def key(self) -> str:
        return segment_key(self.priority, self.segment)

    def item_id(self, partition: int) -> str:
        """Returns the id of the item that was pushed to this place."""
        return f"{partition}-{self.priority}-{self.segment}-{self.ordinal}"


class DelayedPlace(NamedTuple):
    """The position of an item that was pushed with a delay; its lane refers to it."""

    file: int
    ordinal: int

    @property
    def key(self) -> str:
        return delayed_key(self.file)


class ItemId(NamedTuple):
    """The parts of an item's id: its partition, and the place where it was first stored there."""

    partition: int
    priority: int
    delayed: bool
    container: int
    ordinal: int

    def __str__(self) -> str:
        return f"{self.partition}-{self.priority}-{'d' * self.delayed}{self.container}-{self.ordinal}"

    @classmethod
    def parse(cls, text: str) -> ItemId | None:
        """Returns the parsed id, or None if the text is not an item's id."""
        found = _ITEM_ID.match(text)
        if found is None:
            return None
        partition, priority, delayed, container, ordinal = found.groups()
        parsed = cls(int(partition), int(priority), bool(delayed), int(container), int(ordinal))
        return parsed if str(parsed) == text else None


def partition_of(item_id: str) -> int | None:
    """Returns the partition in an item's id, or None if the text is not an item's id."""
    parsed = ItemId.parse(item_id)
    return None if parsed is None else parsed.partition


def lock_prefix(partition: int) -> str:
    """Returns the prefix of a partition's lock ids, by which callers find the partition."""
    return f"{partition}." if partition else ""


def with_owner(lock_id: str, owner: str) -> str:
    """Returns the lock id with its owner tag in it."""
    partition, dot, secret = lock_id.rpartition(".")
    return f"{partition}{dot}{owner}~{secret}"


def lock_owner(lock_id: str) -> str | None:
    """Returns the owner tag that the consumer gave this lock, if any."""
    owner, sign, _ = lock_id.rpartition(".")[2].rpartition("~")
    return owner if sign else None


def public_part(lock_id: str) -> int:
    """Returns where the secret part of a lock's id begins, after its partition and its owner tag."""
    return max(lock_id.rfind("."), lock_id.rfind("~")) + 1


def partition_of_lock(lock_id: str) -> int:
    found = _LOCK_PARTITION.match(lock_id)
    return int(found[1]) if found else 0


@dataclass(frozen=True, slots=True)
class Delivered:
    """An item that is out of its lane's order, with the number of its deliveries and its last error."""

    place: Place
    deliveries: int
    error: str | None = None
    shelved: DelayedPlace | None = None
    #: The item's size in bytes.
    size: int = 0

    @property
    def keys(self) -> tuple[str, ...]:
        """The state values that hold it."""
        return (self.place.key,) if self.shelved is None else (self.place.key, self.shelved.key)

    def item_id(self, partition: int) -> str:
        if self.shelved is None:
            return self.place.item_id(partition)
        return str(ItemId(partition, self.place.priority, True, *self.shelved))

    def to_json(self, *, with_error: bool = True) -> list[Any]:
        error = self.error if with_error else None
        if self.shelved is not None:
            return [*self.place, self.deliveries, self.size, error, *self.shelved]
        start = [*self.place, self.deliveries, self.size]
        return start if error is None else [*start, error]

    @classmethod
    def from_json(cls, value: list[Any]) -> Delivered:
        priority, segment, ordinal, deliveries, size, *more = value
        shelved = DelayedPlace(more[1], more[2]) if len(more) > 1 else None
        return cls(Place(priority, segment, ordinal), deliveries, more[0] if more else None, shelved, size)


def size_of(text: object) -> int:
    """Returns the bytes of an item with this payload, as it is stored and sent."""
    if not isinstance(text, str):
        return 64  # damaged; reading the item raises the error
    return 64 + (len(text) if text.isascii() else len(text.encode()))


@dataclass(frozen=True, slots=True)
class Item:
    """An item as it is stored. The payload is JSON text: daprd would read its numbers as 64-bit floats."""

    text: str
    enqueued_at: float
    idempotency_key: str | None = None
    dedup_id: str | None = None
    #: When it expires, if ever.
    expires_at: float | None = None
    #: When its delay ends, if it was pushed with one.
    due_at: float | None = None
    #: For a dead letter, where it came from and why.
    origin: dict[str, Any] | None = None
    #: The tenant it is for, if that is not the queue's own.
    tenant_id: str | None = None
    #: The trace context it was pushed with.
    traceparent: str | None = None

    @property
    def size(self) -> int:
        return size_of(self.text)

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
    ("trace", "traceparent"),
)


@dataclass(frozen=True, slots=True)
class Pushed:
    """An item to be pushed."""

    priority: int
    text: str
    idempotency_key: str | None = None
    dedup_id: str | None = None
    delay_seconds: float = 0.0
    ttl_seconds: int | None = None
    tenant_id: str | None = None
    traceparent: str | None = None

    def item(self, now: float, default_ttl: int | None, due_at: float | None = None) -> Item:
        ttl = default_ttl if self.ttl_seconds is None else self.ttl_seconds
        return Item(
            self.text,
            now,
            self.idempotency_key,
            self.dedup_id,
            # The time to live starts when the item becomes available.
            None if ttl is None else (due_at or now) + ttl,
            due_at,
            tenant_id=self.tenant_id,
            traceparent=self.traceparent,
        )


@dataclass(frozen=True, slots=True)
class Delivery:
    """An item with its payload and its delivery state, as a consumer gets it."""

    taken: Delivered
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
        if self.item.traceparent is not None:
            message["traceparent"] = self.item.traceparent
        if self.taken.error is not None:
            message["last_error"] = self.taken.error
        if self.item.origin is not None:
            message["dead_letter"] = self.item.origin
        return message


def segment_key(priority: int, segment: int) -> str:
    return f"segment-{priority}-{segment}"


def delayed_key(file: int) -> str:
    return f"delayed-{file}"


def waiting_at(place: Place, entry: dict[str, Any] | None) -> Delivered | None:
    """Returns the undelivered item at a place of a lane, or None for a gap."""
    if entry is None or WITHDRAWN in entry:
        return None
    if "shelved" in entry:
        return Delivered(place, 0, None, DelayedPlace(*entry["shelved"]), entry["size"])
    return Delivered(place, 0, size=size_of(entry["item"]))


def has_expired(expires_at: float | None, now: float) -> bool:
    return expires_at is not None and expires_at <= now
