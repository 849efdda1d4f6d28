"""The schemas of the answers in ``/openapi.json``."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

from holdfast.pushpop.api.config import QueueConfig  # noqa: TC001 (pydantic looks it up)


def inlined(model: type[BaseModel]) -> dict[str, Any]:
    """Returns the schema of a model with the definitions in place of the references to them.

    For schemas of bodies and parameters: a reference ``#/$defs/…`` in them would start at the whole document.
    """
    schema = model.model_json_schema()
    definitions = schema.pop("$defs", {})

    def resolve(value: Any) -> Any:
        if isinstance(value, dict):
            named = definitions.get(str(value.get("$ref", "")).removeprefix("#/$defs/"))
            own = {key: resolve(entry) for key, entry in value.items() if named is None or key != "$ref"}
            return own if named is None else resolve(named) | own
        return [resolve(entry) for entry in value] if isinstance(value, list) else value

    resolved: dict[str, Any] = resolve(schema)
    return resolved


class Answer(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ErrorAnswer(BaseModel):
    """The form of every error.

    Some have more fields: QUEUE_LOCKED has ``lock_expires_at``, CAPACITY and RATE_LIMITED ``retry_after`` in seconds,
    NOT_LEASED the numbers ``completed`` and ``ignored`` and the ids in ``not_leased``.
    """

    success: bool
    message: str
    error_code: str


class PushAnswer(Answer):
    success: bool
    count: int
    ids: list[str]


class Message(Answer):
    """The metadata of an item."""

    id: str
    priority: int
    delivery_count: int
    enqueued_at: str
    partition: int
    dedup_id: str | None = None
    idempotency_key: str | None = None
    tenant_id: str | None = None
    traceparent: str | None = None
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
    #: True if the queue is paused, which is why there are no items.
    paused: bool | None = None


class LockAnswer(Answer):
    success: bool
    message: str
    items_acknowledged: int
    #: How many of the items were dead-lettered, as they had reached max_deliveries.
    dead_lettered: int | None = None


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
    #: If there are many, the ones that expire first.
    locks: list[LockWithItems]
    locks_not_shown: int | None = None


class StatsAnswer(Answer):
    queue: str
    count: int
    priorities: dict[str, int]
    locked: int
    delayed: int
    dead_letters: int
    oldest_age_seconds: float | None
    #: If there are many, the ones that expire first.
    locks: list[LockShown]
    locks_not_shown: int | None = None
    counters: dict[str, int]
    config: QueueConfig


class CompleteAnswer(Answer):
    success: bool
    completed: int
    ignored: int


class DeadLetterShown(Answer):
    id: str
    item: Any
    reason: str | None
    attempts: int
    last_error: str | None
    original_queue: str
    original_partition: int
    original_id: str
    tenant_id: str | None
    idempotency_key: str | None
    dead_lettered_at: str


class DeadLettersAnswer(Answer):
    dead_letters: list[DeadLetterShown]
    next_cursor: str | None = None


class RedriveAnswer(Answer):
    success: bool
    redriven: int
    more: bool | None = None
    #: Where to continue; not with ids.
    next_cursor: str | None = None


class DeadLettersDeletedAnswer(Answer):
    success: bool
    deleted: int
    more: bool | None = None
    #: Where to continue; not with ids.
    next_cursor: str | None = None


class PurgeAnswer(Answer):
    success: bool
    purged: int


class QueueListed(Answer):
    queue: str
    count: int | None = None
    locked: int | None = None
    #: None when the dead-letter queue is damaged.
    dead_letters: int | None = None
    #: The error code of a damaged queue, which is listed without figures.
    error: str | None = None


class QueuesAnswer(Answer):
    queues: list[QueueListed]
    next_cursor: str | None = None
