"""The state of a modelled queue, and its refusals."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any


@dataclass(order=True, slots=True)
class Item:
    """Sorts as it is to be taken: by priority, then by when it became available."""

    priority: int
    number: int
    id: str = field(compare=False)
    payload: Any = field(compare=False)
    enqueued_at: float = field(compare=False)
    #: When it falls due, and when it expires; None when it does not.
    due: float | None = field(compare=False, default=None)
    until: float | None = field(compare=False, default=None)
    dedup_id: str | None = field(compare=False, default=None)
    idempotency_key: str | None = field(compare=False, default=None)
    tenant_id: str | None = field(compare=False, default=None)
    deliveries: int = field(compare=False, default=0)
    error: str | None = field(compare=False, default=None)
    #: Of a dead letter, where it came from.
    origin: dict[str, Any] | None = field(compare=False, default=None)
    #: Whether it expired while it was locked. If the clock is set back before its return, the time of the
    #: next check is unknown.
    overlooked: bool = field(compare=False, default=False)

    def expired(self, now: float) -> bool:
        return self.until is not None and self.until <= now

    def message(self, partition: int) -> dict[str, Any]:
        message = {
            "id": self.id,
            "priority": self.priority,
            "delivery_count": self.deliveries,
            "enqueued_at": iso(self.enqueued_at),
            "partition": partition,
        }
        optional = {
            "dedup_id": self.dedup_id,
            "idempotency_key": self.idempotency_key,
            "tenant_id": self.tenant_id,
            "last_error": self.error,
        }
        message |= {key: value for key, value in optional.items() if value is not None}
        if self.origin is not None:
            message["dead_letter"] = origin_shown(self.origin)
        return message


@dataclass(slots=True)
class Lock:
    id: str
    items: list[Item]
    expires_at: float


@dataclass(slots=True)
class Group:
    """Given back with a delay."""

    items: list[Item]
    due: float


@dataclass(slots=True)
class Sent:
    """On its way to another queue: as a dead letter, or back to where it came from."""

    item: Item
    target: str
    origin: dict[str, Any] | None


@dataclass(slots=True)
class Remembered:
    """A dedup id."""

    value: Any
    at: float
    #: Whether its window was over once: it may have been forgotten, even if the window grows or the clock goes back.
    lapsed: bool = False


class Refused(Exception):
    def __init__(self, code: str, **details: Any) -> None:
        self.answer: dict[str, Any] = {"success": False, "error_code": code, **details}


def origin_shown(origin: dict[str, Any]) -> dict[str, Any]:
    return origin | {"dead_lettered_at": iso(origin["dead_lettered_at"])}


def iso(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
