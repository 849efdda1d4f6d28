"""What callers may ask of an orchestration, checked where it comes in: by REST and by actor call alike."""

from __future__ import annotations

import secrets
from typing import Annotated, Any

from pydantic import Field

from holdfast.errors import InvalidRequest, TooLarge
from holdfast.identity import check_id
from holdfast.orchestration.failures import Failure
from holdfast.orchestration.messages import (
    ActivityOutcome,
    Cancel,
    Message,
    RaiseEvent,
    Resume,
    Start,
    SubOrchestrationOutcome,
    Suspend,
)
from holdfast.orchestration.records import Parent
from holdfast.pushpop.requests import Key, Request, Text
from holdfast.runtime.serialization import check_lossless, dump

MAX_PAYLOAD_BYTES = 1024 * 1024
MAX_PAGE = 1000

Name = Annotated[str, Field(min_length=1, max_length=255)]


class ParentRequest(Request):
    instance_id: str
    life: Annotated[str | None, Field(max_length=255)] = None
    execution_id: Annotated[int, Field(ge=1)]
    scheduled_seq: Annotated[int, Field(ge=1)]


class StartRequest(Request):
    name: Name
    input: Annotated[Any, Field(description="Any JSON value.")] = None
    version: Annotated[str | None, Field(max_length=255)] = None
    #: From another instance.
    parent: ParentRequest | None = None
    #: What its chance grows from, and what tells it from another that had its id; one is made up when left out.
    seed: Annotated[str | None, Field(min_length=1, max_length=255)] = None

    def message(self) -> Message:
        parent = None if self.parent is None else Parent(**self.parent.model_dump())
        return Start(
            name=self.name,
            input=payload(self.input, "input"),
            seed=self.seed or secrets.token_hex(8),
            version=self.version,
            parent=parent,
        )


class RaiseEventRequest(Request):
    name: Name
    data: Any = None
    event_id: Key = None

    def message(self) -> Message:
        check_id(self.name, "event name")
        return RaiseEvent(name=self.name, data=payload(self.data, "data"), event_id=self.event_id)


class ReasonRequest(Request):
    reason: Text = None


class CancelRequest(ReasonRequest):
    def message(self) -> Message:
        return Cancel(reason=self.reason)


class SuspendRequest(ReasonRequest):
    def message(self) -> Message:
        return Suspend(reason=self.reason)


class ResumeRequest(Request):
    def message(self) -> Message:
        return Resume()


class FailureRequest(Request):
    type: str
    message: str
    kind: str = "error"
    types: Annotated[list[str], Field(default_factory=list)]
    stack: str | None = None


class OutcomeRequest(Request):
    """From a worker, or from a sub-orchestration. Payloads are JSON text."""

    of: Annotated[str, Field(pattern="^(activity|sub)$")]
    execution_id: Annotated[int, Field(ge=1)]
    scheduled_seq: Annotated[int, Field(ge=1)]
    #: Which instance of that id it is for; any, when left out.
    life: Annotated[str | None, Field(max_length=255)] = None
    result: str | None = None
    error: FailureRequest | None = None

    def message(self) -> Message:
        kind = ActivityOutcome if self.of == "activity" else SubOrchestrationOutcome
        error = None if self.error is None else Failure.load(self.error.model_dump())
        return kind(execution_id=self.execution_id, scheduled_seq=self.scheduled_seq, result=self.result, error=error)


class AwaitedRequest(Request):
    life: str | None = None
    execution_id: int
    scheduled_seq: int


class WaitRequest(Request):
    #: Whom to tell when it has ended.
    doorbell: str | None = None


class HistoryRequest(Request):
    #: The present one when left out.
    execution_id: Annotated[int | None, Field(ge=1)] = None
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = 100
    cursor: Annotated[int, Field(ge=0)] = 0
    #: As it is kept, for a replay.
    recorded: bool = False


class DeleteRequest(Request):
    force: bool = False


class SentRequest(Request):
    number: Annotated[int, Field(ge=0)]


class ListedRequest(Request):
    status: str | None


def payload(value: Any, what: str) -> str:
    """A payload as it is kept: JSON text."""
    check_lossless({what: value})
    text = dump(value)
    if len(text) > MAX_PAYLOAD_BYTES:
        raise TooLarge(f"{what}: {MAX_PAYLOAD_BYTES // 1024 // 1024} MiB at most; this has {len(text)} bytes.")
    if "\\u0000" in (decoded := text.decode()):
        raise InvalidRequest(f"{what}: U+0000 cannot be kept.")
    return decoded


MESSAGES: dict[str, type[Request]] = {
    "Start": StartRequest,
    "RaiseEvent": RaiseEventRequest,
    "Cancel": CancelRequest,
    "Suspend": SuspendRequest,
    "Resume": ResumeRequest,
    "Outcome": OutcomeRequest,
}
