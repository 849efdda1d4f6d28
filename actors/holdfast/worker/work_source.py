"""The interface through which a worker takes jobs and reports their outcomes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Protocol

from pydantic import ConfigDict, Field, model_validator

from holdfast.errors import InvalidRequest
from holdfast.idempotency.keys import activity_key
from holdfast.names import DEFAULT_TENANT, check_id
from holdfast.pushpop.api.requests import Request
from holdfast.runtime.serialization import dump
from holdfast.tracing import spans

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from contextlib import AbstractContextManager

Positive = Annotated[int, Field(ge=1)]


@dataclass(frozen=True, slots=True)
class Job:
    """One activity to run, for an instance that waits for its outcome."""

    item_id: str
    instance_id: str
    execution_id: int
    scheduled_seq: int
    name: str
    attempt: int
    #: JSON text.
    input: str
    #: The number of deliveries, including this one, without deliveries that were abandoned uncounted.
    deliveries: int
    #: The incarnation of the instance that waits.
    incarnation: str | None = None
    #: Whether it may be in its queue twice, because it was dispatched again after a failure.
    again: bool = False
    #: Whether a worker has abandoned it before.
    was_abandoned: bool = False
    #: What the attempt before reported last, as JSON text.
    heartbeat_details: str | None = None
    #: The trace context of the call.
    traceparent: str | None = None
    #: The tenant of its queue. A tenant in the item itself could be forged by anyone who may push there.
    tenant: str = DEFAULT_TENANT

    @property
    def redelivered(self) -> bool:
        """Whether a worker may have run it before, so that its instance may no longer wait for it."""
        return self.deliveries > 1 or self.again or self.was_abandoned

    @property
    def place(self) -> dict[str, Any]:
        """The fields that identify the call in its instance."""
        return {"execution_id": self.execution_id, "scheduled_seq": self.scheduled_seq, "incarnation": self.incarnation}

    @property
    def key(self) -> str:
        """The idempotency key of the call, equal for every run of the activity."""
        return f"{self.instance_id}:{self.execution_id}:{self.scheduled_seq}"

    @property
    def record_key(self) -> str:
        """The key of the worker's idempotency record."""
        return activity_key(self.instance_id, self.execution_id, self.scheduled_seq)

    def log_fields(self, queue: str) -> dict[str, str | int]:
        """Returns the fields of log lines about the job."""
        return {
            "instance_id": self.instance_id,
            "queue": queue,
            "activity": self.name,
            "attempt": self.attempt,
            "tenant": self.tenant,
        }

    def __str__(self) -> str:
        """Returns the name of the activity and its instance, for logs."""
        whose = "" if self.tenant == DEFAULT_TENANT else f" of tenant {self.tenant}"
        return f"{self.name} of {self.instance_id}{whose}"


@dataclass(frozen=True, slots=True)
class Standing:
    """The state of a job, from its instance."""

    #: Whether it still waits for the job.
    awaited: bool
    #: What the job reported last, as JSON text.
    heartbeat_details: str | None = None


@dataclass(frozen=True, slots=True)
class JobBatch:
    """Jobs taken from a queue together, under one lock."""

    tenant: str
    queue: str
    lock_id: str
    jobs: Sequence[Job]
    #: Items that are not activities and were pushed by other programs.
    invalid_items: Sequence[str] = ()


class _Item(Request):
    """An item that an instance pushes onto an activity queue.

    Unknown fields are ignored: a server may be newer than its workers, and what a worker cannot read is dead-lettered.
    """

    model_config = ConfigDict(extra="ignore")

    instance_id: str
    incarnation: str | None = None
    execution_id: Positive
    scheduled_seq: Positive
    name: str
    attempt: Positive
    again: bool = False
    heartbeat_details: Any = None
    input: Any

    @model_validator(mode="before")
    @classmethod
    def known_fields_only(cls, data: Any) -> Any:
        return data


def batch_of(tenant: str, queue: str, answer: dict[str, Any]) -> JobBatch:
    """Returns the batch of a pop under a lock."""
    jobs: list[Job] = []
    invalid_items: list[str] = []
    for item, message in zip(answer["items"], answer["messages"], strict=True):
        try:
            read = _Item.parse(item if isinstance(item, dict) else {})
            check_id(read.instance_id, "instance id")
        except InvalidRequest:
            invalid_items.append(message["id"])
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
                incarnation=read.incarnation,
                again=read.again,
                was_abandoned="last_error" in message,
                heartbeat_details=_text_of(read.heartbeat_details),
                traceparent=message.get("traceparent"),
                tenant=tenant,
            )
        )
    return JobBatch(tenant, queue, answer["lock_id"], jobs, invalid_items)


def outcome_of(job: Job, outcome: dict[str, Any]) -> dict[str, Any]:
    """Returns the report of an outcome to its instance."""
    report = {"of": "activity"} | job.place | outcome
    if spans.tracer() is not None and (context := spans.current()) is not None:
        report["traceparent"] = context
    return report


def standing_of(answer: dict[str, Any]) -> Standing:
    return Standing(bool(answer["awaited"]), answer.get("heartbeat_details"))


def _text_of(details: Any) -> str | None:
    return None if details is None else dump(details).decode()


class WorkSource(Protocol):
    """The queues and instances that a worker works for. Every call may raise a HoldfastError, retryable or not."""

    def tenants(self) -> AsyncIterator[str]:
        """Yields the tenants whose queues are to be served, as they become known."""
        ...

    async def prepare(self, tenant: str, queue: str) -> int:
        """Prepares a queue before the first job is taken from it. Returns its ``max_deliveries``."""
        ...

    async def take(self, tenant: str, queue: str, count: int, lock_seconds: int) -> JobBatch | None:
        """Takes up to ``count`` jobs. Waits some seconds for the first, and returns None when none arrives."""
        ...

    def expecting(self, job: Job) -> AbstractContextManager[None]:
        """A context for running a job: announces that its outcome will be reported to its instance."""
        ...

    async def extend(self, batch: JobBatch, seconds: int) -> None: ...

    async def complete(self, batch: JobBatch, job: Job) -> None:
        """Completes a job: removes it from its queue."""
        ...

    async def abandon(
        self, batch: JobBatch, jobs: Sequence[Job], error: str, delay_seconds: float, *, counted: bool
    ) -> None:
        """Abandons jobs to their queue. Without ``counted`` this delivery does not count towards the maximum."""
        ...

    async def dead_letter(self, batch: JobBatch, item_ids: Sequence[str], reason: str) -> None:
        """Moves items to the dead-letter queue."""
        ...

    async def report(self, job: Job, outcome: dict[str, Any]) -> None:
        """Reports the outcome; its instance has recorded it on return. Raises NotFound if there is no such instance."""
        ...

    async def standing(self, job: Job) -> Standing:
        """Returns whether the instance still waits for the job, and what the job reported last."""
        ...

    async def heartbeat(self, job: Job, details: str | None) -> bool:
        """Saves the details, JSON text, of a running job. Returns whether the instance still waits for the job."""
        ...

    async def call_record(self, job: Job, what: str, body: dict[str, Any]) -> dict[str, Any]:
        """Calls the idempotency record of this job: ``begin``, ``renew``, ``commit`` or ``fail``."""
        ...
