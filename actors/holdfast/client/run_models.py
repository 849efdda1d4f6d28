"""The values the client returns for orchestrations. Fields added by a newer server are ignored."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from holdfast.orchestration.core.failures import Failure

if TYPE_CHECKING:
    from collections.abc import Sequence

_ENDED = frozenset({"COMPLETED", "FAILED", "CANCELLED"})
_OF_EVERY_EVENT = frozenset({"seq", "type", "execution_id", "timestamp"})


@dataclass(frozen=True, slots=True)
class OrchestrationSummary:
    """An instance in a list of instances."""

    instance_id: str
    name: str
    #: PENDING, RUNNING, SUSPENDED, BLOCKED, COMPLETED, FAILED or CANCELLED.
    status: str
    created_at: datetime
    version: str
    tags: dict[str, str]
    ended_at: datetime | None
    #: What its code awaits. None if the list was not asked for it, or the instance could not be read.
    waiting_for: Sequence[Awaited] | None = None


@dataclass(frozen=True, slots=True)
class OrchestrationCounts:
    """The numbers of instances."""

    #: By status.
    counts: dict[str, int]
    #: By orchestration and status.
    by_name: dict[str, dict[str, int]]


@dataclass(frozen=True, slots=True)
class BulkResult:
    """The result of an action on all instances that match a filter."""

    matched: int
    done: int
    #: The ids of the instances for which it could not be done.
    failed: list[str]


@dataclass(frozen=True, slots=True)
class BlockReason:
    """Why an instance is BLOCKED."""

    #: ``non_determinism``, ``missing_orchestration``, ``missing_child``, ``missing_activity``, ``undeclared_mailbox``,
    #: ``undeclared_request``, ``unfit_value`` or ``never_yields``.
    kind: str
    message: str
    #: The step in the history, the step the code takes instead, and the line of code, if known.
    expected: str | None
    found: str | None
    line: str | None
    since: datetime
    #: Whether it becomes SUSPENDED, not RUNNING, when the code matches the history again.
    suspended: bool


@dataclass(frozen=True, slots=True)
class WouldBlock:
    """A running instance that the code to be deployed would block."""

    instance_id: str
    name: str
    version: str
    #: Its status now: PENDING, RUNNING, SUSPENDED or BLOCKED.
    status: str
    #: These are as in :class:`BlockReason`.
    kind: str
    message: str
    expected: str | None
    found: str | None
    line: str | None


@dataclass(frozen=True, slots=True)
class DeployCheck:
    """The result of a check of running instances against the code to be deployed."""

    #: The number of instances that have not ended, and how many of them were replayed.
    instances: int
    checked: int
    #: In the order of their ids.
    blocked: list[WouldBlock]
    #: The instances that could not be checked, and why.
    unchecked: dict[str, str]


@dataclass(frozen=True, slots=True)
class Awaited:
    """One thing that the code of an instance awaits."""

    #: ``activity``, ``timer``, ``event``, ``mailbox``, ``request`` or ``sub``.
    kind: str
    #: None for a timer.
    name: str | None
    since: datetime
    #: When a timer fires.
    due_at: datetime | None
    #: The event of the history that scheduled it; None for a mailbox or a request.
    scheduled_seq: int | None


@dataclass(frozen=True, slots=True)
class OrchestrationStatus:
    """The status of an instance."""

    instance_id: str
    name: str
    version: str
    #: PENDING, RUNNING, SUSPENDED, BLOCKED, COMPLETED, FAILED or CANCELLED.
    status: str
    #: Input and output are JSON values, as they are stored.
    input: Any
    output: Any
    error: Failure | None
    #: The reason given for the cancellation, if any.
    reason: str | None
    #: The value its code set last with ``ctx.set_status``.
    custom_status: Any
    tags: dict[str, str]
    #: The priority of its activities in their queues, unless a call has its own.
    priority: int
    #: Starts at 1; each ``continue_as_new`` adds 1.
    execution_id: int
    #: The number of events of the current execution.
    events: int
    created_at: datetime
    updated_at: datetime
    ended_at: datetime | None
    #: For a sub-orchestration, its parent: ``instance_id``, ``execution_id``, ``scheduled_seq``.
    parent: dict[str, Any] | None
    #: For a BLOCKED instance, why the deployed code cannot continue it.
    blocked: BlockReason | None = None
    #: What the code awaits, the oldest first; at most 20.
    waiting_for: Sequence[Awaited] = ()
    #: For a rerun, its source: ``instance_id``, ``execution_id``, ``from_seq``.
    rerun_of: dict[str, Any] | None = None
    #: The ids of the last 100 reruns of this instance.
    reruns: Sequence[str] = ()

    @property
    def ended(self) -> bool:
        return self.status in _ENDED


@dataclass(frozen=True, slots=True)
class HistoryEvent:
    """An event of an instance's history."""

    seq: int
    #: For example ``ActivityScheduled``.
    type: str
    execution_id: int
    timestamp: datetime
    #: The fields specific to this type: ``name``, ``input``, ``scheduled_seq``, …
    details: dict[str, Any]


def summary(answer: dict[str, Any]) -> OrchestrationSummary:
    waiting_for = answer.get("waiting_for")
    return OrchestrationSummary(
        instance_id=answer["instance_id"],
        name=answer["name"],
        status=answer["status"],
        created_at=_moment(answer["created_at"]),
        version=answer["version"],
        tags=answer["tags"],
        ended_at=None if answer["ended_at"] is None else _moment(answer["ended_at"]),
        waiting_for=None if waiting_for is None else [_awaited(one) for one in waiting_for],
    )


def bulk_sum(result: BulkResult, page: dict[str, Any]) -> BulkResult:
    """Adds the response for one page."""
    return BulkResult(result.matched + page["matched"], result.done + page["done"], [*result.failed, *page["failed"]])


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
        tags=answer.get("tags", {}),
        priority=answer.get("priority", 0),
        execution_id=answer["execution_id"],
        events=answer["events"],
        created_at=_moment(answer["created_at"]),
        updated_at=_moment(answer["updated_at"]),
        ended_at=None if answer["ended_at"] is None else _moment(answer["ended_at"]),
        parent=answer.get("parent"),
        blocked=None if answer.get("blocked") is None else _blocked(answer["blocked"]),
        waiting_for=[_awaited(one) for one in answer.get("waiting_for", ())],
        rerun_of=answer.get("rerun_of"),
        reruns=answer.get("reruns", ()),
    )


def _awaited(answer: dict[str, Any]) -> Awaited:
    due_at = answer.get("due_at")
    return Awaited(
        kind=answer["kind"],
        name=answer["name"],
        since=_moment(answer["since"]),
        due_at=None if due_at is None else _moment(due_at),
        scheduled_seq=answer["scheduled_seq"],
    )


def _blocked(answer: dict[str, Any]) -> BlockReason:
    texts = {name: answer[name] for name in ("kind", "message", "expected", "found", "line")}
    return BlockReason(**texts, since=_moment(answer["since"]), suspended=answer["suspended"])


def event(answer: dict[str, Any]) -> HistoryEvent:
    return HistoryEvent(
        answer["seq"],
        answer["type"],
        answer["execution_id"],
        _moment(answer["timestamp"]),
        {key: value for key, value in answer.items() if key not in _OF_EVERY_EVENT},
    )


def failure(answer: dict[str, Any]) -> Failure:
    return Failure.load(
        {key: answer[key] for key in ("type", "message", "kind", "traceback", "cause") if key in answer}
    )


def ended(answer: dict[str, Any]) -> bool:
    return answer["status"] in _ENDED


def _moment(iso: str) -> datetime:
    return datetime.fromisoformat(iso)
