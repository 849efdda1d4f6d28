"""What ``/openapi.json`` says of each queue call: every answer, errors included, with an example."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

from holdfast import errors
from holdfast.pushpop import requests
from holdfast.pushpop.config import QueueConfig


class Answer(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ErrorAnswer(BaseModel):
    """What every refusal looks like. Some carry more: QUEUE_LOCKED says ``lock_expires_at``."""

    success: bool
    message: str
    error_code: str


class PushAnswer(Answer):
    success: bool
    count: int
    ids: list[str]


class Message(Answer):
    """What Holdfast knows of an item."""

    id: str
    priority: int
    delivery_count: int
    enqueued_at: str
    partition: int
    idempotency_key: str | None = None
    last_error: str | None = None
    dead_letter: dict[str, Any] | None = None


class ItemsAnswer(Answer):
    items: list[Any]
    count: int
    messages: list[Message]


class PopAnswer(ItemsAnswer):
    locked: bool | None = None
    lock_id: str | None = None
    lock_expires_at: float | None = None


class LockAnswer(Answer):
    success: bool
    message: str
    items_acknowledged: int


class ExtendAnswer(Answer):
    success: bool
    lock_expires_at: float


class LockShown(Answer):
    lock_id_prefix: str
    count: int
    expires_at: str


class LockWithItems(LockShown):
    items: list[Any]
    messages: list[Message]


class InFlightAnswer(Answer):
    locks: list[LockWithItems]


class StatsAnswer(Answer):
    queue: str
    count: int
    priorities: dict[str, int]
    locked: int
    delayed: int
    dead_letters: int
    oldest_age_seconds: float | None
    locks: list[LockShown]
    counters: dict[str, int]
    config: QueueConfig


class PurgeAnswer(Answer):
    success: bool
    purged: int


class QueueListed(Answer):
    queue: str
    count: int
    locked: int
    dead_letters: int


class QueuesAnswer(Answer):
    queues: list[QueueListed]
    next_cursor: str | None = None


_MESSAGE = {
    "id": "0-0-0-0",
    "priority": 0,
    "delivery_count": 1,
    "enqueued_at": "2026-02-28T16:13:35.123Z",
    "partition": 0,
}
_ITEMS = {"items": [{"task_id": 123}], "count": 1, "messages": [_MESSAGE]}
_LOCK = {"lock_id_prefix": "kX3v", "count": 1, "expires_at": "2026-02-28T16:14:05.123Z"}
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
    errors.Unavailable,
)
_HEADERS: dict[type[errors.HoldfastError], dict[str, Any]] = {
    errors.MethodNotAllowed: {
        "Allow": {"description": "The methods there are.", "required": True, "schema": {"type": "string"}}
    },
    errors.Unavailable: {
        "Retry-After": {"description": "In seconds.", "required": True, "schema": {"type": "integer", "minimum": 0}}
    },
}
_LOCK_ERRORS = (errors.InvalidLockId, errors.LockNotFound, errors.LockExpired)


def _document(
    summary: str,
    answer: type[BaseModel],
    example: dict[str, Any],
    *refusals: type[errors.HoldfastError],
    query: type[BaseModel] | None = None,
    body: dict[str, Any] | None = None,
    sent: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """One operation, as OpenAPI has it; models are named, and put in where the document is put together."""
    responses = {"200": _described("Done.", answer, {"answer": example})}
    for refusal in (*_ALWAYS, *refusals):
        shown: dict[str, Any] = {"success": False, "message": refusal.__doc__, "error_code": refusal.code}
        if refusal is errors.QueueLocked:
            shown["lock_expires_at"] = 1709139245.123
        entry = responses.setdefault(str(refusal.status), _described(str(refusal.__doc__), ErrorAnswer, {}))
        entry["content"]["application/json"]["examples"][refusal.code] = {"value": shown}
        if refusal in _HEADERS:
            entry["headers"] = _HEADERS[refusal]
    document: dict[str, Any] = {"tags": ["queues"], "summary": summary, "responses": responses}
    if query is not None:
        document["parameters"] = _parameters(query)
    if body is not None:
        media = {"schema": body, "example": sent}
        document["requestBody"] = {"required": True, "content": {"application/json": media}}
    return document


def _described(description: str, model: type[BaseModel], examples: dict[str, Any]) -> dict[str, Any]:
    shown = {name: {"value": value} for name, value in examples.items()}
    return {"description": description, "content": {"application/json": {"schema": model, "examples": shown}}}


def _parameters(query: type[BaseModel]) -> list[dict[str, Any]]:
    parameters = []
    for name, schema in query.model_json_schema()["properties"].items():
        parameter = {"name": name, "in": "query", "required": False, "schema": schema}
        if "description" in schema:
            parameter["description"] = schema["description"]
        parameters.append(parameter)
    return parameters


_LOCK_ID = {"lock_id": "kX3vQ1b2c4E"}


_PUSH_ITEM = requests.PushItem.model_json_schema()
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


PUSH = _document(
    "Put one item, or up to 1000 at once, into the queue: all or nothing",
    PushAnswer,
    {"success": True, "count": 1, "ids": ["0-0-0-0"]},
    body={"anyOf": [_PUSH_ITEM, _PUSH_MANY]},
    sent={"item": {"task_id": 123}, "priority": 0},
)
ACKNOWLEDGE = _document(
    "Remove what is locked: it is done with",
    LockAnswer,
    _acknowledged("acknowledged"),
    *_LOCK_ERRORS,
    body=requests.Acknowledge.model_json_schema(),
    sent=_LOCK_ID,
)
ABANDON = _document(
    "Give what is locked back, to the front of its priority",
    LockAnswer,
    _acknowledged("given back"),
    *_LOCK_ERRORS,
    body=requests.Abandon.model_json_schema(),
    sent=_LOCK_ID,
)
EXTEND_LOCK = _document(
    "Make a lock last longer, up to 300 seconds from now",
    ExtendAnswer,
    {"success": True, "lock_expires_at": 1709139275.0},
    *_LOCK_ERRORS,
    body=requests.ExtendLock.model_json_schema(),
    sent=_LOCK_ID | {"additional_ttl_seconds": 30},
)
DEAD_LETTER = _document(
    "Move what is locked to the queue's dead-letter queue",
    LockAnswer,
    _acknowledged("dead-lettered"),
    *_LOCK_ERRORS,
    body=requests.DeadLetter.model_json_schema(),
    sent=_LOCK_ID | {"reason": "not an order"},
)
STATS = _document("How much waits, what is locked, how old the oldest is", StatsAnswer, _STATS)
IN_FLIGHT = _document(
    "What is locked, and until when",
    InFlightAnswer,
    {"locks": [_LOCK | {"items": [{"task_id": 123}], "messages": [_MESSAGE]}]},
)
PURGE = _document("Remove all that waits; what is locked stays", PurgeAnswer, {"success": True, "purged": 3})
GET_CONFIG = _document("The whole configuration", QueueConfig, QueueConfig().model_dump())
SET_CONFIG = _document(
    "Change the keys named",
    QueueConfig,
    QueueConfig().model_dump(),
    body=QueueConfig.model_json_schema(),
    sent={"max_deliveries": 5},
)


def pop(query: type[BaseModel]) -> dict[str, Any]:
    locked = _ITEMS | {"locked": True, "lock_id": "kX3vQ1b2c4E", "lock_expires_at": 1709139275.0}
    summary = "Take the first items: lowest priority number first, first in first out"
    document = _document(summary, PopAnswer, locked, errors.QueueLocked, query=query)
    # What can be done with the lock that it gives.
    document["responses"]["200"]["links"] = {
        call: {
            "operationId": f"post_queue_{call}",
            "parameters": {"queue": "$request.path.queue"},
            "requestBody": {"lock_id": "$response.body#/lock_id"},
        }
        for call in ("acknowledge", "abandon", "extend_lock", "dead_letter")
    }
    return document


def peek(query: type[BaseModel]) -> dict[str, Any]:
    return _document("The next items, left where they are", ItemsAnswer, _ITEMS, query=query)


def queues(query: type[BaseModel]) -> dict[str, Any]:
    return _document("The queues there are, by name", QueuesAnswer, {"queues": [_COUNTS]}, query=query)
