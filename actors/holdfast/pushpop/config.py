"""What can be set for a queue."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from holdfast.errors import InvalidRequest
from holdfast.identity import ID_PATTERN, MAX_ID_LENGTH, check_queue_id
from holdfast.pushpop.requests import MAX_SECONDS, explain

MAX_PARTITIONS = 256
# What a queue of activities has room for, unless it was given more.
_LOCKS_OF_WORKERS = 10_000


class QueueConfig(BaseModel):
    """A queue's configuration. A change names the keys it changes."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    partitions: Annotated[
        int, Field(ge=1, le=MAX_PARTITIONS, description="How many actors share the queue. It can only grow.")
    ] = 1
    max_locks: Annotated[int, Field(ge=1, le=10_000, description="How many locks may be active at once.")] = 1
    max_deliveries: Annotated[
        int, Field(ge=1, le=1_000_000, description="Deliveries before an item becomes a dead letter.")
    ] = 10
    dead_letter_queue: Annotated[
        str | None,
        Field(
            description="Where dead letters go; null means the queue's own, QUEUE-deadletter.",
            # Said, not checked here: how a name is refused is the same everywhere.
            json_schema_extra={"pattern": ID_PATTERN, "maxLength": MAX_ID_LENGTH},
        ),
    ] = None
    dedup_window_seconds: Annotated[
        int, Field(ge=0, le=86_400, description="How long a dedup_id is remembered; 0: not at all.")
    ] = 300
    capacity: Annotated[
        int | None, Field(ge=1, le=2**53, description="How many items there may be, locked and delayed ones included.")
    ] = None
    default_ttl_seconds: Annotated[
        int | None, Field(ge=1, le=MAX_SECONDS, description="Of items that are pushed without a ttl_seconds.")
    ] = None
    expired_to_dead_letters: Annotated[
        bool, Field(description="Whether items that expire become dead letters, or are dropped.")
    ] = False
    worker_queue: Annotated[
        bool,
        Field(
            description="Whether those who take items decide what was delivered too often, as workers of activities do."
        ),
    ] = False
    rate_per_second: Annotated[
        float | None, Field(gt=0, le=1e9, allow_inf_nan=False, description="How many items may be pushed in a second.")
    ] = None

    def changed(self, changes: dict[str, Any]) -> QueueConfig:
        """Raises InvalidRequest, in a sentence, for what cannot be set."""
        try:
            changed = QueueConfig.model_validate(self.model_dump() | changes)
        except ValidationError as error:
            raise InvalidRequest(explain(error)) from None
        if changed.dead_letter_queue is not None:
            check_queue_id(changed.dead_letter_queue)
        return changed

    def shown(self) -> dict[str, Any]:
        """As callers see it; what only workers set, only where they did."""
        return self.model_dump(exclude=None if self.worker_queue else {"worker_queue"})

    @classmethod
    def stored(cls, value: dict[str, Any] | None) -> QueueConfig:
        """What was saved, by a later version too: a key that is not known here is left out."""
        return cls.model_validate({key: entry for key, entry in (value or {}).items() if key in cls.model_fields})


def missing_for_activities(config: dict[str, Any]) -> dict[str, Any]:
    """What has to be set before a queue can be one of activities.

    Many locks at once; and what was delivered too often is left to the worker, which tells whoever waits for it.
    """
    if config.get("worker_queue"):
        return {}  # what was changed since then is as somebody wants it
    return {"max_locks": max(_LOCKS_OF_WORKERS, config["max_locks"]), "worker_queue": True}
