"""A worker's queues and instances, in memory."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.errors import Unavailable
from holdfast.worker.work_source import Job, JobBatch, Standing
from holdfast.worker.worker import Worker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from contextlib import AbstractContextManager

    from holdfast.orchestration.registry import Registry


class Returned(NamedTuple):
    """A job that was given back."""

    name: str
    counted: bool
    at: float
    comes_at: float = 0.0


class Desk:
    """A work source in memory: each job is taken once. Records outcomes, lock extensions and heartbeats."""

    def __init__(self, *tenants: str) -> None:
        self._tenants = tenants
        self._pushed: dict[tuple[str, str], asyncio.Queue[list[Job]]] = defaultdict(asyncio.Queue)
        self.told: dict[str, asyncio.Future[dict[str, Any]]] = defaultdict(
            lambda: asyncio.get_running_loop().create_future()
        )
        self.extended: list[float] = []
        self.off: set[str] = set()
        #: When each job has reported, and the details.
        self.beats: dict[str, list[tuple[float, str | None]]] = defaultdict(list)
        #: Jobs that are no longer awaited, and jobs whose calls are never answered.
        self.unwanted: set[str] = set()
        self.mute: set[str] = set()
        #: Jobs that were given back, and how often the next calls of each kind fail.
        self.returned: list[Returned] = []
        self.failures: dict[str, list[Exception]] = defaultdict(list)
        self.dead_letters: set[str] = set()
        #: Instances that take no outcome.
        self.unreachable: set[str] = set()

    def push(
        self, queue: str, *names: str, activity: str, tenant: str = "default", deliveries: int = 1, **known: Any
    ) -> None:
        jobs = [Job(name, name, 1, 2, activity, 1, "null", deliveries, tenant=tenant, **known) for name in names]
        self._pushed[tenant, queue].put_nowait(jobs)

    async def tenants(self) -> AsyncIterator[str]:
        for tenant in self._tenants:
            yield tenant

    async def prepare(self, tenant: str, queue: str) -> int:
        return 5

    async def take(self, tenant: str, queue: str, count: int, lock_seconds: int) -> JobBatch | None:
        self._fail("take")
        jobs = await self._pushed[tenant, queue].get()
        assert len(jobs) <= count, "more was pushed at once than there are free slots"
        return JobBatch(tenant, queue, "lock", jobs)

    def expecting(self, job: Job) -> AbstractContextManager[None]:
        return nullcontext()

    async def extend(self, batch: JobBatch, seconds: int) -> None:
        self.extended.append(asyncio.get_running_loop().time())
        await self._answer("extend")

    async def complete(self, batch: JobBatch, job: Job) -> None:
        if job.item_id in self.unreachable:
            raise Unavailable
        self._fail("complete")
        self.off.add(job.item_id)

    async def abandon(
        self, batch: JobBatch, jobs: Sequence[Job], error: str, delay_seconds: float, *, counted: bool
    ) -> None:
        self._fail("abandon")
        now = asyncio.get_running_loop().time()
        self.returned += [Returned(job.item_id, counted, now, now + delay_seconds) for job in jobs]

    async def dead_letter(self, batch: JobBatch, item_ids: Sequence[str], reason: str) -> None:
        self._fail("dead_letter")
        self.dead_letters.update(item_ids)

    async def report(self, job: Job, outcome: dict[str, Any]) -> None:
        if job.item_id in self.unreachable:
            raise Unavailable
        self.told[job.item_id].set_result(outcome)

    def _fail(self, call: str) -> None:
        if self.failures[call]:
            raise self.failures[call].pop(0)

    async def standing(self, job: Job) -> Standing:
        await self._answer(job.item_id)
        reported = [details for _, details in self.beats[job.item_id] if details is not None]
        return Standing(job.item_id not in self.unwanted, reported[-1] if reported else None)

    async def heartbeat(self, job: Job, details: str | None) -> bool:
        self._fail("heartbeat")
        self.beats[job.item_id].append((asyncio.get_running_loop().time(), details))
        return job.item_id not in self.unwanted

    async def call_record(self, job: Job, what: str, body: dict[str, Any]) -> dict[str, Any]:
        raise AssertionError("nothing here must happen once")

    async def _answer(self, who: str) -> None:
        if who in self.mute:
            await asyncio.Event().wait()


@asynccontextmanager
async def working(desk: Desk, registry: Registry, **options: Any) -> AsyncIterator[None]:
    worker = asyncio.create_task(Worker(desk, registry, **options).run())
    try:
        yield
    finally:
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
