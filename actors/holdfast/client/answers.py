"""What the client gives its callers. Fields that a newer server adds are passed over."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class Message:
    """An item, and what Holdfast knows of it."""

    item: Any
    id: str
    priority: int
    #: 1 the first time; 0 when it was only looked at and never delivered.
    delivery_count: int
    enqueued_at: datetime
    partition: int
    #: By which it was known to be pushed once only.
    dedup_id: str | None = None
    #: By which its consumers tell repetitions.
    idempotency_key: str | None = None
    #: What the one before said when it gave the item back.
    last_error: str | None = None
    #: Of a dead letter: where it came from and why.
    dead_letter: dict[str, Any] | None = None
    #: On whose behalf it was pushed, when that was said.
    tenant_id: str | None = None


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """What could not be done: where it came from, how often it was tried, and why it was given up."""

    item: Any
    #: In the dead-letter queue; what :meth:`Queue.redrive` takes.
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
    completed: int
    #: Ids that stand for nothing, or for what was completed before.
    ignored: int


@dataclass(frozen=True, slots=True)
class LockInfo:
    """A lock as others see it: enough of its id to tell it from others, not enough to use it."""

    lock_id_prefix: str
    count: int
    expires_at: datetime
    #: What is locked; empty where only the locks were asked for.
    messages: tuple[Message, ...] = ()


@dataclass(frozen=True, slots=True)
class QueueSummary:
    queue: str
    #: What could be popped now or later; locked items are not counted.
    count: int | None
    locked: int | None
    #: None also when only the dead-letter queue is damaged.
    dead_letters: int | None
    #: ``STORAGE_BROKEN`` of a queue that is damaged, and has no figures then.
    error: str | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class QueueStats(QueueSummary):
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
    )
