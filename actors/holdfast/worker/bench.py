"""Where a worker finds its work, and where it puts what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Protocol

from pydantic import Field

from holdfast.errors import InvalidRequest
from holdfast.identity import DEFAULT_TENANT, check_id
from holdfast.pushpop.requests import Request
from holdfast.runtime.serialization import dump

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from contextlib import AbstractContextManager

Positive = Annotated[int, Field(ge=1)]


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
    #: Which instance of that id waits.
    life: str | None = None
    #: Whether it may be in its queue twice.
    again: bool = False
    #: Whose queue it was in. What the item says of itself anybody may have written who can push there.
    tenant: str = DEFAULT_TENANT

    @property
    def place(self) -> dict[str, Any]:
        """What its instance knows it by."""
        return {"execution_id": self.execution_id, "scheduled_seq": self.scheduled_seq, "life": self.life}

    @property
    def key(self) -> str:
        """The same however often the activity is run for this call."""
        return f"{self.instance_id}:{self.execution_id}:{self.scheduled_seq}"

    @property
    def record_key(self) -> str:
        """What the worker's own record of it has: the key itself is the author's to use. No id has a slash in it."""
        return f"activity/{self.key}"

    def __str__(self) -> str:
        """As the log has it."""
        whose = "" if self.tenant == DEFAULT_TENANT else f" of tenant {self.tenant}"
        return f"{self.name} of {self.instance_id}{whose}"


@dataclass(frozen=True, slots=True)
class Batch:
    """What was taken from a queue together, under one lock."""

    tenant: str
    queue: str
    lock_id: str
    jobs: Sequence[Job]
    #: Items that are no activities: somebody else has put them there.
    strangers: Sequence[str] = ()


class _Item(Request):
    """What an instance puts into a queue of activities."""

    instance_id: str
    life: str | None = None
    execution_id: Positive
    scheduled_seq: Positive
    name: str
    attempt: Positive
    again: bool = False
    input: Any


def batch_of(tenant: str, queue: str, answer: dict[str, Any]) -> Batch:
    """What a pop under a lock gave."""
    jobs: list[Job] = []
    strangers: list[str] = []
    for item, message in zip(answer["items"], answer["messages"], strict=True):
        try:
            read = _Item.parse(item if isinstance(item, dict) else {})
            check_id(read.instance_id, "instance id")
        except InvalidRequest:
            strangers.append(message["id"])
            continue
        jobs.append(
            Job(
                item_id=message["id"],
                instance_id=read.instance_id,
                execution_id=read.execution_id,
                scheduled_seq=read.scheduled_seq,
                name=read.name,
                attempt=read.attempt,
                input=dump(read.input).decode(),
                deliveries=message["delivery_count"],
                life=read.life,
                again=read.again,
                tenant=tenant,
            )
        )
    return Batch(tenant, queue, answer["lock_id"], jobs, strangers)


class Bench(Protocol):
    """Every call may raise a HoldfastError; what is retryable says so."""

    def tenants(self) -> AsyncIterator[str]:
        """Those whose queues are to be served, as they become known."""
        ...

    async def prepare(self, tenant: str, queue: str) -> int:
        """Before the first job is taken from a queue. Answers how often one may be delivered there."""
        ...

    async def take(self, tenant: str, queue: str, count: int, lock_seconds: int) -> Batch | None:
        """Up to so many jobs; waits some seconds for the first, and answers None when none came."""
        ...

    def expecting(self, job: Job) -> AbstractContextManager[None]:
        """While it runs: its instance will be told how it ended."""
        ...

    async def extend(self, batch: Batch, seconds: int) -> None: ...

    async def done(self, batch: Batch, job: Job) -> None:
        """It leaves its queue."""
        ...

    async def give_back(self, batch: Batch, jobs: Sequence[Job], error: str, delay_seconds: float) -> None: ...

    async def bury(self, batch: Batch, item_ids: Sequence[str], reason: str) -> None:
        """They become dead letters."""
        ...

    async def tell(self, job: Job, outcome: dict[str, Any]) -> None:
        """The instance knows when this returns. Raises NotFound when there is no such instance."""
        ...

    async def awaited(self, job: Job) -> bool:
        """Whether anybody still waits for it."""
        ...

    async def once(self, job: Job, what: str, body: dict[str, Any]) -> dict[str, Any]:
        """Asks the record of what must happen once for this job: ``begin``, ``renew``, ``commit`` or ``fail``."""
        ...
