"""The context of an activity: the call that it runs for."""

from __future__ import annotations

import threading
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from holdfast.errors import NotInAnActivity
from holdfast.names import DEFAULT_TENANT
from holdfast.orchestration.core.heartbeats import details_as_json
from holdfast.orchestration.core.payloads import ANYTHING
from holdfast.tracing import spans

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.worker.work_source import Job

_NONE: Final[Any] = object()


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
    #: What the last run of this call, or the attempt before, gave to ``heartbeat``; None if it gave nothing.
    heartbeat_details: Any = None
    #: The W3C trace context to pass on to what the activity calls; None if its orchestration was started without one.
    traceparent: str | None = None
    _cancelled: threading.Event = field(default_factory=threading.Event, repr=False)
    #: Takes the JSON text of details, or None for a heartbeat without any. May be called in any thread.
    _beat: Callable[[str | None], None] | None = field(default=None, repr=False)

    @property
    def cancelled(self) -> bool:
        """Whether the result is no longer needed. A long sync activity should check this and return early.

        An async activity need not check: it is cancelled at its next ``await``.
        """
        return self._cancelled.is_set()

    def heartbeat(self, details: Any = _NONE) -> None:
        """Reports that the activity goes on, and how far it has come; returns at once.

        The details, any JSON value of at most 2 KiB, are saved within two seconds, of several only the last. The next
        attempt, or the next worker if this one crashes, has them in ``heartbeat_details``. Without an argument, those
        reported before stay. The worker also asks the instance whether it still waits for the result, and if it does
        not, cancels the activity: an async one where it awaits, a sync one by ``cancelled``.

        Raises TypeError for a value that JSON does not have, and TooLarge.
        """
        text = None if details is _NONE else details_as_json(details)
        if self._beat is not None:
            self._beat(text)

    @classmethod
    def of(
        cls,
        job: Job,
        cancelled: threading.Event | None = None,
        beat: Callable[[str | None], None] | None = None,
        heartbeat_details: str | None = None,
    ) -> ActivityContext:
        return cls(
            instance_id=job.instance_id,
            execution_id=job.execution_id,
            scheduled_seq=job.scheduled_seq,
            name=job.name,
            attempt=job.attempt,
            idempotency_key=job.key,
            tenant_id=job.tenant,
            heartbeat_details=None if heartbeat_details is None else ANYTHING.load(heartbeat_details),
            traceparent=job.traceparent if spans.tracer() is None else spans.current() or job.traceparent,
            _cancelled=cancelled or threading.Event(),
            _beat=beat,
        )


current: ContextVar[ActivityContext] = ContextVar("holdfast_activity")


def activity_context() -> ActivityContext:
    """Returns the context of the running activity. Raises NotInAnActivity outside of one."""
    try:
        return current.get()
    except LookupError:
        raise NotInAnActivity from None
