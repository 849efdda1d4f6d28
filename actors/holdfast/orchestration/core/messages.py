"""The messages to an instance. Each may arrive twice, late, or for an execution that has ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.orchestration.core.json_records import JsonRecord, load_record

if TYPE_CHECKING:
    from holdfast.orchestration.core.failures import Failure
    from holdfast.orchestration.core.history import Json
    from holdfast.orchestration.core.json_records import Parent
    from holdfast.orchestration.tags import Tags


@dataclass(frozen=True, slots=True, kw_only=True)
class Message(JsonRecord):
    """The base class of messages to an instance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaiseEvent(Message):
    name: str
    data: Json
    #: Identifies the event, so that a repeated send is recognised as a duplicate.
    event_id: str | None = None
    #: The trace context of the sender.
    traceparent: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeRequest(Message):
    name: str
    data: Json
    request_id: str
    #: True for a request that was acknowledged while the instance was BLOCKED.
    acknowledged: bool | None = None
    #: The trace context of the sender.
    traceparent: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Start(Message):
    name: str
    input: Json
    #: A random string: seeds the instance's random numbers and identifies its incarnation.
    seed: str
    version: str | None = None
    parent: Parent | None = None
    tags: Tags | None = None
    #: The priority of its activities in their queues.
    priority: int | None = None
    #: When its code begins; at once if the time has passed.
    start_at: float | None = None
    #: Raised right after the start. An instance that exists is sent the event on its own.
    event: RaiseEvent | None = None
    #: The trace context of what started it.
    traceparent: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(Message):
    """The result or the failure of a scheduled activity or child."""

    execution_id: int
    scheduled_seq: int
    result: Json | None = None
    error: Failure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivityOutcome(Outcome):
    #: What an activity that failed reported last.
    heartbeat_details: Json | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubOrchestrationOutcome(Outcome):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel(Message):
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspend(Message):
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume(Message):
    pass


_TYPES: dict[str, type[Message]] = {
    kind.__name__: kind
    for kind in (Start, ActivityOutcome, SubOrchestrationOutcome, RaiseEvent, MakeRequest, Cancel, Suspend, Resume)
}


def load_message(dumped: dict[str, Any]) -> Message:
    return load_record(_TYPES, dumped)
