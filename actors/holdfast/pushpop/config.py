"""What can be set for a queue."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from holdfast.errors import InvalidRequest
from holdfast.identity import check_id

DEAD_LETTER_SUFFIX = "-deadletter"


class QueueConfig(BaseModel):
    """A queue's configuration. A change names the keys it changes."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    max_locks: Annotated[int, Field(ge=1, le=10_000, description="How many locks may be active at once.")] = 1
    max_deliveries: Annotated[
        int, Field(ge=1, le=1_000_000, description="Deliveries before an item becomes a dead letter.")
    ] = 10
    dead_letter_queue: Annotated[
        str | None, Field(description="Where dead letters go; null means the queue's own, QUEUE-deadletter.")
    ] = None

    def changed(self, changes: dict[str, Any]) -> QueueConfig:
        """Raises InvalidRequest, in a sentence, for what cannot be set."""
        try:
            changed = QueueConfig.model_validate(self.model_dump() | changes)
        except ValidationError as error:
            first = error.errors()[0]
            raise InvalidRequest(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
        if changed.dead_letter_queue is not None:
            check_id(changed.dead_letter_queue, "dead_letter_queue")
        return changed

    def dead_letters_of(self, queue: str) -> str | None:
        """The queue that takes this one's dead letters; a dead-letter queue has none of its own."""
        if queue.endswith(DEAD_LETTER_SUFFIX):
            return None
        return self.dead_letter_queue or queue + DEAD_LETTER_SUFFIX
