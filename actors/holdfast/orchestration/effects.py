"""What others have to be told after an instance's new history is saved. Each may be sent twice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.orchestration.records import Parent, Record, load_record

if TYPE_CHECKING:
    from holdfast.orchestration.failures import Failure
    from holdfast.orchestration.history import ActivityScheduled, Json, SubOrchestrationScheduled


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect(Record):
    """Something to be told to somebody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunActivity(Effect):
    """To a worker, over the activity's queue."""

    execution_id: int
    scheduled_seq: int
    name: str
    input: Json
    queue: str
    attempt: int

    @classmethod
    def of(cls, event: ActivityScheduled) -> RunActivity:
        return cls(
            execution_id=event.execution_id,
            scheduled_seq=event.seq,
            name=event.name,
            input=event.input,
            queue=event.queue,
            attempt=event.attempt,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelActivity(Effect):
    """To whoever runs the activity: nobody waits for it any more."""

    execution_id: int
    scheduled_seq: int
    name: str
    queue: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StartSubOrchestration(Effect):
    """To the instance that is to begin."""

    execution_id: int
    scheduled_seq: int
    instance_id: str
    name: str
    input: Json
    version: str | None = None
    #: Whom it tells how it ended; none when it is detached.
    parent: Parent | None = None

    @classmethod
    def of(cls, event: SubOrchestrationScheduled, starter: str) -> StartSubOrchestration:
        parent = Parent(instance_id=starter, execution_id=event.execution_id, scheduled_seq=event.seq)
        return cls(
            execution_id=event.execution_id,
            scheduled_seq=event.seq,
            instance_id=event.instance_id,
            name=event.name,
            input=event.input,
            version=event.version,
            parent=None if event.detached else parent,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelSubOrchestration(Effect):
    """To a child that nobody waits for any more."""

    instance_id: str
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TellParent(Effect):
    """To the instance that waits for this one: how it ended."""

    parent: Parent
    result: Json | None = None
    error: Failure | None = None


_TYPES: dict[str, type[Effect]] = {
    kind.__name__: kind
    for kind in (RunActivity, CancelActivity, StartSubOrchestration, CancelSubOrchestration, TellParent)
}


def load_effect(dumped: dict[str, Any]) -> Effect:
    return load_record(_TYPES, dumped)
