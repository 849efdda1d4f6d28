"""Replies of a queue: the same JSON objects for REST and actor calls."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import orjson

from holdfast.errors import NotLeased
from holdfast.pushpop.core.items import public_part

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.errors import HoldfastError
    from holdfast.pushpop.core.in_flight import Lock
    from holdfast.pushpop.core.items import Delivery, Place
    from holdfast.pushpop.core.queue import Completion

# An operator may identify a lock by this prefix, but cannot use the lock with it.
PREFIX_LENGTH = 6


def pushed(ids: Sequence[str], count: int) -> dict[str, Any]:
    return {"success": True, "count": count, "ids": list(ids)}


def popped(deliveries: Sequence[Delivery], partition: int, lock: Lock | None = None) -> dict[str, Any]:
    body = _items(deliveries, partition)
    if lock is not None:
        body |= {"locked": True, "lock_id": lock.lock_id, "lock_expires_at": lock.expires_at}
    return body


def paused(partition: int) -> dict[str, Any]:
    """Returns the reply to a pop from a paused queue."""
    return _items((), partition) | {"paused": True}


def peeked(deliveries: Sequence[Delivery], partition: int) -> dict[str, Any]:
    return _items(deliveries, partition)


def answered(what: str, count: int) -> dict[str, Any]:
    return {
        "success": True,
        "message": f"{count} item{'' if count == 1 else 's'} {what}",
        "items_acknowledged": count,
    }


def given_back(count: int, dead_lettered: int) -> dict[str, Any]:
    """Returns the reply to an abandon; items with exhausted deliveries were dead-lettered instead."""
    if not dead_lettered:
        return answered("abandoned", count)
    answer = answered("abandoned", count) | {"dead_lettered": dead_lettered}
    return answer | {"message": f"{count - dead_lettered} of {count} items abandoned, {dead_lettered} dead-lettered"}


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
    """Returns the part of a lock's id that may be shown to everyone."""
    return lock.lock_id[: public_part(lock.lock_id) + PREFIX_LENGTH]


def lock_shown(lock: Lock) -> dict[str, Any]:
    return {
        "lock_id_prefix": shown_id(lock),
        "count": len(lock.taken),
        "expires_at": iso(lock.expires_at),
    }


def refused(error: HoldfastError) -> dict[str, Any]:
    """Returns the body of a refusal; the actor call itself succeeds."""
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
        # The text as it was pushed, without parsing it again.
        "items": [orjson.Fragment(delivery.item.text) for delivery in deliveries],
        "count": len(deliveries),
        "messages": messages,
    }
