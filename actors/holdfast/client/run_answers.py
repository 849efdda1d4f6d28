"""What the client tells of orchestrations. Fields that a newer server adds are passed over."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from holdfast.orchestration.failures import Failure

_ENDED = frozenset({"COMPLETED", "FAILED", "CANCELLED"})
_OF_EVERY_EVENT = frozenset({"seq", "type", "execution_id", "timestamp"})


@dataclass(frozen=True, slots=True)
class OrchestrationSummary:
    """An instance, as a list shows it."""

    instance_id: str
    name: str
    #: PENDING, RUNNING, SUSPENDED, COMPLETED, FAILED or CANCELLED.
    status: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class OrchestrationStatus:
    """How an instance stands."""

    instance_id: str
    name: str
    version: str
    #: PENDING, RUNNING, SUSPENDED, COMPLETED, FAILED or CANCELLED.
    status: str
    #: JSON values, as they are kept.
    input: Any
    output: Any
    error: Failure | None
    #: Why it was cancelled, if somebody said so.
    reason: str | None
    #: What its code set last with ``ctx.set_status``.
    custom_status: Any
    #: 1, and one more after each ``continue_as_new``.
    execution_id: int
    #: How many events its present execution has.
    events: int
    created_at: datetime
    updated_at: datetime
    ended_at: datetime | None
    #: Whose sub-orchestration it is: ``instance_id``, ``execution_id``, ``scheduled_seq``.
    parent: dict[str, Any] | None

    @property
    def ended(self) -> bool:
        return self.status in _ENDED


@dataclass(frozen=True, slots=True)
class HistoryEvent:
    """Something that happened to an instance."""

    seq: int
    #: As in ``ActivityScheduled``.
    type: str
    execution_id: int
    timestamp: datetime
    #: What events of this type have beside that: ``name``, ``input``, ``scheduled_seq``, …
    details: dict[str, Any]


def summary(answer: dict[str, Any]) -> OrchestrationSummary:
    return OrchestrationSummary(answer["instance_id"], answer["name"], answer["status"], _moment(answer["created_at"]))


def status(answer: dict[str, Any]) -> OrchestrationStatus:
    return OrchestrationStatus(
        instance_id=answer["instance_id"],
        name=answer["name"],
        version=answer["version"],
        status=answer["status"],
        input=answer["input"],
        output=answer["output"],
        error=None if answer["error"] is None else failure(answer["error"]),
        reason=answer.get("reason"),
        custom_status=answer["custom_status"],
        execution_id=answer["execution_id"],
        events=answer["events"],
        created_at=_moment(answer["created_at"]),
        updated_at=_moment(answer["updated_at"]),
        ended_at=None if answer["ended_at"] is None else _moment(answer["ended_at"]),
        parent=answer.get("parent"),
    )


def event(answer: dict[str, Any]) -> HistoryEvent:
    return HistoryEvent(
        answer["seq"],
        answer["type"],
        answer["execution_id"],
        _moment(answer["timestamp"]),
        {key: value for key, value in answer.items() if key not in _OF_EVERY_EVENT},
    )


def failure(answer: dict[str, Any]) -> Failure:
    return Failure(type=answer["type"], message=answer["message"], kind=answer["kind"])


def ended(answer: dict[str, Any]) -> bool:
    return answer["status"] in _ENDED


def _moment(iso: str) -> datetime:
    return datetime.fromisoformat(iso)
