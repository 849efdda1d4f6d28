"""Effects: messages that an instance sends after its new history is saved. Each may be sent twice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.orchestration.core.json_records import JsonRecord, Parent, load_record

if TYPE_CHECKING:
    from holdfast.orchestration.core.failures import Failure
    from holdfast.orchestration.core.history import ActivityScheduled, Json, SubOrchestrationScheduled


#: The value of ``on_parent_end`` of children that go on without their parent.
ABANDON = "abandon"


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect(JsonRecord):
    """The base class of effects."""

    @property
    def target(self) -> str | None:
        """The queue or the instance that the effect is sent to; None when it is not sent."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunActivity(Effect):
    """Pushes an activity onto its queue."""

    execution_id: int
    scheduled_seq: int
    name: str
    input: Json
    queue: str
    attempt: int
    priority: int | None = None
    heartbeat_details: Json | None = None

    @property
    def target(self) -> str:
        return f"queue {self.queue}"

    @classmethod
    def of(cls, event: ActivityScheduled) -> RunActivity:
        return cls(
            execution_id=event.execution_id,
            scheduled_seq=event.seq,
            name=event.name,
            input=event.input,
            queue=event.queue,
            attempt=event.attempt,
            priority=event.priority,
            heartbeat_details=event.heartbeat_details,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelActivity(Effect):
    """Tells the worker of an activity that its result is no longer needed."""

    execution_id: int
    scheduled_seq: int
    name: str
    queue: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StartSubOrchestration(Effect):
    """Starts a child."""

    execution_id: int
    scheduled_seq: int
    instance_id: str
    name: str
    input: Json
    version: str | None = None
    #: The instance the child reports its outcome to; None for a detached child.
    parent: Parent | None = None
    #: ``abandon`` when the child is started also if its parent has ended meanwhile.
    on_parent_end: str | None = None

    @property
    def target(self) -> str:
        return f"instance {self.instance_id}"

    @property
    def is_for_good(self) -> bool:
        """Whether the child goes on without this instance, so that it is started whatever has become of its call."""
        return self.parent is None or self.on_parent_end == ABANDON

    @classmethod
    def of(cls, event: SubOrchestrationScheduled, starter: str, incarnation: str) -> StartSubOrchestration:
        return cls(
            execution_id=event.execution_id,
            scheduled_seq=event.seq,
            instance_id=event.instance_id,
            name=event.name,
            input=event.input,
            version=event.version,
            parent=None if event.detached else _parent(event, starter, incarnation),
            on_parent_end=event.on_parent_end,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelSubOrchestration(Effect):
    """Cancels a child whose parent no longer waits for it."""

    instance_id: str
    #: The parent as recorded by the child. An instance with a different parent, or none, is not the child.
    parent: Parent
    reason: str | None = None

    @property
    def target(self) -> str:
        return f"instance {self.instance_id}"

    @classmethod
    def of(
        cls, event: SubOrchestrationScheduled, starter: str, incarnation: str, reason: str | None
    ) -> CancelSubOrchestration:
        return cls(instance_id=event.instance_id, parent=_parent(event, starter, incarnation), reason=reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyParent(Effect):
    """Reports the outcome of this instance to its parent."""

    parent: Parent
    result: Json | None = None
    error: Failure | None = None

    @property
    def target(self) -> str:
        return f"instance {self.parent.instance_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteRerun(Effect):
    """Tells the source of a rerun that there is one, for its status."""

    instance_id: str
    #: The incarnation of the source.
    incarnation: str
    rerun_id: str

    @property
    def target(self) -> str:
        return f"instance {self.instance_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecords(Effect):
    """Deletes the idempotency records of activities of an instance that was deleted."""

    instance_id: str
    #: The incarnation of the instance: a later one with the same id has records of its own.
    incarnation: str
    #: The number of the execution and of the event of each call.
    calls: list[list[int]]

    @property
    def target(self) -> str:
        return "idempotency records"


def _parent(event: SubOrchestrationScheduled, starter: str, incarnation: str) -> Parent:
    return Parent(
        instance_id=starter, execution_id=event.execution_id, scheduled_seq=event.seq, incarnation=incarnation
    )


_TYPES: dict[str, type[Effect]] = {
    kind.__name__: kind
    for kind in (
        RunActivity,
        CancelActivity,
        StartSubOrchestration,
        CancelSubOrchestration,
        NotifyParent,
        NoteRerun,
        DeleteRecords,
    )
}


def load_effect(dumped: dict[str, Any]) -> Effect:
    return load_record(_TYPES, dumped)
