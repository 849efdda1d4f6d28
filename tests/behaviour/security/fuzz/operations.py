"""What a server can be asked: the routes of its ``/openapi.json``, Dapr's actor API, and paths beside them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.gateway.middleware.body_limits import MAX_BODY, MAX_CALL, MAX_TEXT_CALL
from holdfast.idempotency import requests as idempotency_requests
from holdfast.idempotency.interface import record_id
from holdfast.idempotency.usage_actor import Report
from holdfast.kinds import (
    IDEMPOTENCY_TYPE,
    INSTANCE_INDEX_TYPE,
    NOTIFIER_TYPE,
    ORCHESTRATION_TYPE,
    QUEUE_INDEX_TYPE,
    QUEUE_TYPE,
    RECORD_USAGE_TYPE,
    RESCUER_TYPE,
    TENANT_INDEX_TYPE,
)
from holdfast.names import qualify
from holdfast.orchestration.api import requests
from holdfast.orchestration.index import instance_index as index
from holdfast.orchestration.recovery.rescuer import SettledRequest
from holdfast.pushpop.api import requests as queue_requests
from holdfast.pushpop.api.config import QueueConfig
from tests.behaviour.security.fuzz.server import INSTANCES, QUEUES, TENANTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pydantic import BaseModel

Schema = dict[str, Any]

_ANY: Schema = {}
_STRING: Schema = {"type": "string"}
_CALL: Schema = {
    "type": "object",
    "required": ["method", "data"],
    "properties": {"method": {"enum": ["Push", "Pop", "Peek", "Stats", "Status", "Start", "Watch"]}, "data": _ANY},
}
_BATCH: Schema = {"type": "object", "required": ["calls"], "properties": {"calls": {"type": "array", "items": _CALL}}}
_NOTIFICATION: Schema = {
    "type": "object",
    "required": ["topic", "payload"],
    "properties": {"topic": _STRING, "payload": _STRING},
}
_TIMES: Schema = {
    "type": "object",
    "properties": {
        "dueTime": {"enum": ["1h", "P1D", "2030-01-01T00:00:00Z", "x", ""]},
        "period": {"enum": ["", "1h", "R3/PT1H", "R0/PT1H", "-1s", "x"]},
        "ttl": {"enum": ["", "1m", "PT1M", "x"]},
        "data": _ANY,
        "callback": {"enum": ["on_wake", "x", ""]},
        "overwrite": {"type": "boolean"},
    },
}
_WRITE: Schema = {
    "type": "object",
    "required": ["operation", "request"],
    "properties": {
        "operation": {"enum": ["upsert", "delete", "x"]},
        "request": {
            "type": "object",
            "required": ["key"],
            "properties": {
                "key": {"enum": ["metadata", "k", "", "a||b"]},
                "value": _ANY,
                "metadata": {"type": "object"},
            },
        },
    },
}

# Methods of which only Holdfast's own processes know; they are called on actors that serve nothing else.
_INTERNAL_OF_QUEUES = frozenset(
    {"AbandonOwned", "Claim", "Configure", "PendingConfig", "Transferred", "Receive", "ConfirmIndexed"}
)
_INTERNAL_OF_INSTANCES = frozenset(
    {"CancelChild", "Complete", "ConfirmIndexed", "ConfirmDispatched", "Rescue", "Check"}
)

_QUEUE_METHODS: dict[str, type[BaseModel] | None] = {
    **{
        name: getattr(queue_requests, name)
        for name in (
            *("Push", "Pop", "PopWithAck", "Acknowledge", "Abandon", "Complete", "Requeue", "ExtendByPrefix"),
            *("ExtendLock", "DeadLetter", "Peek", "InFlight", "Revoke", "DeadLetters"),
            *("Claim", "Configure", "PendingConfig", "Transferred", "Receive"),
        )
    },
    **dict.fromkeys(("Redrive", "DeleteDeadLetters"), queue_requests.SelectDeadLetters),
    "AbandonOwned": queue_requests.AbandonOwnedLocks,
    "SetConfig": QueueConfig,
    **dict.fromkeys(("Stats", "Purge", "GetConfig", "ConfirmIndexed")),
}
_INSTANCE_METHODS: dict[str, type[BaseModel] | None] = {
    **requests.MESSAGES,
    "Wait": requests.WaitRequest,
    "Reply": requests.ReplyRequest,
    "History": requests.HistoryRequest,
    "IsAwaited": requests.AwaitedRequest,
    "Delete": requests.DeleteRequest,
    "ConfirmIndexed": requests.ListedRequest,
    "ConfirmDispatched": requests.SentRequest,
    **dict.fromkeys(("Status", "Check", "Rescue")),
}
_RECORD_METHODS: dict[str, type[BaseModel] | None] = {
    **{name: getattr(idempotency_requests, name) for name in ("Begin", "Commit", "Fail", "Renew")},
    "Get": None,
}

_SCRATCH = tuple(f"scratch-{number}" for number in range(3))
#: Actors whose stored state is written past their own code: their methods may fail as damaged actors do.
DAMAGED = "damaged"
_QUEUE_IDS = tuple(
    qualify(tenant, name) for tenant in (*TENANTS, "default") for name in (*QUEUES, "spread@1", "full@9")
)
_INSTANCE_IDS = tuple(qualify(tenant, name) for tenant in (*TENANTS, "default") for name in INSTANCES)
_RECORD_IDS = tuple(record_id(tenant, key) for tenant in TENANTS for key in ("begun", "committed", "other"))


@dataclass(frozen=True)
class Operation:
    """One kind of request."""

    verb: str
    #: ``{name}`` is a segment that each request chooses.
    path: str
    #: What a caller must be; None where any token does, and where none is needed.
    role: str | None = None
    query: tuple[tuple[str, Schema], ...] = ()
    body: Schema | None = None
    max_body: int = MAX_CALL
    #: The ids of actors that ``{actor}`` stands for.
    actors: tuple[str, ...] = ()

    @property
    def route(self) -> str:
        return f"{self.verb} {self.path}"

    @property
    def is_of_actors(self) -> bool:
        return self.path.startswith("/v1.0/")

    @property
    def is_of_keys(self) -> bool:
        return self.path.startswith("/idempotency/")


def described(document: Mapping[str, Any]) -> Iterator[Operation]:
    """All that ``/openapi.json`` describes."""
    limits = {"/queue/{queue}/push": MAX_BODY, "/orchestrations/{instance_id}/outcome": MAX_TEXT_CALL}
    for path, operations in document["paths"].items():
        for verb, operation in operations.items():
            content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
            query = ((one["name"], one["schema"]) for one in operation.get("parameters", ()) if one["in"] == "query")
            role = operation.get("x-holdfast-role")
            max_body = limits.get(path, MAX_CALL)
            yield Operation(verb.upper(), path, role, tuple(query), content.get("schema"), max_body)


def undescribed() -> Iterator[Operation]:
    """What the document leaves out, and what is not there."""
    for path in ("/", "/openapi.json", "/v1.0/healthz", "/v1.0/metadata", "/queue", "/v1.0", "/actors/x/y/method/z"):
        yield Operation("GET", path)
    for verb in ("PATCH", "HEAD", "OPTIONS", "TRACE"):
        yield Operation(verb, "/queue/{queue}/push")
    yield Operation("POST", "/dapr/config", body=_ANY)


def of_actors() -> Iterator[Operation]:
    """Dapr's actor API."""
    for kind, methods, ids, internal in (
        (QUEUE_TYPE, _QUEUE_METHODS, _QUEUE_IDS, _INTERNAL_OF_QUEUES),
        (ORCHESTRATION_TYPE, _INSTANCE_METHODS, _INSTANCE_IDS, _INTERNAL_OF_INSTANCES),
        (IDEMPOTENCY_TYPE, _RECORD_METHODS, _RECORD_IDS, frozenset()),
    ):
        for method, model in methods.items():
            yield _method(kind, method, _schema(model), _SCRATCH if method in internal else ids)
        yield _method(kind, "Batch", _BATCH, _SCRATCH)
    for kind, method, schema in (
        (QUEUE_INDEX_TYPE, "Add", _STRING),
        (QUEUE_INDEX_TYPE, "List", None),
        (INSTANCE_INDEX_TYPE, "Update", _schema(index.NotesRequest)),
        (INSTANCE_INDEX_TYPE, "Find", _schema(index.FindRequest)),
        (INSTANCE_INDEX_TYPE, "Counts", None),
        (TENANT_INDEX_TYPE, "Add", _STRING),
        (TENANT_INDEX_TYPE, "Since", {"type": "integer", "minimum": 0}),
        (NOTIFIER_TYPE, "Notify", _NOTIFICATION),
        (NOTIFIER_TYPE, "ProcessId", None),
        (RECORD_USAGE_TYPE, "Add", _schema(Report)),
        (RECORD_USAGE_TYPE, "Total", None),
        (RESCUER_TYPE, "Batch", _BATCH),
        (RESCUER_TYPE, "Settled", _schema(SettledRequest)),
        ("UnknownActor", "Push", _ANY),
    ):
        yield _method(kind, method, schema, _SCRATCH)
    damaged = (DAMAGED,)
    one = f"/v1.0/actors/{QUEUE_TYPE}/{{actor}}"
    yield _method(QUEUE_TYPE, "Stats", None, damaged)
    yield Operation("PUT", f"{one}/state", body={"type": "array", "items": _WRITE}, max_body=MAX_BODY, actors=damaged)
    yield Operation("GET", f"{one}/state/metadata", actors=(*_QUEUE_IDS, *damaged))
    for verb in ("GET", "PUT", "DELETE"):
        yield Operation(verb, f"{one}/reminders/{{name}}", body=_TIMES, max_body=MAX_BODY, actors=_SCRATCH)
        yield Operation(verb, f"{one}/timers/{{name}}", body=_TIMES, max_body=MAX_BODY, actors=_SCRATCH)


def _method(kind: str, method: str, schema: Schema | None, ids: tuple[str, ...]) -> Operation:
    path = f"/v1.0/actors/{kind}/{{actor}}/method/{method}"
    return Operation("PUT", path, body=schema, max_body=MAX_BODY, actors=ids)


def _schema(model: type[BaseModel] | None) -> Schema | None:
    return None if model is None else model.model_json_schema()
