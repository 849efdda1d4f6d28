"""The context of an activity: the call that it runs for."""

from __future__ import annotations

import threading
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from holdfast.errors import NotInAnActivity
from holdfast.names import DEFAULT_TENANT

if TYPE_CHECKING:
    from holdfast.worker.work_source import Job


@dataclass(frozen=True)
class ActivityContext:
    """The call that an activity runs for, as ``holdfast.activity_context()`` returns it."""

    instance_id: str
    execution_id: int
    scheduled_seq: int
    name: str
    #: The number of the attempt under ``Retry``, from 1.
    attempt: int
    #: Equal for every run of this call, for side effects that must happen once.
    idempotency_key: str
    #: The tenant of the orchestration, for ``client.idempotent(tenant_id=…)``.
    tenant_id: str = DEFAULT_TENANT
    _cancelled: threading.Event = field(default_factory=threading.Event, repr=False)

    @property
    def cancelled(self) -> bool:
        """Whether the result is no longer needed. A long sync activity should check this and return early.

        An async activity need not check: it is cancelled at its next ``await``.
        """
        return self._cancelled.is_set()

    @classmethod
    def of(cls, job: Job) -> ActivityContext:
        return cls(job.instance_id, job.execution_id, job.scheduled_seq, job.name, job.attempt, job.key, job.tenant)


current: ContextVar[ActivityContext] = ContextVar("holdfast_activity")


def activity_context() -> ActivityContext:
    """Returns the context of the running activity. Raises NotInAnActivity outside of one."""
    try:
        return current.get()
    except LookupError:
        raise NotInAnActivity from None
