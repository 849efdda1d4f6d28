"""Where a worker finds its work, and where it puts what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

# Of the lock on what was taken; it is extended as long as there is something to do.
LOCK_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Job:
    """One activity that somebody waits for."""

    item_id: str
    instance_id: str
    execution_id: int
    scheduled_seq: int
    name: str
    attempt: int
    #: JSON text.
    input: str
    #: How often it was taken from its queue, this time included.
    deliveries: int

    @property
    def key(self) -> str:
        """The same however often the activity is run for this call."""
        return f"{self.instance_id}:{self.execution_id}:{self.scheduled_seq}"


@dataclass(frozen=True, slots=True)
class Batch:
    """What was taken from a queue together, under one lock."""

    queue: str
    lock_id: str
    jobs: Sequence[Job]


class Bench(Protocol):
    """Every call may raise a HoldfastError; what is retryable says so."""

    async def prepare(self, queue: str) -> None:
        """Before the first job is taken from a queue."""
        ...

    async def take(self, queue: str, count: int) -> Batch | None:
        """Up to so many jobs; waits some seconds for the first, and answers None when none came."""
        ...

    async def extend(self, batch: Batch) -> None: ...

    async def done(self, batch: Batch, job: Job) -> None:
        """It leaves its queue."""
        ...

    async def give_back(self, batch: Batch, jobs: Sequence[Job], error: str, delay_seconds: float) -> None: ...

    async def bury(self, batch: Batch, job: Job, reason: str) -> None:
        """It becomes a dead letter."""
        ...

    async def tell(self, job: Job, outcome: dict[str, Any]) -> None:
        """The instance knows when this returns. Raises NotFound when there is no such instance."""
        ...

    async def awaited(self, job: Job) -> bool:
        """Whether anybody still waits for it."""
        ...
