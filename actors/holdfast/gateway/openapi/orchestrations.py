"""The OpenAPI descriptions of the orchestration calls: all answers, errors included, with examples."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from holdfast import errors
from holdfast.gateway.openapi.queues import document as any_document
from holdfast.gateway.openapi.schemas import Answer, inlined
from holdfast.orchestration.api import requests

if TYPE_CHECKING:
    from pydantic import BaseModel

Document = dict[str, Any]

document = partial(any_document, tag="orchestrations")


class StartAnswer(Answer):
    instance_id: str
    created: bool
    delivered: bool | None = None


class RerunAnswer(Answer):
    instance_id: str
    created: bool


class FailureShown(Answer):
    type: str
    message: str
    kind: str
    #: The frames of the author's code and of what it called.
    traceback: str | None = None
    #: What the exception was raised from.
    cause: FailureShown | None = None


class BlockedShown(Answer):
    kind: str
    message: str
    expected: str | None
    found: str | None
    line: str | None
    since: str
    suspended: bool


class WaitingShown(Answer):
    kind: str
    name: str | None
    since: str
    due_at: str | None = None
    scheduled_seq: int | None


class RerunOfShown(Answer):
    instance_id: str
    execution_id: int
    from_seq: int


class StatusAnswer(Answer):
    instance_id: str
    name: str
    version: str
    status: str
    input: Any
    output: Any
    error: FailureShown | None
    custom_status: Any
    tags: dict[str, str]
    priority: int
    execution_id: int
    events: int
    created_at: str
    updated_at: str
    ended_at: str | None
    waiting_for: list[WaitingShown]
    reason: str | None = None
    blocked: BlockedShown | None = None
    parent: dict[str, Any] | None = None
    rerun_of: RerunOfShown | None = None
    #: The ids of the last 100 reruns.
    reruns: list[str] | None = None


class HistoryAnswer(Answer):
    events: list[dict[str, Any]]
    next_cursor: str | None = None
    begun: Annotated[
        bool | None,
        Field(description="With recorded: false while the first step of the execution is still to come."),
    ] = None


class SuccessAnswer(Answer):
    success: bool


class RaisedAnswer(SuccessAnswer):
    delivered: bool


class ReplyAnswer(Answer):
    request_id: str
    reply: Any


class OpenRequestAnswer(Answer):
    request_id: str


class HeartbeatAnswer(Answer):
    success: bool
    awaited: bool


class AwaitedAnswer(HeartbeatAnswer):
    heartbeat_details: Annotated[str | None, Field(description="What it reported last, as JSON text.")] = None


_SUCCESS = {"success": True}
_STATUS = {
    "instance_id": "order-17",
    "name": "checkout",
    "version": "1",
    "status": "RUNNING",
    "input": {"order": 17},
    "output": None,
    "error": None,
    "custom_status": None,
    "tags": {"customer": "acme"},
    "priority": 0,
    "execution_id": 1,
    "events": 3,
    "created_at": "2026-02-28T16:13:35.123Z",
    "updated_at": "2026-02-28T16:13:35.456Z",
    "ended_at": None,
    "waiting_for": [
        {"kind": "activity", "name": "charge", "since": "2026-02-28T16:13:35.456Z", "scheduled_seq": 3},
    ],
}
_EVENT = {
    "type": "ActivityScheduled",
    "seq": 2,
    "execution_id": 1,
    "timestamp": "2026-02-28T16:13:35.123Z",
    "name": "charge",
    "input": {"order": 17},
    "queue": "activities",
    "attempt": 1,
}
_REPLY = {"request_id": "add-17", "reply": {"lines": 3}}
_ENDED = (errors.NotFound, errors.OrchestrationEnded)


def start(body: type[BaseModel]) -> Document:
    described = document(
        "Start an orchestration; no effect if the instance exists",
        StartAnswer,
        {"instance_id": "order-17", "created": True},
        errors.NotFound,
        errors.OrchestrationEnded,
        errors.Capacity,
        body=body,
        sent={"instance_id": "order-17", "input": {"order": 17}, "tags": {"customer": "acme"}},
        required=False,
        status=202,
    )
    described["responses"]["200"] = described["responses"]["202"]
    return described


def rerun(body: type[BaseModel]) -> Document:
    described = document(
        "Rerun an instance: start a new one from a part of its history",
        RerunAnswer,
        {"instance_id": "order-17-again", "created": True},
        errors.NotFound,
        errors.Conflict,
        errors.Capacity,
        body=body,
        sent={"from": "failure", "instance_id": "order-17-again"},
        required=False,
        status=202,
    )
    described["responses"]["200"] = described["responses"]["202"]
    return described


def history(query: type[BaseModel]) -> Document:
    return document("Get the history of an instance", HistoryAnswer, {"events": [_EVENT]}, errors.NotFound, query=query)


def wait(query: type[BaseModel]) -> Document:
    return document(
        "Wait for an instance to end and get its status", StatusAnswer, _STATUS, errors.NotFound, query=query
    )


def delete(query: type[BaseModel]) -> Document:
    return document("Delete an instance", SuccessAnswer, _SUCCESS, *_ENDED, query=query)


def raise_event(query: type[BaseModel]) -> Document:
    return document(
        "Raise an event; the body is its data",
        RaisedAnswer,
        {"success": True, "delivered": True},
        *_ENDED,
        errors.Capacity,
        query=query,
        body={},
        sent={"by": "ann"},
        required=False,
        status=202,
    )


def request(query: type[BaseModel]) -> Document:
    return _with_open_request(
        document(
            "Make a request, whose data is the body, and wait for the reply; once for each request_id",
            ReplyAnswer,
            _REPLY,
            *_ENDED,
            errors.Rejected,
            errors.Capacity,
            query=query,
            body={},
            sent={"article": "oar"},
            required=False,
        )
    )


def reply(query: type[BaseModel]) -> Document:
    return _with_open_request(
        document("Get the reply to a request", ReplyAnswer, _REPLY, *_ENDED, errors.Rejected, query=query)
    )


def _with_open_request(described: Document) -> Document:
    """Returns the description with the answer of a request that has no reply yet."""
    open_request = document("", OpenRequestAnswer, {"request_id": "add-17"}, status=202)["responses"]["202"]
    described["responses"]["202"] = open_request | {"description": "There is no reply yet."}
    return described


def _accepted(summary: str, body: type[BaseModel] | None, sent: Any) -> Document:
    return document(
        summary,
        SuccessAnswer,
        _SUCCESS,
        *_ENDED,
        body={"type": "object", "additionalProperties": False} if body is None else inlined(body),
        sent=sent,
        required=False,
        status=202,
    )


STATUS = document("Get the status of an instance", StatusAnswer, _STATUS, errors.NotFound)
CANCEL = _accepted("Cancel an instance", requests.CancelRequest, {"reason": "no longer needed"})
SUSPEND = _accepted("Suspend an instance", requests.SuspendRequest, {"reason": "maintenance"})
RESUME = _accepted("Resume an instance", None, {})
OUTCOME = document(
    "Report the outcome of an activity; for workers",
    SuccessAnswer,
    _SUCCESS,
    errors.NotFound,
    body=requests.OutcomeRequest,
    sent={"of": "activity", "execution_id": 1, "scheduled_seq": 2, "result": "null"},
    status=202,
)
AWAITED = document(
    "Ask whether an instance still awaits an activity; for workers",
    AwaitedAnswer,
    {"success": True, "awaited": True},
    body=inlined(requests.AwaitedRequest),
    sent={"execution_id": 1, "scheduled_seq": 2},
)
HEARTBEAT = document(
    "Save the heartbeat of a running activity; for workers",
    HeartbeatAnswer,
    {"success": True, "awaited": True},
    body=inlined(requests.HeartbeatRequest),
    sent={"execution_id": 1, "scheduled_seq": 2, "details": '{"done": 120}'},
)
