"""The requests to an orchestration, validated on arrival, by REST and by actor call."""

from __future__ import annotations

import secrets
from typing import Annotated, Any

from pydantic import Field

from holdfast.errors import InvalidRequest, TooLarge
from holdfast.names import check_id
from holdfast.orchestration.core.failures import Failure, Kind
from holdfast.orchestration.core.heartbeats import check_details
from holdfast.orchestration.core.json_records import Parent
from holdfast.orchestration.core.messages import (
    ActivityOutcome,
    Cancel,
    MakeRequest,
    Message,
    RaiseEvent,
    Resume,
    Start,
    SubOrchestrationOutcome,
    Suspend,
)
from holdfast.orchestration.tags import MAX_TAGS, check_tags
from holdfast.pushpop.api.requests import MAX_PRIORITY, Key, Request, Text
from holdfast.runtime.serialization import check_lossless, check_number_of_containers, dump, load
from holdfast.tracing.traceparent import Traceparent  # noqa: TC001 (pydantic looks it up)
from holdfast.wire.times import read_time

MAX_PAYLOAD_BYTES = 1024 * 1024
MAX_PAGE = 1000

Name = Annotated[str, Field(min_length=1, max_length=255)]
HeartbeatDetails = Annotated[str | None, Field(description="JSON text of at most 2048 bytes.")]
TagsField = Annotated[
    dict[str, str] | None,
    Field(
        max_length=MAX_TAGS,
        description="Keys of 1 to 64 letters, digits and '-_.', values of up to 255 characters.",
        examples=[{"customer": "acme"}],
    ),
]
PriorityField = Annotated[
    int | None,
    Field(ge=0, le=MAX_PRIORITY, description="The priority of its activities in their queues; the lowest runs first."),
]
StartAtField = Annotated[
    str | None,
    Field(
        max_length=64,
        description="When its code begins, in ISO 8601; until then it is PENDING.",
        examples=["2026-11-17T06:00:00Z"],
    ),
]


class ParentRequest(Request):
    instance_id: str
    incarnation: Annotated[str | None, Field(max_length=255)] = None
    execution_id: Annotated[int, Field(ge=1)]
    scheduled_seq: Annotated[int, Field(ge=1)]


class StartEvent(Request):
    """An event that is raised together with a start, also when the instance exists already."""

    name: Name
    data: Annotated[Any, Field(description="Any JSON value.")] = None
    event_id: Annotated[Key, Field(min_length=1, description="An event raised again with the same id counts once.")] = (
        None
    )

    def message(self) -> RaiseEvent:
        check_id(self.name, "event name")
        return RaiseEvent(name=self.name, data=payload(self.data, "event.data"), event_id=self.event_id)


class StartRequest(Request):
    name: Name
    input: Annotated[Any, Field(description="Any JSON value.")] = None
    version: Annotated[str | None, Field(max_length=255)] = None
    tags: TagsField = None
    priority: PriorityField = None
    start_at: StartAtField = None
    event: StartEvent | None = None
    #: The instance that starts this one as a child.
    parent: ParentRequest | None = None
    #: Seeds random numbers and identifies the incarnation; generated when left out.
    seed: Annotated[str | None, Field(min_length=1, max_length=255)] = None
    traceparent: Traceparent | None = None

    def message(self) -> Message:
        parent = None if self.parent is None else Parent(**self.parent.model_dump())
        return Start(
            name=self.name,
            input=payload(self.input, "input"),
            seed=self.seed or secrets.token_hex(8),
            version=self.version,
            parent=parent,
            tags=None if self.tags is None else check_tags(self.tags),
            priority=self.priority,
            start_at=None if self.start_at is None else read_time(self.start_at, "start_at"),
            event=None if self.event is None else self.event.message(),
            traceparent=self.traceparent,
        )


class RaiseEventRequest(Request):
    name: Name
    data: Any = None
    event_id: Key = None
    traceparent: Traceparent | None = None

    def message(self) -> Message:
        check_id(self.name, "event name")
        data = payload(self.data, "data")
        return RaiseEvent(name=self.name, data=data, event_id=self.event_id, traceparent=self.traceparent)


RequestId = Annotated[
    str,
    Field(
        min_length=1,
        max_length=255,
        # Characters that no store keeps, or that stand for invalid UTF-8.
        pattern=r"^[^\x00\ufffd]*$",
        description="Identifies the request: the same id gives the first reply again. Generated if omitted.",
    ),
]


class MakeRequestRequest(Request):
    name: Name
    data: Any = None
    request_id: RequestId | None = None
    traceparent: Traceparent | None = None

    def message(self) -> Message:
        check_id(self.name, "request name")
        request_id = self.request_id or secrets.token_hex(16)
        data = payload(self.data, "data")
        return MakeRequest(name=self.name, data=data, request_id=request_id, traceparent=self.traceparent)


class ReplyRequest(Request):
    request_id: RequestId
    #: The notifier to call when there is a reply.
    notify: str | None = None


class ReasonRequest(Request):
    reason: Text = None


class CancelRequest(ReasonRequest):
    def message(self) -> Message:
        return Cancel(reason=self.reason)


class CancelChildRequest(CancelRequest):
    """Cancels a child whose parent no longer waits for it."""

    parent: ParentRequest

    def is_from(self, parent: Parent | None) -> bool:
        """Returns whether the request comes from this parent. No other instance may be cancelled by it."""
        return parent is not None and Parent(**self.parent.model_dump()) == parent


class SuspendRequest(ReasonRequest):
    def message(self) -> Message:
        return Suspend(reason=self.reason)


class ResumeRequest(Request):
    def message(self) -> Message:
        return Resume()


class FailureRequest(Request):
    type: str
    message: str
    kind: Kind = "error"
    types: Annotated[list[str], Field(fail_fast=True, default_factory=list)]
    traceback: str | None = None
    cause: FailureRequest | None = None


class OutcomeRequest(Request):
    """The outcome of an activity, sent by its worker, or of a child, sent by the child. Payloads are JSON text."""

    of: Annotated[str, Field(pattern="^(activity|sub)$")]
    execution_id: Annotated[int, Field(ge=1)]
    scheduled_seq: Annotated[int, Field(ge=1)]
    #: The incarnation it is for; any when left out.
    incarnation: Annotated[str | None, Field(max_length=255)] = None
    result: str | None = None
    error: FailureRequest | None = None
    #: What an activity that failed reported last.
    heartbeat_details: HeartbeatDetails = None
    #: The trace context of the run; only for the spans of the turn.
    traceparent: Traceparent | None = None

    def message(self) -> Message:
        outcome: dict[str, Any] = {"execution_id": self.execution_id, "scheduled_seq": self.scheduled_seq}
        outcome |= {
            "result": None if self.result is None else json_text(self.result, "result"),
            "error": self._failure(),
        }
        if self.of == "sub":
            return SubOrchestrationOutcome(**outcome)
        return ActivityOutcome(**outcome, heartbeat_details=details_text(self.heartbeat_details))

    def _failure(self) -> Failure | None:
        if self.error is None:
            return None
        fields = self.error.model_dump(exclude_none=True)
        _check_size(len(dump(fields)), "error")
        return Failure.load(fields)


class AwaitedRequest(Request):
    incarnation: str | None = None
    execution_id: int
    scheduled_seq: int


class HeartbeatRequest(AwaitedRequest):
    #: JSON text; without it the call only asks whether the activity is still awaited.
    details: HeartbeatDetails = None


class WaitRequest(Request):
    #: The notifier to call when the instance has ended.
    notify: str | None = None


class HistoryRequest(Request):
    #: The current execution when left out.
    execution_id: Annotated[int | None, Field(ge=1)] = None
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = 100
    cursor: Annotated[int, Field(ge=0)] = 0
    #: Return events exactly as stored, for a replay.
    recorded: bool = False


class CopyHistoryRequest(Request):
    #: The current execution when left out.
    execution_id: Annotated[int | None, Field(ge=1)] = None
    #: The number of the last event that the caller has.
    after: Annotated[int, Field(ge=0)] = 0


class StartRerunRequest(Request):
    copied: dict[str, Any]
    version: Annotated[str | None, Field(max_length=255)] = None
    traceparent: Traceparent | None = None


class NoteRerunRequest(Request):
    rerun_id: str
    incarnation: str


class DeleteRequest(Request):
    force: bool = False


class SentRequest(Request):
    number: Annotated[int, Field(ge=0)]


class ListedRequest(Request):
    indexed_as: str | None


def payload(value: Any, what: str) -> str:
    """Returns a payload as JSON text. Raises InvalidRequest, or TooLarge."""
    check_lossless({what: value})
    text = dump(value)
    _check_size(len(text), what)
    if "\\u0000" in (decoded := text.decode()):
        raise InvalidRequest(f"{what}: U+0000 cannot be stored.")
    return decoded


def json_text(text: str, what: str) -> str:
    """Returns a payload received as JSON text. Raises InvalidRequest for text that is not JSON, and TooLarge."""
    _check_size(len(text) if text.isascii() else len(text.encode()), what)
    check_number_of_containers(text)
    try:
        check_lossless({what: load(text)})
    except ValueError as error:
        raise InvalidRequest(f"{what}: is not JSON: {error}.") from error
    return text


def details_text(text: str | None) -> str | None:
    """Returns the details of a heartbeat received as JSON text. Raises as :func:`json_text` does."""
    if text is None:
        return None
    check_details(text)
    return json_text(text, "the details of a heartbeat")


def _check_size(size: int, what: str) -> None:
    if size > MAX_PAYLOAD_BYTES:
        raise TooLarge(f"{what}: {MAX_PAYLOAD_BYTES // 1024 // 1024} MiB at most; this has {size} bytes.")


MESSAGES: dict[str, type[Request]] = {
    "Start": StartRequest,
    "RaiseEvent": RaiseEventRequest,
    "Request": MakeRequestRequest,
    "Cancel": CancelRequest,
    "CancelChild": CancelChildRequest,
    "Suspend": SuspendRequest,
    "Resume": ResumeRequest,
    "Complete": OutcomeRequest,
}
