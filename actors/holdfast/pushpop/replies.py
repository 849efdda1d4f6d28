"""What a queue answers: the same JSON objects by REST and by actor call."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.errors import HoldfastError
    from holdfast.pushpop.holdings import Lock
    from holdfast.pushpop.items import Delivery

# An operator may see which lock it is, but not use it.
PREFIX_LENGTH = 4


def pushed(ids: Sequence[str]) -> dict[str, Any]:
    return {"success": True, "count": len(ids), "ids": list(ids)}


def popped(deliveries: Sequence[Delivery], partition: int, lock: Lock | None = None) -> dict[str, Any]:
    body = _items(deliveries, partition)
    if lock is not None:
        body |= {"locked": True, "lock_id": lock.lock_id, "lock_expires_at": lock.expires_at}
    return body


def peeked(deliveries: Sequence[Delivery], partition: int) -> dict[str, Any]:
    return _items(deliveries, partition)


def answered(what: str, count: int) -> dict[str, Any]:
    return {
        "success": True,
        "message": f"{count} item{'' if count == 1 else 's'} {what}",
        "items_acknowledged": count,
    }


def in_flight(locks: Sequence[tuple[Lock, Sequence[Delivery]]], partition: int) -> dict[str, Any]:
    return {"locks": [_items(deliveries, partition) | lock_shown(lock) for lock, deliveries in locks]}


def lock_shown(lock: Lock) -> dict[str, Any]:
    return {
        "lock_id_prefix": lock.lock_id[:PREFIX_LENGTH],
        "count": len(lock.taken),
        "expires_at": iso(lock.expires_at),
    }


def refused(error: HoldfastError) -> dict[str, Any]:
    """A refusal inside a successful actor call."""
    body = {"success": False, "message": error.message, "error_code": error.code, **error.details}
    if error.code == "QUEUE_LOCKED":
        body |= {"items": [], "count": 0, "locked": True}
    return body


def iso(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _items(deliveries: Sequence[Delivery], partition: int) -> dict[str, Any]:
    messages = []
    for delivery in deliveries:
        message = delivery.message(partition)
        message["enqueued_at"] = iso(message["enqueued_at"])
        if origin := message.get("dead_letter"):
            message["dead_letter"] = origin | {"dead_lettered_at": iso(origin["dead_lettered_at"])}
        messages.append(message)
    return {
        # As it was pushed, without reading it again.
        "items": [orjson.Fragment(delivery.item.text) for delivery in deliveries],
        "count": len(deliveries),
        "messages": messages,
    }
