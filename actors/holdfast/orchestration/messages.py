"""What reaches an instance. Each may come twice, late, or for an execution that is over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.orchestration.records import Record, load_record

if TYPE_CHECKING:
    from holdfast.orchestration.failures import Failure
    from holdfast.orchestration.history import Json
    from holdfast.orchestration.records import Parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Message(Record):
    """Something an instance is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start(Message):
    name: str
    input: Json
    #: Random; the instance's own chance grows from it.
    seed: str
    version: str | None = None
    parent: Parent | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(Message):
    """The result or the failure of something that was scheduled."""

    execution_id: int
    scheduled_seq: int
    result: Json | None = None
    error: Failure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivityOutcome(Outcome):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class SubOrchestrationOutcome(Outcome):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class RaiseEvent(Message):
    name: str
    data: Json
    #: The same for the same event sent again.
    event_id: str | None = None


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
    for kind in (Start, ActivityOutcome, SubOrchestrationOutcome, RaiseEvent, Cancel, Suspend, Resume)
}


def load_message(dumped: dict[str, Any]) -> Message:
    return load_record(_TYPES, dumped)
