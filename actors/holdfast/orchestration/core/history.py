"""The events of an execution's history.

Payloads (input, result, data) are kept as JSON text, because a state store may read numbers as floats.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from holdfast.errors import InvalidRequest
from holdfast.orchestration.core.json_records import JsonRecord, Parent, load_record
from holdfast.runtime.serialization import check_lossless, is_deep, load

if TYPE_CHECKING:
    from holdfast.orchestration.core.failures import Failure
    from holdfast.orchestration.tags import Tags

Json: TypeAlias = str


@dataclass(frozen=True, slots=True, kw_only=True)
class Event(JsonRecord):
    """One event. ``seq`` numbers the events of one execution from 1 without gaps."""

    seq: int
    execution_id: int
    timestamp: float

    #: Fields that hold JSON text.
    payloads: ClassVar[tuple[str, ...]] = ()

    def show(self) -> dict[str, Any]:
        """Returns the event as a JSON object with payloads as values."""
        shown = self.dump()
        for name in self.payloads:
            if name in shown:
                shown[name] = shown_payload(shown[name])
        return shown


def shown_payload(text: Json) -> Any:
    """Returns the value of JSON text. Text that is not JSON, or nested too deep, is returned as a string.

    Versions that did not validate the results of workers have stored such text, and one payload must not make a
    whole history unreadable.
    """
    try:
        value = load(text)
        if is_deep(text):
            check_lossless([value])
    except (ValueError, InvalidRequest):
        return text
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class OrchestrationStarted(Event):
    payloads = ("input",)

    name: str
    version: str
    input: Json
    #: Identifies the incarnation. The seed of random() and uuid(), unless it is a rerun.
    seed: str
    parent: Parent | None = None
    #: The number of the last mail before this execution, and of the last received mail of each mailbox. Later mail of
    #: a mailbox is unread.
    mail: dict[str, Any] | None = None
    #: The unread mail, filled in for display and replay; it is stored apart from the history.
    unread: list[dict[str, Any]] | None = None
    #: The mailboxes declared at the start; None for an instance that an earlier release started.
    mailboxes: list[str] | None = None
    #: The requests declared at the start.
    requests: list[str] | None = None
    #: The tags at the start of the execution; None for none.
    tags: Tags | None = None
    #: The priority of its activities in their queues, unless a call has its own; None for 0.
    priority: int | None = None
    #: When the code begins; None for at once.
    start_at: float | None = None
    #: When the instance has to have ended; None for no limit.
    deadline: float | None = None
    #: For a rerun, the instances that ran its copied steps: the id, the seed, and the number of events up to there. The
    #: seed of the first one is that of random() and uuid().
    origins: list[list[Any]] | None = None
    #: The trace context of what started it; None without one.
    traceparent: str | None = None

    def maker(self, instance_id: str, seq: int) -> tuple[str, str]:
        """Returns the id and the seed of the instance that ran the step of event ``seq`` first."""
        for origin_id, seed, events in self.origins or ():
            if seq < events:
                return origin_id, seed
        return instance_id, self.seed

    @property
    def first_seed(self) -> str:
        """The seed of random() and uuid()."""
        first: str = self.origins[0][1] if self.origins else self.seed
        return first


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivityScheduled(Event):
    payloads = ("input", "heartbeat_details")

    name: str
    input: Json
    queue: str
    attempt: int
    #: The priority of the item in the queue; None for 0.
    priority: int | None = None
    #: What the attempt before reported last; None without a heartbeat.
    heartbeat_details: Json | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivityCompleted(Event):
    payloads = ("result",)

    scheduled_seq: int
    result: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivityFailed(Event):
    payloads = ("heartbeat_details",)

    scheduled_seq: int
    error: Failure
    #: What the activity reported last; None without a heartbeat.
    heartbeat_details: Json | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerCreated(Event):
    #: The due time by the host's clock.
    fire_at: float
    #: The seconds by which timestamps of the history were ahead of the host's clock, if they were.
    skew: float | None = None

    @classmethod
    def at(cls, when: float, skew: float) -> dict[str, float]:
        """Returns the fields of a timer that is due at ``when`` in history time, which is ``skew`` seconds ahead."""
        return {"fire_at": when - skew, "skew": skew} if skew > 0 else {"fire_at": when}


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
    #: True when the parent does not wait for the child.
    detached: bool | None = None
    #: ``abandon`` when the child goes on when its parent ends or stops waiting; None when it is cancelled then.
    on_parent_end: str | None = None
    #: The id that the code gave it, if a rerun has started it under another one.
    original_id: str | None = None


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
    #: The subscription it answers; None for an event in a mailbox.
    scheduled_seq: int | None = None
    #: Identifies an event that is sent repeatedly.
    event_id: str | None = None
    #: The trace context of the sender; None without one.
    traceparent: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestReceived(Event):
    payloads = ("data",)

    name: str
    request_id: str
    data: Json
    #: The trace context of the sender; None without one.
    traceparent: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestAnswered(Event):
    """Recorded when the code replied to a request, or rejected it."""

    payloads = ("reply",)

    name: str
    request_id: str
    reply: Json | None = None
    #: Why the request was rejected.
    rejected: str | None = None
    #: The error code of a request that was rejected without the code, because its data does not have the right type.
    error_code: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueRefused(Event):
    """Recorded when a value did not fit its type when first read, and the error was raised in the code."""

    #: Where the value is recorded.
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchMarked(Event):
    """Recorded when the code reached a patch: a replay of the events after it takes the patched path."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TagsSet(Event):
    #: The changed tags; None removes a tag.
    tags: dict[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRequested(Event):
    reason: str | None = None
    #: True when the time limit of the instance is over.
    timed_out: bool | None = None


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
    #: The version of the next execution; None for the same.
    version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OrchestrationCompleted(Event):
    payloads = ("output",)

    output: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class OrchestrationFailed(Event):
    error: Failure
    #: True when the instance was ended while its code waited, so that no replay ends so.
    forced: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OrchestrationCancelled(Event):
    reason: str | None = None


#: Decisions of the code; all other events are external.
DECISIONS = (
    ActivityScheduled,
    TimerCreated,
    SubOrchestrationScheduled,
    EventSubscribed,
    RequestAnswered,
    ValueRefused,
    PatchMarked,
    TagsSet,
)
#: Events that end an execution.
ENDINGS = (OrchestrationCompleted, OrchestrationFailed, OrchestrationCancelled, ContinuedAsNew)

_TYPES: dict[str, type[Event]] = {
    name: kind for name, kind in list(globals().items()) if isinstance(kind, type) and issubclass(kind, Event)
}


def load_event(dumped: dict[str, Any]) -> Event:
    """Returns the event that ``dump`` wrote. Raises ValueError for anything else."""
    return load_record(_TYPES, dumped)
