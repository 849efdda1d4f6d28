"""The configuration of a queue."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from holdfast.backoff import backoff_seconds
from holdfast.errors import InvalidRequest
from holdfast.names import ID_PATTERN, MAX_ID_LENGTH, check_queue_id
from holdfast.pushpop.api.requests import MAX_SECONDS, explain, refuse_many_unknown

MAX_PARTITIONS = 256
# The lock limit of a queue of activities, unless it was configured higher.
_LOCKS_OF_WORKERS = 10_000


class QueueConfig(BaseModel):
    """A queue's configuration. A change contains only the keys to change."""

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
            # For the schema only: names are validated in one place, so that the error is the same everywhere.
            json_schema_extra={"pattern": ID_PATTERN, "maxLength": MAX_ID_LENGTH},
        ),
    ] = None
    dedup_window_seconds: Annotated[
        int, Field(ge=0, le=86_400, description="How long a dedup_id is remembered; 0 turns deduplication off.")
    ] = 300
    capacity: Annotated[
        int | None, Field(ge=1, le=2**53, description="The most items in the queue, including locked and delayed ones.")
    ] = None
    default_ttl_seconds: Annotated[
        int | None, Field(ge=1, le=MAX_SECONDS, description="The ttl_seconds of items that are pushed without one.")
    ] = None
    expired_to_dead_letters: Annotated[
        bool, Field(description="Whether items that expire become dead letters, or are dropped.")
    ] = False
    worker_queue: Annotated[
        bool,
        Field(description="Whether consumers handle items with exhausted deliveries, as workers of activities do."),
    ] = False
    rate_per_second: Annotated[
        float | None, Field(gt=0, le=1e9, allow_inf_nan=False, description="How many items may be pushed in a second.")
    ] = None
    retry_delay_seconds: Annotated[
        float,
        Field(
            ge=0,
            le=MAX_SECONDS,
            allow_inf_nan=False,
            description="How long an item that failed once is delayed: it was abandoned with an error, or its lock "
            "expired. 0 delivers it again at once.",
        ),
    ] = 0.0
    retry_delay_factor: Annotated[
        float,
        Field(ge=1, le=1000, allow_inf_nan=False, description="What each further failure multiplies the delay by."),
    ] = 2.0
    retry_delay_max_seconds: Annotated[
        float, Field(ge=0, le=MAX_SECONDS, allow_inf_nan=False, description="The longest such delay.")
    ] = 300.0
    paused: Annotated[
        bool, Field(description="Whether pops get nothing. Pushes, acknowledgements and extensions go on.")
    ] = False

    def retry_delay(self, deliveries: int) -> float:
        """Returns how long an item is delayed after this many deliveries, the last of which failed."""
        longest = self.retry_delay_max_seconds
        return backoff_seconds(deliveries, self.retry_delay_seconds, self.retry_delay_factor, longest)

    def changed(self, changes: dict[str, Any]) -> QueueConfig:
        """Returns the configuration with these changes. Raises InvalidRequest for invalid ones."""
        refuse_many_unknown(QueueConfig, changes)
        try:
            changed = QueueConfig.model_validate(self.model_dump() | changes)
        except ValidationError as error:
            raise InvalidRequest(explain(error)) from None
        if changed.dead_letter_queue is not None:
            check_queue_id(changed.dead_letter_queue)
        return changed

    def shown(self) -> dict[str, Any]:
        """Returns the configuration as callers see it; ``worker_queue`` only if it is set."""
        return self.model_dump(exclude=None if self.worker_queue else {"worker_queue"})

    @classmethod
    def stored(cls, value: dict[str, Any] | None) -> QueueConfig:
        """Returns a saved configuration. Ignores unknown keys, which a later version may have saved."""
        return cls.model_validate({key: entry for key, entry in (value or {}).items() if key in cls.model_fields})


def missing_for_activities(config: dict[str, Any]) -> dict[str, Any]:
    """Returns the changes that a queue needs to serve activities: many locks, and ``worker_queue``.

    With ``worker_queue``, the worker handles items with exhausted deliveries: it reports them to the orchestration.
    """
    if config.get("worker_queue"):
        return {}  # configured before; changes made since then are deliberate
    return {"max_locks": max(_LOCKS_OF_WORKERS, config["max_locks"]), "worker_queue": True}
