"""Runs one activity: reads its input, calls it in a task or a thread, limits its time, and writes its outcome."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from holdfast.errors import TooLarge
from holdfast.logs import about
from holdfast.orchestration.core.failures import Failure
from holdfast.orchestration.core.payloads import sendable
from holdfast.runtime.metrics import outcome_of
from holdfast.worker.activity_lease import not_kept
from holdfast.worker.context import current
from holdfast.worker.thread_exit import Threads

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.orchestration.definitions import Activity
    from holdfast.runtime.metrics import WorkerMetrics
    from holdfast.worker.context import ActivityContext
    from holdfast.worker.work_source import Job

log = logging.getLogger(__name__)


class ActivityRunner:
    """Runs activities. Sync ones have as many threads per tenant as it has slots, so that tenants do not compete."""

    def __init__(self, threads: int, most_abandoned: int, metrics: WorkerMetrics) -> None:
        self._size = threads
        self._most_abandoned = most_abandoned
        self._metrics = metrics
        self._threads: dict[str, Threads] = {}

    def threads_of(self, tenant: str) -> Threads:
        if tenant not in self._threads:
            self._threads[tenant] = Threads(self._size, self._most_abandoned, self._metrics.abandoned_threads)
        return self._threads[tenant]

    async def run(self, activity: Activity, job: Job, context: ActivityContext) -> dict[str, Any]:
        """Runs the activity and returns its outcome, as its instance takes it. Failures are logged."""
        with self._metrics.seconds.labels(activity.name).time():
            outcome = await self._run(activity, job, context)
        if isinstance(outcome, Failure):
            # Without the message, which may contain payloads.
            log.warning(
                "%s failed in attempt %d with %s (%s); its history has the message",
                *(job, job.attempt, outcome.type, outcome.kind),
                extra=about(outcome.trace()),
            )
        kind = outcome.kind if isinstance(outcome, Failure) else None
        self._metrics.activities.labels(activity.name, outcome_of(kind)).inc()
        return failed(outcome) if isinstance(outcome, Failure) else {"result": outcome}

    async def _run(self, activity: Activity, job: Job, context: ActivityContext) -> str | Failure:
        try:
            arguments = activity.arguments(job.input)
        except ValidationError as error:
            return Failure.of(error, "refused")
        token = current.set(context)
        try:
            async with asyncio.timeout(activity.timeout) as limit:
                result = await self._call(activity, arguments, job.tenant)
            return _written(activity, result)
        except TimeoutError as error:
            if limit.expired() and not activity.is_async:
                count = self.threads_of(job.tenant).abandoned
                log.warning("%s: timed out; its thread is abandoned and still runs; abandoned threads: %d", job, count)
            return Failure.of(error, "timeout" if limit.expired() else "error")
        except Exception as error:
            return Failure.of(error)
        except (SystemExit, KeyboardInterrupt) as error:
            # Raised by the activity: it must not end the worker's process.
            return Failure.of(RuntimeError(f"{type(error).__name__}({error})"))
        finally:
            current.reset(token)

    def shut_down(self) -> None:
        for threads in self._threads.values():
            threads.shut_down()

    async def _call(self, activity: Activity, arguments: Sequence[Any], tenant: str) -> Any:
        if activity.is_async:
            return await activity.function(*arguments)
        return await self.threads_of(tenant).run(activity.function, *arguments)


def failed(failure: Failure) -> dict[str, Any]:
    return {"error": failure.dump()}


def _written(activity: Activity, result: Any) -> str:
    try:
        return sendable(activity.result.dump(result), "A result")
    except (TypeError, TooLarge) as error:
        if activity.idempotent:
            raise not_kept(error) from error
        raise
