"""Takes activities from their queues, runs them, and tells whoever waits; only then are they off the queue."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from math import ceil
from random import uniform
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from holdfast.errors import AlreadyInProgress, HoldfastError, LeaseLost, NotFound, TooLarge
from holdfast.identity import qualify
from holdfast.orchestration.failures import Failure
from holdfast.orchestration.payloads import sendable
from holdfast.worker import threads
from holdfast.worker.context import ActivityContext, current
from holdfast.worker.insistence import insist
from holdfast.worker.once import Once, not_kept

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from holdfast.orchestration.definitions import Activity
    from holdfast.orchestration.registry import Registry
    from holdfast.worker.bench import Batch, Bench, Job

log = logging.getLogger(__name__)

DEFAULT_SLOTS = 50
# As many as one pop gives.
_MOST_AT_ONCE = 100
# For an activity that is not known here, and may be elsewhere.
_UNKNOWN_DELAY = 5.0
# About an hour of that: a worker that has it may be on its way.
_UNKNOWN_DELIVERIES = 720
_STOP_SECONDS = 5.0
# As long as a queue allows.
_LONGEST_LOCK = 300


class _Slots:
    """Room for so many activities of one queue at once."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._freed = asyncio.Condition()

    async def reserve(self) -> int:
        """As many as are free, at least one."""
        async with self._freed:
            await self._freed.wait_for(lambda: self._free > 0)
            reserved = min(self._free, _MOST_AT_ONCE)
            self._free -= reserved
            return reserved

    async def release(self, count: int) -> None:
        if count:
            async with self._freed:
                self._free += count
                self._freed.notify_all()


@dataclass(eq=False)
class _Underway:
    """What is left of a batch."""

    batch: Batch
    slots: _Slots
    running: dict[Job, asyncio.Task[None]] = field(default_factory=dict)
    contexts: dict[Job, ActivityContext] = field(default_factory=dict)
    #: When it was taken, and when the lock has to be seen to.
    began: float = 0.0
    alarm: asyncio.TimerHandle | None = None
    #: Those that somebody else has by now.
    lost: set[Job] = field(default_factory=set)


class Worker:
    """Runs until it is stopped, or cancelled: what it has not finished is given back then."""

    def __init__(self, bench: Bench, registry: Registry, *, slots: int = DEFAULT_SLOTS, gives_up: bool = False) -> None:
        """``gives_up`` when it is to end at its start with an error that trying again does not help against."""
        self._gives_up = gives_up
        self._bench = bench
        self._registry = registry
        # Each queue has its own: one that waits for work holds all that are free, and must not hold up the others.
        self._slots = slots
        #: The queues there are, and how long a lock on what is taken from them lasts.
        self._queues: dict[str, int] = {}
        for activity in registry.activities:
            self._queues[activity.queue] = min(activity.lock_seconds, self._queues.get(activity.queue, _LONGEST_LOCK))
        #: How often an activity may be delivered that does not say so itself: what its queue was told when this began.
        self._max_deliveries: dict[tuple[str, str], int] = {}
        #: Of each tenant, for what is not async. They have as many as they have slots, and wait for nobody else's.
        self._threads: dict[str, ThreadPoolExecutor] = {}
        self._underway: set[_Underway] = set()
        #: Of those that must happen once, while they run.
        self._leases: dict[Job, Once] = {}
        self._keepers: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                async for tenant in self._bench.tenants():
                    for queue in sorted(self._queues):
                        group.create_task(self._serve(tenant, queue))
        finally:
            await self._end()

    async def _serve(self, tenant: str, queue: str) -> None:
        # Of its own for each tenant: one that has much to do does not hold up the others.
        slots = _Slots(self._slots)
        while True:
            wanted = await slots.reserve()
            taken = 0
            try:
                if (tenant, queue) not in self._max_deliveries:
                    self._max_deliveries[tenant, queue] = await self._bench.prepare(tenant, queue)
                batch = await self._bench.take(tenant, queue, wanted, self._queues[queue])
                if batch is not None:
                    taken = len(batch.jobs)
                    self._begin(batch, slots)
            except HoldfastError as error:
                if (tenant, queue) not in self._max_deliveries and self._gives_up and not error.retryable:
                    raise
                log.warning("no activities from %s: %s", qualify(tenant, queue), error)
                await asyncio.sleep(uniform(0.5, 1.5))
            except Exception:
                # No reason for the activities of other queues, or for the next ones, to wait for ever.
                log.exception("taking activities from %s failed", qualify(tenant, queue))
                await asyncio.sleep(uniform(0.5, 1.5))
            finally:
                await slots.release(wanted - taken)

    def _begin(self, batch: Batch, slots: _Slots) -> None:
        if batch.strangers:
            self._beside(self._bury_strangers(batch))
        if not batch.jobs:
            return
        underway = _Underway(batch, slots)
        self._underway.add(underway)
        # None of them counts as a part of whatever took the batch.
        for job in batch.jobs:
            underway.contexts[job] = ActivityContext.of(job)
            task = asyncio.create_task(self._work(underway, job), context=contextvars.Context())
            underway.running[job] = task
        # Most are over long before their lock has to be seen to.
        loop = asyncio.get_running_loop()
        underway.began = loop.time()
        underway.alarm = loop.call_later(self._queues[batch.queue] / 3, self._attend, underway)

    def _attend(self, underway: _Underway) -> None:
        self._beside(self._keep(underway))
        self._beside(self._watch(underway))

    def _beside(self, work: Coroutine[Any, Any, None]) -> None:
        keeper = asyncio.create_task(work, context=contextvars.Context())
        self._keepers.add(keeper)
        keeper.add_done_callback(self._keepers.discard)

    async def _bury_strangers(self, batch: Batch) -> None:
        what = f"burying {len(batch.strangers)} items of {batch.queue} that are no activities"
        log.warning(what)
        try:
            await insist(lambda: self._bench.bury(batch, batch.strangers, "It is no activity."), what)
        except HoldfastError as error:
            # Their lock runs out, and they come again.
            log.warning("%s: %s", what, error)

    async def _keep(self, underway: _Underway) -> None:
        """Extends the lock while anything of the batch runs."""
        lasts = self._queues[underway.batch.queue]
        clock = asyncio.get_running_loop().time
        began, granted = underway.began, lasts
        pause = 0.0
        while await _runs_on(underway, pause):
            pause = lasts / 3
            # Never further ahead than a new lock: that is how long others wait when this process dies.
            if (missing := ceil(clock() - began + lasts - granted)) <= 0:
                continue
            try:
                async with asyncio.timeout(lasts / 3):
                    await self._bench.extend(underway.batch, missing)
            except (HoldfastError, TimeoutError) as error:
                log.warning("the lock on activities of %s was not extended: %s", underway.batch.queue, _in_words(error))
                if isinstance(error, TimeoutError) or error.retryable:
                    pause = lasts / 12  # while there is still time
            else:
                granted += missing

    async def _watch(self, underway: _Underway) -> None:
        """Stops what nobody waits for any more. The lock does not wait for this: some instance may not answer."""
        pause = 0.0
        while await _runs_on(underway, pause):
            await asyncio.gather(*(self._look_after(underway, job) for job in list(underway.running)))
            pause = self._queues[underway.batch.queue] / 3

    async def _look_after(self, underway: _Underway, job: Job) -> None:
        """Whatever becomes of one, the others of its batch are looked after too."""
        try:
            async with asyncio.timeout(self._queues[underway.batch.queue] / 3):
                if once := self._leases.get(job):
                    await self._renew(underway, job, once)
                if not await self._bench.awaited(job):
                    self._stop(underway, job)
        except (HoldfastError, TimeoutError) as error:
            log.warning("%s, while it runs: %s", job, _in_words(error))

    async def _renew(self, underway: _Underway, job: Job, once: Once) -> None:
        try:
            await once.renew()
        except LeaseLost:
            # One that came to its end meanwhile has no lease any more, and needs none.
            if self._leases.get(job) is once and job not in underway.lost:
                log.warning("%s was held up, and runs elsewhere by now: it is stopped here", job)
                underway.lost.add(job)
                self._stop(underway, job)

    def _stop(self, underway: _Underway, job: Job) -> None:
        task = underway.running.get(job)
        underway.contexts[job]._cancelled.set()
        activity = self._registry.activity(job.name)
        if task is not None and activity is not None and activity.is_async:
            task.cancel()

    async def _work(self, underway: _Underway, job: Job) -> None:
        context = underway.contexts[job]
        try:
            await self._deal_with(underway.batch, job, context)
        except asyncio.CancelledError:
            if not context.cancelled:
                raise
            if job not in underway.lost:
                await insist(lambda: self._bench.done(underway.batch, job), str(job))
        except HoldfastError as error:
            # Its lock runs out, and it comes again.
            log.warning("%s: %s", job, error)
        except Exception:
            log.exception("%s", job)
        finally:
            del underway.running[job]
            if not underway.running:
                self._underway.discard(underway)
                if underway.alarm is not None:
                    underway.alarm.cancel()
            await underway.slots.release(1)

    async def _deal_with(self, batch: Batch, job: Job, context: ActivityContext) -> None:
        activity = self._registry.activity(job.name)
        if (job.deliveries > 1 or job.again) and not await insist(
            lambda: self._bench.awaited(job), f"whether {job} is awaited"
        ):
            # Whoever had it before has told of its end, and died before it was off the queue; or it was given up.
            await insist(lambda: self._bench.done(batch, job), str(job))
            return
        most = _UNKNOWN_DELIVERIES if activity is None else activity.max_deliveries
        if job.deliveries > (most or self._max_deliveries[batch.tenant, batch.queue]):
            reason = f"It was taken {job.deliveries - 1} times, and never came to an end."
            if activity is None:
                reason = f"It was taken {job.deliveries - 1} times, and no worker has an activity {job.name}."
            await self._tell(job, _failed(Failure(type="Poison", message=reason, kind="poison")))
            await insist(lambda: self._bench.bury(batch, [job.item_id], reason), f"burying {job}")
            return
        if activity is None:
            await self._bench.give_back(batch, [job], f"No activity is called {job.name} here.", _UNKNOWN_DELAY)
            return
        try:
            with self._bench.expecting(job):
                outcome = await (self._run_once if activity.idempotent else self._run)(activity, job, context)
                await self._tell(job, outcome)
        except AlreadyInProgress:
            # It is in the queue twice, and the other one is being run: should that fail, it comes again.
            pass
        await insist(lambda: self._bench.done(batch, job), str(job))

    async def _run_once(self, activity: Activity, job: Job, context: ActivityContext) -> dict[str, Any]:
        """What it came to before, if it ran to its end for this call."""
        once = Once(self._bench, job, activity.queue, 2 * self._queues[activity.queue])
        if (before := await once.begin()) is not None:
            return before
        self._leases[job] = once
        try:
            outcome = await self._run(activity, job, context)
        finally:
            del self._leases[job]
        return await once.end(outcome)

    async def _run(self, activity: Activity, job: Job, context: ActivityContext) -> dict[str, Any]:
        try:
            arguments = activity.arguments(job.input)
        except ValidationError as error:
            return _failed(Failure.of(error, "refused"))
        token = current.set(context)
        try:
            async with asyncio.timeout(activity.timeout) as limit:
                result = await self._call(activity, arguments, job.tenant)
            return {"result": _written(activity, result)}
        except TimeoutError as error:
            return _failed(Failure.of(error, "timeout" if limit.expired() else "error"))
        except Exception as error:
            return _failed(Failure.of(error))
        except (SystemExit, KeyboardInterrupt) as error:
            # Of the activity's own: it must not end the process of all the others.
            return _failed(Failure.of(RuntimeError(f"{type(error).__name__}({error})")))
        finally:
            current.reset(token)

    async def _call(self, activity: Activity, arguments: Sequence[Any], tenant: str) -> Any:
        if activity.is_async:
            return await activity.function(*arguments)
        variables = contextvars.copy_context()
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads_of(tenant), variables.run, activity.function, *arguments)

    def _threads_of(self, tenant: str) -> ThreadPoolExecutor:
        if tenant not in self._threads:
            most = self._slots * len(self._queues)
            self._threads[tenant] = ThreadPoolExecutor(most, thread_name_prefix=threads.NAME)
        return self._threads[tenant]

    async def _tell(self, job: Job, outcome: dict[str, Any]) -> None:
        """Until whoever waits has it: an activity that was done is not lost because nobody could be reached."""
        try:
            await insist(lambda: self._bench.tell(job, outcome), f"the outcome of {job}")
        except NotFound:
            log.info("nobody waits for %s any more", job)

    async def _end(self) -> None:
        for underway in self._underway:
            if underway.alarm is not None:
                underway.alarm.cancel()
        for keeper in self._keepers:
            keeper.cancel()
        left = [(underway, list(underway.running)) for underway in self._underway]
        tasks = [task for underway in self._underway for task in underway.running.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, *self._keepers, return_exceptions=True)
        for executor in self._threads.values():
            executor.shutdown(wait=False, cancel_futures=True)
        for underway, jobs in left:
            if jobs:
                try:
                    async with asyncio.timeout(_STOP_SECONDS):
                        await self._bench.give_back(underway.batch, jobs, "The worker was stopped.", 0.0)
                except (HoldfastError, TimeoutError) as error:
                    log.warning("activities of %s wait for their lock to expire: %s", underway.batch.queue, error)


def _written(activity: Activity, result: Any) -> str:
    try:
        return sendable(activity.result.dump(result), "A result")
    except (TypeError, TooLarge) as error:
        if activity.idempotent:
            raise not_kept(error) from error
        raise


async def _runs_on(underway: _Underway, seconds: float) -> bool:
    """Whether anything of the batch still runs so many seconds later."""
    if running := list(underway.running.values()):
        await asyncio.wait(running, timeout=seconds)
    return bool(underway.running)


def _in_words(error: HoldfastError | TimeoutError) -> str:
    return "there was no answer in time" if isinstance(error, TimeoutError) else str(error)


def _failed(failure: Failure) -> dict[str, Any]:
    return {"error": failure.dump()}
