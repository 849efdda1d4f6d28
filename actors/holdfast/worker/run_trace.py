"""The span of one run of an activity, which is the current one while the activity runs and its outcome is reported."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Self

from holdfast.tracing import spans

if TYPE_CHECKING:
    from types import TracebackType

    from holdfast.worker.work_source import Job


class RunTrace:
    """A context for a run. Makes no span without tracing, or for a call that belongs to no trace."""

    def __init__(self, job: Job, queue: str) -> None:
        self._job = job
        self._queue = queue
        self._tracer = None if job.traceparent is None else spans.tracer()
        self._span: Any = None
        self._current = ExitStack()

    def __enter__(self) -> Self:
        job = self._job
        if self._tracer is not None:
            attributes: spans.Attributes = {
                "messaging.destination.name": self._queue,
                "holdfast.instance_id": job.instance_id,
                "holdfast.tenant": job.tenant,
                "holdfast.activity": job.name,
                "holdfast.attempt": job.attempt,
                "holdfast.delivery_count": job.deliveries,
            }
            name = f"run {job.name}"
            self._span = self._tracer.start(name, job.traceparent, kind="CONSUMER", attributes=attributes)
            self._current.enter_context(self._tracer.current(self._span))
        return self

    def ended(self, outcome: dict[str, Any]) -> None:
        """Ends the span, with the type of the failure if there is one. It stays the current one."""
        if self._tracer is not None:
            if (failure := outcome.get("error")) is not None:
                self._tracer.fail(self._span, failure["type"])
            self._end()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._current.close()
        if self._tracer is not None and self._span is not None:
            if kind is not None:
                self._tracer.fail(self._span, kind.__name__)
            self._end()

    def _end(self) -> None:
        span, self._span = self._span, None
        span.end()
