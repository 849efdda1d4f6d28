"""The OpenAPI descriptions of the queue calls: all answers, errors included, with examples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast import errors
from holdfast.gateway.openapi import schemas
from holdfast.gateway.openapi.schemas import inlined
from holdfast.pushpop.api import requests
from holdfast.pushpop.api.config import QueueConfig

if TYPE_CHECKING:
    from pydantic import BaseModel

_MESSAGE = {
    "id": "0-0-0-0",
    "priority": 0,
    "delivery_count": 1,
    "enqueued_at": "2026-02-28T16:13:35.123Z",
    "partition": 0,
}
_ITEMS = {"items": [{"task_id": 123}], "count": 1, "messages": [_MESSAGE]}
_LOCK = {"lock_id_prefix": "kX3vQ1", "count": 1, "expires_at": "2026-02-28T16:14:05.123Z"}
_DEAD_LETTER = {
    "id": "0-0-0-0",
    "item": {"task_id": 123},
    "reason": "max_deliveries",
    "attempts": 10,
    "last_error": "ValueError: not an order",
    "original_queue": "orders",
    "original_partition": 0,
    "original_id": "0-0-0-7",
    "tenant_id": "default",
    "idempotency_key": None,
    "dead_lettered_at": "2026-02-28T16:14:05.123Z",
}
_COUNTS = {"queue": "orders", "count": 3, "locked": 1, "dead_letters": 0}
_STATS = _COUNTS | {
    "priorities": {"0": 3},
    "delayed": 0,
    "oldest_age_seconds": 12.5,
    "locks": [_LOCK],
    "counters": {"pushed": 4, "popped": 1},
    "config": QueueConfig().model_dump(),
}

_ALWAYS: tuple[type[errors.HoldfastError], ...] = (
    errors.InvalidRequest,
    errors.Unauthorized,
    errors.Forbidden,
    errors.MethodNotAllowed,
    errors.TooLarge,
    errors.RateLimited,
    errors.Unavailable,
)
_RETRY_AFTER = {
    "Retry-After": {"description": "In seconds.", "required": True, "schema": {"type": "integer", "minimum": 0}}
}
_HEADERS: dict[int, dict[str, Any]] = {
    405: {"Allow": {"description": "The supported methods.", "required": True, "schema": {"type": "string"}}},
    429: _RETRY_AFTER,
    503: _RETRY_AFTER,
}
#: Additional fields of some errors.
_DETAILS: dict[type[errors.HoldfastError], dict[str, Any]] = {
    errors.QueueLocked: {"lock_expires_at": 1709139245.123},
    errors.Capacity: {"retry_after": 1},
    errors.RateLimited: {"retry_after": 1},
    errors.NotLeased: {"completed": 1, "ignored": 0, "not_leased": ["0-0-0-1"]},
    errors.PartitionUnavailable: {"retry_after": 1},
}
_LOCK_ERRORS = (errors.InvalidLockId, errors.LockNotFound, errors.LockExpired)


def document(
    summary: str,
    answer: type[BaseModel],
    example: dict[str, Any],
    *refusals: type[errors.HoldfastError],
    query: type[BaseModel] | None = None,
    body: dict[str, Any] | type[BaseModel] | None = None,
    sent: Any = None,
    required: bool = True,
    tag: str = "queues",
    status: int = 200,
) -> dict[str, Any]:
    """Returns one OpenAPI operation. Models are left as classes, which the document later replaces by references."""
    responses = {str(status): _described("Done.", answer, {"answer": example})}
    for refusal in (*_ALWAYS, *refusals):
        shown: dict[str, Any] = {"success": False, "message": refusal.__doc__, "error_code": refusal.code}
        shown |= _DETAILS.get(refusal, {})
        entry = responses.setdefault(str(refusal.status), _described(str(refusal.__doc__), schemas.ErrorAnswer, {}))
        entry["content"]["application/json"]["examples"][refusal.code] = {"value": shown}
        if refusal.status in _HEADERS:
            entry["headers"] = _HEADERS[refusal.status]
    document: dict[str, Any] = {"tags": [tag], "summary": summary, "responses": responses}
    if query is not None:
        document["parameters"] = _parameters(query)
    if body is not None:
        media = {"schema": body, "example": sent}
        document["requestBody"] = {"required": required, "content": {"application/json": media}}
    return document


def _described(description: str, model: type[BaseModel], examples: dict[str, Any]) -> dict[str, Any]:
    shown = {name: {"value": value} for name, value in examples.items()}
    return {"description": description, "content": {"application/json": {"schema": model, "examples": shown}}}


def _parameters(query: type[BaseModel]) -> list[dict[str, Any]]:
    parameters = []
    for name, schema in inlined(query)["properties"].items():
        parameter = {"name": name, "in": "query", "required": False, "schema": schema}
        if "description" in schema:
            parameter["description"] = schema["description"]
        parameters.append(parameter)
    return parameters


def sent_without(model: type[BaseModel], *others: str) -> dict[str, Any]:
    """Returns the schema of a body without fields that come from the path or from the gateway itself."""
    schema = inlined(model)
    schema["properties"] = {name: field for name, field in schema["properties"].items() if name not in others}
    if "required" in schema:
        schema["required"] = [name for name in schema["required"] if name not in others]
    return {key: value for key, value in schema.items() if key != "required" or value}


_LOCK_ID = {"lock_id": "kX3vQ1b2c4E"}

_PUSH_ITEM = inlined(requests.PushItem)
_PUSH_MANY = {
    "type": "object",
    "required": ["items"],
    "additionalProperties": False,
    "properties": {
        "items": {"type": "array", "minItems": 1, "maxItems": requests.MAX_PUSH, "items": _PUSH_ITEM},
    },
}


def _acknowledged(what: str) -> dict[str, Any]:
    return {"success": True, "message": f"1 item {what}", "items_acknowledged": 1}


PUSH = document(
    "Push one item or up to 1000 at once: all or nothing",
    schemas.PushAnswer,
    {"success": True, "count": 1, "ids": ["0-0-0-0"]},
    errors.Capacity,
    errors.RateLimited,
    body={"anyOf": [_PUSH_ITEM, _PUSH_MANY]},
    sent={"item": {"task_id": 123}, "priority": 0},
)
ACKNOWLEDGE = document(
    "Acknowledge locked items, which removes them",
    schemas.LockAnswer,
    _acknowledged("acknowledged"),
    *_LOCK_ERRORS,
    body=inlined(requests.Acknowledge),
    sent=_LOCK_ID,
)
ABANDON = document(
    "Abandon locked items: they return to the front of their priority, at once, after a delay or by the back-off",
    schemas.LockAnswer,
    _acknowledged("abandoned"),
    *_LOCK_ERRORS,
    body={"anyOf": [inlined(requests.Abandon), inlined(requests.AbandonOwned)]},
    sent=_LOCK_ID,
)
EXTEND_LOCK = document(
    "Extend a lock, up to 300 seconds from now",
    schemas.ExtendAnswer,
    {"success": True, "lock_expires_at": 1709139275.0},
    *_LOCK_ERRORS,
    body=inlined(requests.ExtendLock),
    sent=_LOCK_ID | {"additional_ttl_seconds": 30},
)
DEAD_LETTER = document(
    "Move locked items to the queue's dead-letter queue",
    schemas.LockAnswer,
    _acknowledged("dead-lettered"),
    *_LOCK_ERRORS,
    body=inlined(requests.DeadLetter),
    sent=_LOCK_ID | {"reason": "not an order"},
)
COMPLETE = document(
    "Complete up to 1000 leased items by their ids; unknown ids are ignored, so it can be repeated",
    schemas.CompleteAnswer,
    {"success": True, "completed": 2, "ignored": 0},
    errors.NotLeased,
    errors.PartitionUnavailable,
    body=inlined(requests.Complete),
    sent={"ids": ["0-0-0-0", "3-0-0-7"]},
)
STATS = document("Get the statistics of a queue", schemas.StatsAnswer, _STATS)
IN_FLIGHT = document(
    "List the locks and their items",
    schemas.InFlightAnswer,
    {"locks": [_LOCK | {"items": [{"task_id": 123}], "messages": [_MESSAGE]}]},
)
REQUEUE = document(
    "For operators: abandon a consumer's lock, by a prefix of its id",
    schemas.LockAnswer,
    _acknowledged("abandoned"),
    errors.LockNotFound,
    errors.Conflict,
    body=sent_without(requests.Requeue, "lock_id_prefix"),
    sent={"error": "its consumer crashed"},
    required=False,
)
EXTEND_IN_FLIGHT = document(
    "For operators: extend a consumer's lock, by a prefix of its id",
    schemas.ExtendAnswer,
    {"success": True, "lock_expires_at": 1709139275.0},
    errors.LockNotFound,
    errors.Conflict,
    body=sent_without(requests.ExtendByPrefix, "lock_id_prefix"),
    sent={"additional_ttl_seconds": 30},
    required=False,
)
REDRIVE = document(
    "Return dead letters to their original queues, by id, by filter or all; answers 'more' when it ran out of time",
    schemas.RedriveAnswer,
    {"success": True, "redriven": 3},
    body=sent_without(requests.SelectDeadLetters, "original_queue"),
    sent={"filter": {"error_contains": "timed out"}, "max": 100},
    required=False,
)
DELETE_DEAD_LETTERS = document(
    "Delete dead letters, by id, by filter or all; answers 'more' when it ran out of time",
    schemas.DeadLettersDeletedAnswer,
    {"success": True, "deleted": 3},
    body=sent_without(requests.SelectDeadLetters, "original_queue"),
    sent={"filter": {"reason": "max_deliveries", "before": "2026-11-17T06:00:00Z"}},
)
PURGE = document(
    "Remove all waiting and delayed items; locked items stay", schemas.PurgeAnswer, {"success": True, "purged": 3}
)
REVOKE = document(
    "Remove one item that is not locked",
    schemas.PurgeAnswer,
    {"success": True, "purged": 1},
    errors.NotFound,
    errors.Conflict,
)
GET_CONFIG = document("Get the configuration", QueueConfig, QueueConfig().model_dump())
SET_CONFIG = document(
    "Change the given keys of the configuration",
    QueueConfig,
    QueueConfig().model_dump(),
    errors.Capacity,
    errors.Conflict,
    body=inlined(QueueConfig),
    sent={"max_deliveries": 5, "partitions": 4},
)
WORK = document(
    "Configure the queue for activities if needed; workers call it before their first pop",
    QueueConfig,
    QueueConfig().model_dump() | {"max_locks": 10_000, "worker_queue": True},
    errors.Capacity,
)


def pop(query: type[BaseModel]) -> dict[str, Any]:
    locked = _ITEMS | {"locked": True, "lock_id": "kX3vQ1b2c4E", "lock_expires_at": 1709139275.0}
    summary = "Pop the first items: lowest priority number first, first in first out"
    described = document(summary, schemas.PopAnswer, locked, errors.QueueLocked, query=query)
    # The calls that take the returned lock.
    described["responses"]["200"]["links"] = {
        call: {
            "operationId": f"post_queue_{call}",
            "parameters": {"queue": "$request.path.queue"},
            "requestBody": {"lock_id": "$response.body#/lock_id"},
        }
        for call in ("acknowledge", "abandon", "extend_lock", "dead_letter")
    }
    return described


def delete(query: type[BaseModel]) -> dict[str, Any]:
    summary = "Delete a queue: its items, locks, configuration and partitions, and its line in the list"
    return document(summary, schemas.PurgeAnswer, {"success": True, "purged": 0}, errors.Conflict, query=query)


def peek(query: type[BaseModel]) -> dict[str, Any]:
    return document("Show the next items without popping them", schemas.ItemsAnswer, _ITEMS, query=query)


def queues(query: type[BaseModel]) -> dict[str, Any]:
    return document("List queues by name", schemas.QueuesAnswer, {"queues": [_COUNTS]}, query=query)


def dead_letters(query: type[BaseModel]) -> dict[str, Any]:
    summary = "List the queue's dead letters, oldest first; on a dead-letter queue, all its items"
    return document(summary, schemas.DeadLettersAnswer, {"dead_letters": [_DEAD_LETTER]}, query=query)
