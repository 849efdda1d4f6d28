"""The operations to fuzz: the routes of ``/openapi.json``, Dapr's actor API, and paths beside them."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dapr.actor import Actor, ActorInterface

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
    SCHEDULE_INDEX_TYPE,
    SCHEDULE_TYPE,
    TENANT_INDEX_TYPE,
)
from holdfast.names import qualify
from holdfast.orchestration.actor.actor import orchestration_actor
from holdfast.orchestration.api import requests
from holdfast.orchestration.index import instance_index as index
from holdfast.orchestration.registry import Registry
from holdfast.pushpop.api import requests as queue_requests
from holdfast.pushpop.api.config import QueueConfig
from holdfast.runtime.unit_of_work import methods_of
from holdfast.schedules.actor import schedule_actor
from holdfast.schedules.api import requests as schedule_requests
from holdfast.server import OWN_ACTORS
from tests.behaviour.security.fuzz.server import INSTANCES, QUEUES, SCHEDULES, TENANTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
Schema = dict[str, Any]

_ANY: Schema = {}
_STRING: Schema = {"type": "string"}
_CALL: Schema = {
    "type": "object",
    "required": ["method", "data"],
    "properties": {"method": {"enum": ["Push", "Pop", "Peek", "Stats", "Status", "Start", "Watch"]}, "data": _ANY},
}
_TOPIC: Schema = {
    "enum": [
        *("instances", "queues", "instance:", "queue:", "queue:..", "everything", "instance:unknown"),
        *(f"instance:{name}" for name in INSTANCES),
        *(f"queue:{name}" for name in QUEUES),
    ]
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

_ACTORS = (*OWN_ACTORS, orchestration_actor(Registry()), schedule_actor(Registry()))
# What the methods take, where that is more than any JSON value.
_SCHEMAS: dict[tuple[str, str], Schema] = {
    **{
        (QUEUE_TYPE, model.__name__): model.model_json_schema()
        for model in (
            *(queue_requests.Push, queue_requests.Pop, queue_requests.PopWithAck, queue_requests.Acknowledge),
            *(queue_requests.Abandon, queue_requests.Complete, queue_requests.Requeue, queue_requests.ExtendByPrefix),
            *(queue_requests.ExtendLock, queue_requests.DeadLetter, queue_requests.Peek, queue_requests.InFlight),
            *(queue_requests.Revoke, queue_requests.DeadLetters, queue_requests.Delete, queue_requests.Close),
            *(queue_requests.Claim, queue_requests.Configure, queue_requests.PendingConfig),
            *(queue_requests.Transferred, queue_requests.Receive),
        )
    },
    (QUEUE_TYPE, "AbandonOwned"): queue_requests.AbandonOwnedLocks.model_json_schema(),
    (QUEUE_TYPE, "Redrive"): queue_requests.SelectDeadLetters.model_json_schema(),
    (QUEUE_TYPE, "DeleteDeadLetters"): queue_requests.SelectDeadLetters.model_json_schema(),
    (QUEUE_TYPE, "SetConfig"): QueueConfig.model_json_schema(),
    **{(ORCHESTRATION_TYPE, name): model.model_json_schema() for name, model in requests.MESSAGES.items()},
    (ORCHESTRATION_TYPE, "Wait"): requests.WaitRequest.model_json_schema(),
    (ORCHESTRATION_TYPE, "Reply"): requests.ReplyRequest.model_json_schema(),
    (ORCHESTRATION_TYPE, "History"): requests.HistoryRequest.model_json_schema(),
    (ORCHESTRATION_TYPE, "IsAwaited"): requests.AwaitedRequest.model_json_schema(),
    (ORCHESTRATION_TYPE, "Heartbeat"): requests.HeartbeatRequest.model_json_schema(),
    (ORCHESTRATION_TYPE, "Delete"): requests.DeleteRequest.model_json_schema(),
    (ORCHESTRATION_TYPE, "CopyHistory"): requests.CopyHistoryRequest.model_json_schema(),
    (ORCHESTRATION_TYPE, "Rerun"): requests.StartRerunRequest.model_json_schema(),
    (ORCHESTRATION_TYPE, "NoteRerun"): requests.NoteRerunRequest.model_json_schema(),
    (ORCHESTRATION_TYPE, "ConfirmIndexed"): requests.ListedRequest.model_json_schema(),
    (ORCHESTRATION_TYPE, "ConfirmDispatched"): requests.SentRequest.model_json_schema(),
    **{
        (IDEMPOTENCY_TYPE, model.__name__): model.model_json_schema()
        for model in (
            *(idempotency_requests.Begin, idempotency_requests.Commit, idempotency_requests.Fail),
            *(idempotency_requests.Renew, idempotency_requests.Delete),
        )
    },
    (SCHEDULE_TYPE, "Put"): schedule_requests.Put.model_json_schema(),
    (SCHEDULE_TYPE, "Declare"): schedule_requests.Put.model_json_schema(),
    (SCHEDULE_TYPE, "Backfill"): schedule_requests.Backfill.model_json_schema(),
    (SCHEDULE_TYPE, "ConfirmCalls"): schedule_requests.ConfirmCalls.model_json_schema(),
    (SCHEDULE_TYPE, "ConfirmIndexed"): schedule_requests.ConfirmIndexed.model_json_schema(),
    (SCHEDULE_INDEX_TYPE, "List"): schedule_requests.ListRequest.model_json_schema(),
    (INSTANCE_INDEX_TYPE, "Update"): index.NotesRequest.model_json_schema(),
    (INSTANCE_INDEX_TYPE, "Find"): index.FindRequest.model_json_schema(),
    (INSTANCE_INDEX_TYPE, "Count"): index.CountRequest.model_json_schema(),
    (RECORD_USAGE_TYPE, "Add"): Report.model_json_schema(),
    (NOTIFIER_TYPE, "Notify"): _NOTIFICATION,
    **{(kind, name): _STRING for kind in (QUEUE_INDEX_TYPE, SCHEDULE_INDEX_TYPE) for name in ("Add", "Remove")},
    (TENANT_INDEX_TYPE, "Add"): _STRING,
    (TENANT_INDEX_TYPE, "Since"): {"type": "integer", "minimum": 0},
}

_SCRATCH = tuple(f"scratch-{number}" for number in range(3))
#: Actors whose stored state is written past their own code: their methods may fail as damaged actors do.
DAMAGED = "damaged"
_QUEUE_IDS = tuple(
    qualify(tenant, name) for tenant in (*TENANTS, "default") for name in (*QUEUES, "spread@1", "full@9")
)
_INSTANCE_IDS = tuple(qualify(tenant, name) for tenant in (*TENANTS, "default") for name in INSTANCES)
_RECORD_IDS = tuple(record_id(tenant, key) for tenant in TENANTS for key in ("begun", "committed", "other"))
_SCHEDULE_IDS = tuple(qualify(tenant, name) for tenant in (*TENANTS, "default") for name in SCHEDULES)
_IDS = {
    QUEUE_TYPE: _QUEUE_IDS,
    ORCHESTRATION_TYPE: _INSTANCE_IDS,
    IDEMPOTENCY_TYPE: _RECORD_IDS,
    SCHEDULE_TYPE: _SCHEDULE_IDS,
}


@dataclass(frozen=True)
class Operation:
    """A kind of request."""

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
    #: Whether its answer has no end: the caller reads it for a while, and disconnects.
    is_stream: bool = False

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
    """Yields operations that the OpenAPI document omits, and unknown ones."""
    for path in (
        "/",
        "/openapi.json",
        "/v1.0/healthz",
        "/v1.0/metadata",
        "/queue",
        "/v1.0",
        "/actors/x/y/method/z",
    ):
        yield Operation("GET", path)
    for topics in (0, 1, 3):
        yield Operation("GET", "/events", query=(("topic", _TOPIC),) * topics, is_stream=True)
    for verb in ("PATCH", "HEAD", "OPTIONS", "TRACE"):
        yield Operation(verb, "/queue/{queue}/push")
    yield Operation("POST", "/dapr/config", body=_ANY)


def of_actors() -> Iterator[Operation]:
    """Dapr's actor API."""
    for actor in _ACTORS:
        for interface in _interfaces(actor):
            # What only Holdfast's own processes call is tried on actors that serve nothing else.
            internal = interface.__name__.endswith("ServiceInterface")
            ids = _SCRATCH if internal else _IDS.get(actor.__name__, _SCRATCH)
            for method in sorted(methods_of(interface)):
                yield _method(actor.__name__, method, _schema(actor.__name__, interface, method), ids)
    yield _method("UnknownActor", "Push", _ANY, _SCRATCH)
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


def _interfaces(actor: type[Actor]) -> Iterator[type[ActorInterface]]:
    """The interfaces that declare an actor's methods."""
    for base in actor.__mro__:
        if issubclass(base, ActorInterface) and base is not ActorInterface and not issubclass(base, Actor):
            yield base


def _schema(kind: str, interface: type[ActorInterface], method: str) -> Schema | None:
    """Returns the schema of a method's argument, or None for a method without one."""
    if method == "Batch":
        return _BATCH
    takes = list(inspect.signature(getattr(interface, method)).parameters)[1:]
    return _SCHEMAS.get((kind, method), _ANY) if takes else None
