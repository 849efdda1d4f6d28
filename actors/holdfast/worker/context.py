"""What an activity can know of the call it runs for."""

from __future__ import annotations

import threading
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from holdfast.errors import NotInAnActivity
from holdfast.identity import DEFAULT_TENANT

if TYPE_CHECKING:
    from holdfast.worker.bench import Job


@dataclass(frozen=True)
class ActivityContext:
    """``holdfast.activity_context()``, inside an activity."""

    instance_id: str
    execution_id: int
    scheduled_seq: int
    name: str
    #: Which try of ``Retry`` this is, from 1.
    attempt: int
    #: The same for every run of this call, for effects that must happen once.
    idempotency_key: str
    #: Whose orchestration it is: ``client.idempotent(tenant_id=…)`` keeps what is for one tenant from the others.
    tenant_id: str = DEFAULT_TENANT
    _cancelled: threading.Event = field(default_factory=threading.Event, repr=False)

    @property
    def cancelled(self) -> bool:
        """Whether nobody waits for the result any more: a long activity looks from time to time, and returns.

        An async one need not: it is cancelled where it waits.
        """
        return self._cancelled.is_set()

    @classmethod
    def of(cls, job: Job) -> ActivityContext:
        return cls(job.instance_id, job.execution_id, job.scheduled_seq, job.name, job.attempt, job.key, job.tenant)


current: ContextVar[ActivityContext] = ContextVar("holdfast_activity")


def activity_context() -> ActivityContext:
    """What the running activity runs for."""
    try:
        return current.get()
    except LookupError:
        raise NotInAnActivity from None
