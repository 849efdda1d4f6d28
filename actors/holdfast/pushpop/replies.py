"""What a queue answers: the same JSON objects by REST and by actor call."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import orjson

from holdfast.errors import NotLeased
from holdfast.pushpop.items import shown_from

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.errors import HoldfastError
    from holdfast.pushpop.core import Completion
    from holdfast.pushpop.holdings import Lock
    from holdfast.pushpop.items import Delivery, Place

# An operator may see which lock it is, but not use it.
PREFIX_LENGTH = 6


def pushed(ids: Sequence[str], count: int) -> dict[str, Any]:
    return {"success": True, "count": count, "ids": list(ids)}


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


def given_back(count: int, dead_lettered: int) -> dict[str, Any]:
    """Some may have been delivered once too often for that."""
    if not dead_lettered:
        return answered("given back", count)
    answer = answered("given back", count) | {"dead_lettered": dead_lettered}
    return answer | {"message": f"{count - dead_lettered} of {count} items given back, {dead_lettered} dead-lettered"}


def in_flight(locks: Sequence[tuple[Lock, Sequence[Delivery]]], partition: int) -> dict[str, Any]:
    return {"locks": [_items(deliveries, partition) | lock_shown(lock) for lock, deliveries in locks]}


def completed(outcome: Completion) -> dict[str, Any]:
    counts: dict[str, Any] = {"completed": outcome.completed, "ignored": outcome.ignored}
    if outcome.not_leased:
        return refused(NotLeased(not_leased=outcome.not_leased, **counts))
    return {"success": True} | counts


def dead_letters(deliveries: Sequence[Delivery], partition: int, after: Place | None) -> dict[str, Any]:
    letters = []
    for delivery in deliveries:
        origin = delivery.item.origin or {}
        letters.append(
            {"id": delivery.taken.item_id(partition), "item": orjson.Fragment(delivery.item.text)}
            | origin
            | {"dead_lettered_at": iso(origin["dead_lettered_at"])}
        )
    answer: dict[str, Any] = {"dead_letters": letters}
    return answer if after is None else answer | {"next_cursor": cursor(after)}


def cursor(place: Place) -> str:
    return "-".join(map(str, place))


def shown_id(lock: Lock) -> str:
    """As much of a lock's id as everybody may see."""
    return lock.lock_id[: shown_from(lock.lock_id) + PREFIX_LENGTH]


def lock_shown(lock: Lock) -> dict[str, Any]:
    return {
        "lock_id_prefix": shown_id(lock),
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
