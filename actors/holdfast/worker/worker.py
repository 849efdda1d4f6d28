"""Takes activities from their queues, runs them, reports their outcomes, and then completes them in the queue."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from functools import partial
from math import ceil
from random import uniform
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry

from holdfast.errors import AlreadyInProgress, HoldfastError, InvalidRequest, LeaseLost, NotFound
from holdfast.logs import RepeatFilter, counted, message_of, set_log_fields
from holdfast.names import qualify
from holdfast.orchestration.core.failures import Failure
from holdfast.runtime.metrics import UNDECLARED, WorkerMetrics
from holdfast.worker.activity_lease import ActivityLease
from holdfast.worker.context import ActivityContext
from holdfast.worker.heartbeats import Heartbeats
from holdfast.worker.in_flight import InFlightBatch, running_jobs
from holdfast.worker.retry import retry_forever
from holdfast.worker.run_trace import RunTrace
from holdfast.worker.runner import ActivityRunner, failed
from holdfast.worker.slots import Seat, Slots
from holdfast.worker.thread_exit import NAME
from holdfast.worker.work_source import Standing

if TYPE_CHECKING:
    from collections.abc import Collection, Coroutine, Sequence

    from holdfast.orchestration.definitions import Activity
    from holdfast.orchestration.registry import Registry
    from holdfast.worker.work_source import Job, JobBatch, WorkSource

log = logging.getLogger(__name__)

DEFAULT_SLOTS = 50
#: How many threads per tenant may be abandoned after time-outs before the worker starts no more sync activities.
DEFAULT_ABANDONED_THREADS = 50
#: How many seconds cancelled activities get to clean up when the worker stops.
DEFAULT_DRAIN_TIMEOUT = 30.0
# The delay before redelivery of an activity that cannot run here now, or that failed inside the worker.
_RETURN_SECONDS = 5.0
# The spacing between redeliveries of activities that cannot run here, so that many of them do not occupy the worker.
_RETURN_APART = 0.02
_LONGEST_RETURN = 300.0
# How long a job may hold a slot while its instance or its record is asked whether to run it.
_MAX_WAIT_SECONDS = 5.0
# Repeated warnings of the same kind are suppressed for this long.
_QUIET_SECONDS = 300.0
_QUIET_SECONDS_OF_QUEUES = 60.0
# When the worker stops: the time to deliver outcomes, and the time to abandon a batch.
_DELIVER_SECONDS = 1.0
_STOP_SECONDS = 5.0
# The longest lock that a queue allows.
_LONGEST_LOCK = 300


class Worker:
    """Runs activities until it is cancelled; unfinished activities are then abandoned to their queues."""

    def __init__(
        self,
        source: WorkSource,
        registry: Registry,
        *,
        slots: int = DEFAULT_SLOTS,
        abandoned_threads: int = DEFAULT_ABANDONED_THREADS,
        metrics: WorkerMetrics | None = None,
        gives_up: bool = False,
        drain_timeout: float = DEFAULT_DRAIN_TIMEOUT,
        queues: Collection[str] | None = None,
    ) -> None:
        """Creates a worker for these queues of the registered activities, or for all of them.

        With ``gives_up`` the worker ends when preparing a queue raises an error that is not retryable.
        ``drain_timeout`` is how many seconds cancelled activities get to clean up when the worker stops.
        """
        self._gives_up = gives_up
        self._drain_timeout = drain_timeout
        self._source = source
        self._registry = registry
        # The slots of each queue: a queue that waits for work reserves all its free slots.
        self._slots = slots
        #: The queues of the registered activities, and the duration of locks in each, in seconds.
        self._queues: dict[str, int] = {}
        for activity in registry.activities:
            if queues is not None and activity.queue not in queues:
                continue
            self._queues[activity.queue] = min(activity.lock_seconds, self._queues.get(activity.queue, _LONGEST_LOCK))
        #: The ``max_deliveries`` of each tenant's queue, for activities without their own.
        self._max_deliveries: dict[tuple[str, str], int] = {}
        self._metrics = WorkerMetrics(CollectorRegistry()) if metrics is None else metrics
        for queue in self._queues:
            self._metrics.slots.labels(queue).set(slots)
        self._runner = ActivityRunner(slots * len(self._queues), abandoned_threads, self._metrics)
        #: The latest redelivery time of activities that could not run here, by tenant and queue.
        self._last_return: dict[tuple[str, str], float] = {}
        self._deferrals = RepeatFilter(_QUIET_SECONDS)
        self._unreachable_queues = RepeatFilter(_QUIET_SECONDS_OF_QUEUES)
        self._in_flight: set[InFlightBatch] = set()
        #: The leases of running idempotent activities.
        self._leases: dict[Job, ActivityLease] = {}
        self._background: set[asyncio.Task[None]] = set()

    def describe(self, tenant: str) -> dict[str, Any]:
        """Returns what this worker runs for a tenant, as the REST interface shows it: the longest running first."""
        return {
            "queues": sorted(self._queues),
            "activities": sorted(one.name for one in self._registry.activities if one.queue in self._queues),
            "slots": self._slots,
            **running_jobs(self._in_flight, tenant),
        }

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                async for tenant in self._source.tenants():
                    for queue in sorted(self._queues):
                        group.create_task(self._serve(tenant, queue))
        finally:
            await self._end()

    async def _serve(self, tenant: str, queue: str) -> None:
        # Slots of its own for each tenant, so that a busy tenant does not delay the others.
        slots = Slots(self._slots)
        set_log_fields(queue=queue, tenant=tenant)
        while True:
            wanted = await slots.reserve()
            taken = 0
            try:
                if (tenant, queue) not in self._max_deliveries:
                    self._max_deliveries[tenant, queue] = await self._source.prepare(tenant, queue)
                batch = await self._source.take(tenant, queue, wanted, self._queues[queue])
                if batch is not None:
                    taken = len(batch.jobs)
                    self._begin(batch, slots)
            except HoldfastError as error:
                if (tenant, queue) not in self._max_deliveries and self._gives_up and not error.retryable:
                    raise
                now = asyncio.get_running_loop().time()
                if self._unreachable_queues.passes(f"{qualify(tenant, queue)}: {error}", now):
                    log.warning("queue %s: cannot take activities, retrying: %s", qualify(tenant, queue), error)
                await asyncio.sleep(uniform(0.5, 1.5))
            except Exception:
                # An unexpected error must not stop this queue or the others.
                log.exception("queue %s: taking activities failed, retrying", qualify(tenant, queue))
                await asyncio.sleep(uniform(0.5, 1.5))
            finally:
                slots.release(wanted - taken)

    def _begin(self, batch: JobBatch, slots: Slots) -> None:
        if batch.invalid_items:
            self._spawn(self._dead_letter_invalid(batch))
        if not batch.jobs:
            return
        in_flight = InFlightBatch(batch)
        self._in_flight.add(in_flight)
        # In empty contexts: the jobs do not belong to the call that took the batch.
        for job in batch.jobs:
            in_flight.cancelled[job] = threading.Event()
            in_flight.seats[job] = Seat(slots)
            task = asyncio.create_task(self._work(in_flight, job), name=NAME, context=contextvars.Context())
            in_flight.running[job] = task
        # Most batches end before their lock has to be renewed, so the renewal starts with a timer.
        loop = asyncio.get_running_loop()
        in_flight.began = loop.time()
        in_flight.alarm = loop.call_later(self._queues[batch.queue] / 3, self._start_lock_renewal, in_flight)

    def _start_lock_renewal(self, in_flight: InFlightBatch) -> None:
        self._spawn(self._extend_lock(in_flight))
        self._spawn(self._stop_unawaited(in_flight))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, context=contextvars.Context())
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _dead_letter_invalid(self, batch: JobBatch) -> None:
        set_log_fields(queue=batch.queue, tenant=batch.tenant)
        what = (
            f"dead-lettering {counted(len(batch.invalid_items), 'item')} of queue {batch.queue} that cannot be read "
            "as activities"
        )
        log.warning(what)
        try:
            await retry_forever(
                lambda: self._source.dead_letter(batch, batch.invalid_items, "It is not an activity."), what
            )
        except HoldfastError as error:
            log.warning("%s failed; they are redelivered when their lock expires: %s", what, error)

    async def _extend_lock(self, in_flight: InFlightBatch) -> None:
        """Extends the lock while a job of the batch runs."""
        set_log_fields(queue=in_flight.batch.queue, tenant=in_flight.batch.tenant)
        lasts = self._queues[in_flight.batch.queue]
        clock = asyncio.get_running_loop().time
        began, granted = in_flight.began, lasts
        pause = 0.0
        while await in_flight.runs_on(pause):
            pause = lasts / 3
            # Never longer than a new lock: if this process crashes, redelivery waits for the lock to expire.
            if (missing := ceil(clock() - began + lasts - granted)) <= 0:
                continue
            try:
                async with asyncio.timeout(lasts / 3):
                    await self._source.extend(in_flight.batch, missing)
            except (HoldfastError, TimeoutError) as error:
                log.warning(
                    "queue %s: the lock on running activities was not extended: %s",
                    *(in_flight.batch.queue, message_of(error)),
                )
                if isinstance(error, TimeoutError) or error.retryable:
                    pause = lasts / 12  # while there is still time
            else:
                granted += missing

    async def _stop_unawaited(self, in_flight: InFlightBatch) -> None:
        """Stops jobs that are no longer awaited. Runs apart from the lock renewal: an instance may not answer."""
        pause = 0.0
        while await in_flight.runs_on(pause):
            await asyncio.gather(*(self._check_running(in_flight, job) for job in list(in_flight.running)))
            pause = self._queues[in_flight.batch.queue] / 3

    async def _check_running(self, in_flight: InFlightBatch, job: Job) -> None:
        """Renews the lease of a job, and stops the job if it is no longer awaited. Errors are logged."""
        set_log_fields(**job.log_fields(in_flight.batch.queue))
        try:
            async with asyncio.timeout(self._queues[in_flight.batch.queue] / 3):
                if lease := self._leases.get(job):
                    await self._renew(in_flight, job, lease)
                # An instance that has the outcome no longer awaits the job, which has yet to leave its queue.
                if not (await self._source.standing(job)).awaited and not in_flight.seats[job].delivers:
                    self._stop(in_flight, job)
        except (HoldfastError, TimeoutError) as error:
            log.warning("%s: checking the running activity failed, retrying: %s", job, message_of(error))

    async def _renew(self, in_flight: InFlightBatch, job: Job, lease: ActivityLease) -> None:
        try:
            await lease.renew()
        except LeaseLost:
            # A job that has finished meanwhile needs no lease.
            if self._leases.get(job) is lease and job not in in_flight.lost:
                log.warning("%s: another worker has taken over the lease; stopped here", job)
                in_flight.lost.add(job)
                self._stop(in_flight, job)

    def _stop(self, in_flight: InFlightBatch, job: Job) -> None:
        task = in_flight.running.get(job)
        in_flight.cancelled[job].set()
        activity = self._registry.activity(job.name)
        if task is not None and activity is not None and activity.is_async:
            task.cancel()

    async def _work(self, in_flight: InFlightBatch, job: Job) -> None:
        # A task of its own, in a context of its own: the activity's own log lines have the fields too.
        set_log_fields(**job.log_fields(in_flight.batch.queue))
        cancelled, seat = in_flight.cancelled[job], in_flight.seats[job]
        try:
            await self._process(in_flight, job, seat)
        except asyncio.CancelledError:
            if not cancelled.is_set():
                raise
            self._count(job, "taken_over" if job in in_flight.lost else "cancelled")
            if job not in in_flight.lost:
                seat.deliver()
                await retry_forever(lambda: self._source.complete(in_flight.batch, job), f"completing {job}")
        except HoldfastError as error:
            log.warning("%s: abandoned and redelivered later: %s", job, error)
            await self._return(in_flight.batch, job, seat, str(error))
        except Exception as error:
            log.exception("%s: the worker failed; abandoned and redelivered later", job)
            await self._return(in_flight.batch, job, seat, f"The worker failed: {type(error).__name__}.")
        finally:
            del in_flight.running[job]
            if not in_flight.running:
                self._in_flight.discard(in_flight)
                if in_flight.alarm is not None:
                    in_flight.alarm.cancel()
            seat.end()

    async def _process(self, in_flight: InFlightBatch, job: Job, seat: Seat) -> None:
        batch = in_flight.batch
        heartbeats = Heartbeats(job, self._source.heartbeat, partial(self._stop, in_flight, job))
        if job.redelivered:
            standing = await self._ask(batch, job, seat)
            if not standing.awaited:
                return
            heartbeats.found(standing.heartbeat_details)
        activity = self._registry.activity(job.name)
        if activity is None:
            await self._defer(batch, job, seat, f"this worker has no activity {job.name}")
            return
        if job.deliveries > (activity.max_deliveries or self._max_deliveries[batch.tenant, batch.queue]):
            reason = f"It was delivered {job.deliveries - 1} times and never finished."
            seat.deliver()
            self._count(job, "poison")
            await self._tell(job, heartbeats.add_to(failed(Failure(type="Poison", message=reason, kind="poison"))))
            await retry_forever(lambda: self._source.dead_letter(batch, [job.item_id], reason), f"dead-lettering {job}")
            return
        if not activity.is_async and self._runner.threads_of(job.tenant).exhausted:
            count = self._runner.threads_of(job.tenant).abandoned
            await self._defer(batch, job, seat, f"too many threads of timed-out activities still run: {count}")
            return
        lease = (
            ActivityLease(self._source, job, activity.queue, 2 * self._queues[activity.queue])
            if activity.idempotent
            else None
        )
        outcome: dict[str, Any] | None = None
        try:
            with self._source.expecting(job), RunTrace(job, batch.queue) as trace:
                if lease is not None:
                    try:
                        async with asyncio.timeout(_MAX_WAIT_SECONDS):
                            outcome = await lease.begin()
                    except TimeoutError:
                        await self._defer(batch, job, seat, f"the idempotency record of {job} does not answer")
                        return
                if outcome is None:
                    outcome = await self._run_held(activity, job, in_flight.cancelled[job], heartbeats, seat, lease)
                trace.ended(outcome)
                seat.deliver()
                await self._tell(job, outcome)
        except AlreadyInProgress:
            # The activity is in the queue twice and the other item is in flight. If that fails, it is redelivered.
            seat.deliver()
        await retry_forever(lambda: self._source.complete(batch, job), f"completing {job}")

    async def _ask(self, batch: JobBatch, job: Job, seat: Seat) -> Standing:
        """Asks whether to run a redelivered job; otherwise the job is completed or abandoned.

        The earlier worker may have reported the outcome and crashed before completing the job, or the instance may no
        longer wait for it. If the instance does not answer, the job is redelivered later and frees its slot.
        """
        try:
            async with asyncio.timeout(_MAX_WAIT_SECONDS):
                standing = await retry_forever(
                    lambda: self._source.standing(job), f"asking instance {job.instance_id} whether it awaits {job}"
                )
        except TimeoutError:
            await self._defer(batch, job, seat, f"instance {job.instance_id} does not answer")
            return Standing(awaited=False)
        if not standing.awaited:
            seat.deliver()
            await retry_forever(lambda: self._source.complete(batch, job), f"completing {job}")
        return standing

    async def _defer(self, batch: JobBatch, job: Job, seat: Seat, reason: str) -> None:
        """Abandons a job that cannot run here now, for a later redelivery. This delivery does not count."""
        now, queue = asyncio.get_running_loop().time(), (batch.tenant, batch.queue)
        if self._deferrals.passes(f"{batch.queue}: {reason}", now):
            log.warning("%s: abandoned to queue %s: %s", job, qualify(batch.tenant, batch.queue), reason)
        error = f"{reason[0].upper()}{reason[1:]}."
        following = self._last_return.get(queue, now) + _RETURN_APART
        self._last_return[queue] = min(max(now + _RETURN_SECONDS, following), now + _LONGEST_RETURN)
        await self._return(batch, job, seat, error, self._last_return[queue] - now, counted=False)

    async def _return(
        self,
        batch: JobBatch,
        job: Job,
        seat: Seat,
        error: str,
        delay_seconds: float = _RETURN_SECONDS,
        *,
        counted: bool = True,
    ) -> None:
        """Abandons one job at once: the lock of its batch is extended while another job of the batch runs."""
        self._count(job, "abandoned")
        seat.deliver()

        async def abandon() -> None:
            await self._source.abandon(batch, [job], error, delay_seconds, counted=counted)

        try:
            await retry_forever(abandon, f"abandoning {job}")
        except HoldfastError as refusal:
            log.warning("%s: not abandoned; redelivered when its lock expires: %s", job, refusal)

    async def _run_held(
        self,
        activity: Activity,
        job: Job,
        cancelled: threading.Event,
        heartbeats: Heartbeats,
        seat: Seat,
        lease: ActivityLease | None,
    ) -> dict[str, Any]:
        """Runs the activity, under its lease if it is idempotent."""
        context = ActivityContext.of(job, cancelled, heartbeats.beat, heartbeats.details)
        if lease is not None:
            self._leases[job] = lease
        try:
            with self._metrics.running.labels(activity.queue).track_inprogress():
                outcome = await self._runner.run(activity, job, context)
        except asyncio.CancelledError:
            heartbeats.close()
            if not cancelled.is_set():
                await heartbeats.flush()
            raise
        finally:
            heartbeats.close()
            self._leases.pop(job, None)
        if lease is not None:
            seat.deliver()
            outcome = await lease.end(outcome)
        return heartbeats.add_to(outcome)

    def _count(self, job: Job, outcome: str) -> None:
        name = UNDECLARED if self._registry.activity(job.name) is None else job.name
        self._metrics.activities.labels(name, outcome).inc()

    async def _tell(self, job: Job, outcome: dict[str, Any]) -> None:
        """Reports the outcome to the instance, retrying until it is delivered."""
        try:
            await retry_forever(lambda: self._source.report(job, outcome), f"reporting the outcome of {job}")
        except NotFound:
            log.info("%s: the instance does not exist any more; outcome dropped", job)

    async def _end(self) -> None:
        for in_flight in self._in_flight:
            if in_flight.alarm is not None:
                in_flight.alarm.cancel()
        for task in self._background:
            task.cancel()
        jobs = [(in_flight, job, task) for in_flight in self._in_flight for job, task in in_flight.running.items()]
        for in_flight, job, task in jobs:
            if not in_flight.seats[job].delivers:
                task.cancel()
        pending = {task for _, _, task in jobs}
        clock = asyncio.get_running_loop().time
        deadline = clock() + self._drain_timeout
        while pending and clock() < deadline:
            _, pending = await asyncio.wait(pending, timeout=_DELIVER_SECONDS)
            # Only outcomes that are still undelivered are cancelled; activities may use the whole time to clean up.
            for in_flight, job, task in jobs:
                if task in pending and in_flight.seats[job].delivers:
                    task.cancel()
        if pending:
            many = "1 activity" if len(pending) == 1 else f"{len(pending)} activities"
            log.warning("%s did not end within %g s of the stop; abandoned", many, self._drain_timeout)
        await asyncio.gather(*self._background, return_exceptions=True)
        self._runner.shut_down()
        unfinished: dict[InFlightBatch, list[Job]] = {}
        for in_flight, job, task in jobs:
            if task in pending or task.cancelled():
                unfinished.setdefault(in_flight, []).append(job)
                self._count(job, "abandoned")
        await asyncio.gather(*(self._give_back(in_flight.batch, left) for in_flight, left in unfinished.items()))

    async def _give_back(self, batch: JobBatch, jobs: Sequence[Job]) -> None:
        """Abandons the unfinished jobs of a batch when the worker stops."""

        async def abandon(some: Sequence[Job]) -> None:
            reason = "The worker was stopped."
            what = f"abandoning {counted(len(some), 'job')}"
            await retry_forever(lambda: self._source.abandon(batch, some, reason, 0.0, counted=False), what)

        try:
            async with asyncio.timeout(_STOP_SECONDS):
                try:
                    await abandon(jobs)
                except InvalidRequest:
                    # One of them is completed: the call that completed it was cancelled before its reply arrived.
                    singly = await asyncio.gather(*(abandon([job]) for job in jobs), return_exceptions=True)
                    for error in singly:
                        if isinstance(error, BaseException) and not isinstance(error, InvalidRequest):
                            raise error from None
        except (HoldfastError, TimeoutError) as error:
            log.warning(
                "queue %s: activities were not abandoned; redelivered when their lock expires: %s",
                *(batch.queue, message_of(error)),
            )
