"""The events an execution's history consists of.

What one says in its own words (input, result, data) is JSON text, as it came: a state store may read numbers as floats.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from pydantic_core import from_json

from holdfast.orchestration.records import Parent, Record, load_record

if TYPE_CHECKING:
    from holdfast.orchestration.failures import Failure

Json: TypeAlias = str


@dataclass(frozen=True, slots=True, kw_only=True)
class Event(Record):
    """Something that happened, at its place in the history of one execution, from 1 without gaps."""

    seq: int
    execution_id: int
    timestamp: float

    #: Fields that hold JSON text.
    payloads: ClassVar[tuple[str, ...]] = ()

    def show(self) -> dict[str, Any]:
        """As it is shown: with payloads as values."""
        shown = self.dump()
        for name in self.payloads:
            if name in shown:
                shown[name] = from_json(shown[name])
        return shown


@dataclass(frozen=True, slots=True, kw_only=True)
class OrchestrationStarted(Event):
    payloads = ("input",)

    name: str
    version: str
    input: Json
    #: What random() and uuid() grow from.
    seed: str
    parent: Parent | None = None
    #: What an earlier execution found in its mailboxes and did not read.
    unread: list[dict[str, Any]] | None = None
    #: Of events that an earlier execution has taken, and that may be sent again.
    event_ids: list[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivityScheduled(Event):
    payloads = ("input",)

    name: str
    input: Json
    queue: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivityCompleted(Event):
    payloads = ("result",)

    scheduled_seq: int
    result: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivityFailed(Event):
    scheduled_seq: int
    error: Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerCreated(Event):
    fire_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerFired(Event):
    scheduled_seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SubOrchestrationScheduled(Event):
    payloads = ("input",)

    name: str
    instance_id: str
    input: Json
    version: str | None = None
    #: True when nobody waits for it.
    detached: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubOrchestrationCompleted(Event):
    payloads = ("result",)

    scheduled_seq: int
    result: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class SubOrchestrationFailed(Event):
    scheduled_seq: int
    error: Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSubscribed(Event):
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRaised(Event):
    payloads = ("data",)

    name: str
    data: Json
    #: The subscription it answers; none when it lies in a mailbox.
    scheduled_seq: int | None = None
    #: What tells the same event, sent twice, from two events.
    event_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRequested(Event):
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OrchestrationSuspended(Event):
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OrchestrationResumed(Event):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class ContinuedAsNew(Event):
    payloads = ("input",)

    input: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class OrchestrationCompleted(Event):
    payloads = ("output",)

    output: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class OrchestrationFailed(Event):
    error: Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class OrchestrationCancelled(Event):
    reason: str | None = None


#: What an execution decides; all other events come from outside.
DECISIONS = (ActivityScheduled, TimerCreated, SubOrchestrationScheduled, EventSubscribed)
#: What an execution ends with.
ENDINGS = (OrchestrationCompleted, OrchestrationFailed, OrchestrationCancelled, ContinuedAsNew)

_TYPES: dict[str, type[Event]] = {
    name: kind for name, kind in list(globals().items()) if isinstance(kind, type) and issubclass(kind, Event)
}


def load_event(dumped: dict[str, Any]) -> Event:
    """The event that ``dump`` wrote. Raises ValueError for what is not one."""
    return load_record(_TYPES, dumped)
