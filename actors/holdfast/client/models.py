"""The values the client returns for queues. Fields added by a newer server are ignored."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class Message:
    """An item with its metadata."""

    item: Any
    id: str
    priority: int
    #: 1 on the first delivery; 0 for a message that was peeked and never delivered.
    delivery_count: int
    enqueued_at: datetime
    partition: int
    #: The id it was pushed with so that it is stored once.
    dedup_id: str | None = None
    #: The key by which consumers detect that it was handled before.
    idempotency_key: str | None = None
    #: The error the previous consumer gave when it abandoned the item.
    last_error: str | None = None
    #: For a dead letter: its original queue and the reason.
    dead_letter: dict[str, Any] | None = None
    #: The tenant it was pushed for, if one was given.
    tenant_id: str | None = None
    #: The W3C trace context it was pushed with, if any.
    traceparent: str | None = None


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """An item that could not be handled: its original queue, the number of deliveries and the reason."""

    item: Any
    #: Its id in the dead-letter queue, as :meth:`Queue.redrive` takes it.
    id: str
    reason: str | None
    attempts: int
    last_error: str | None
    original_queue: str
    original_partition: int
    original_id: str
    tenant_id: str | None
    idempotency_key: str | None
    dead_lettered_at: datetime


@dataclass(frozen=True, slots=True)
class Completion:
    """The counts returned by :meth:`Queue.complete`."""

    completed: int
    #: Ids that are unknown or were completed before.
    ignored: int


@dataclass(frozen=True, slots=True)
class LockInfo:
    """A lock as other callers see it: a prefix of its id identifies it, but does not allow to acknowledge it."""

    lock_id_prefix: str
    count: int
    expires_at: datetime
    #: The locked messages; empty in :class:`QueueStats`.
    messages: tuple[Message, ...] = ()


@dataclass(frozen=True, slots=True)
class QueueSummary:
    """A queue in a list of queues."""

    queue: str
    #: Items that can be popped now or later, without locked items.
    count: int | None
    locked: int | None
    #: None also when only the dead-letter queue is damaged.
    dead_letters: int | None
    #: ``STORAGE_BROKEN`` for a damaged queue, which has no figures.
    error: str | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class QueueStats(QueueSummary):
    """The statistics and configuration of one queue."""

    count: int
    locked: int
    dead_letters: int
    priorities: dict[int, int]
    delayed: int
    oldest_age_seconds: float | None
    locks: tuple[LockInfo, ...]
    counters: dict[str, int]
    config: dict[str, Any]


def messages(answer: dict[str, Any]) -> list[Message]:
    return [_message(item, known) for item, known in zip(answer["items"], answer["messages"], strict=True)]


def lock_info(answer: dict[str, Any]) -> LockInfo:
    return LockInfo(
        answer["lock_id_prefix"],
        answer["count"],
        datetime.fromisoformat(answer["expires_at"]),
        tuple(messages(answer)) if "messages" in answer else (),
    )


def dead_letter(answer: dict[str, Any]) -> DeadLetter:
    return DeadLetter(
        item=answer["item"],
        id=answer["id"],
        reason=answer["reason"],
        attempts=answer["attempts"],
        last_error=answer["last_error"],
        original_queue=answer["original_queue"],
        original_partition=answer["original_partition"],
        original_id=answer["original_id"],
        tenant_id=answer["tenant_id"],
        idempotency_key=answer["idempotency_key"],
        dead_lettered_at=datetime.fromisoformat(answer["dead_lettered_at"]),
    )


def summary(answer: dict[str, Any]) -> QueueSummary:
    figures = (answer.get(key) for key in ("count", "locked", "dead_letters"))
    return QueueSummary(answer["queue"], *figures, error=answer.get("error"))


def stats(answer: dict[str, Any]) -> QueueStats:
    return QueueStats(
        queue=answer["queue"],
        count=answer["count"],
        locked=answer["locked"],
        dead_letters=answer["dead_letters"],
        priorities={int(priority): count for priority, count in answer["priorities"].items()},
        delayed=answer["delayed"],
        oldest_age_seconds=answer["oldest_age_seconds"],
        locks=tuple(lock_info(lock) for lock in answer["locks"]),
        counters=answer["counters"],
        config=answer["config"],
    )


def _message(item: Any, known: dict[str, Any]) -> Message:
    return Message(
        item,
        known["id"],
        known["priority"],
        known["delivery_count"],
        datetime.fromisoformat(known["enqueued_at"]),
        known["partition"],
        known.get("dedup_id"),
        known.get("idempotency_key"),
        known.get("last_error"),
        known.get("dead_letter"),
        known.get("tenant_id"),
        known.get("traceparent"),
    )
