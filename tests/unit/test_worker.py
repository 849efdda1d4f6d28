"""The worker at a bench in memory: what one activity, or one who does not answer, costs the others."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from holdfast import App
from holdfast.runtime.simulated import VirtualTimeLoop
from holdfast.worker.bench import Batch, Job
from holdfast.worker.worker import Worker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from contextlib import AbstractContextManager

SECONDS = 20
LOCK_SECONDS = 6

app = App()
began = threading.Semaphore(0)
released = threading.Event()


@app.activity
def block() -> None:
    began.release()
    released.wait(SECONDS)


@app.activity
def quick() -> str:
    return "done"


@app.activity(queue="long", lock_seconds=LOCK_SECONDS)
async def linger() -> None:
    await asyncio.sleep(3600)


class Desk:
    """What is pushed here is taken once; what is told, and how often a lock was extended, can be read."""

    def __init__(self, *tenants: str) -> None:
        self._tenants = tenants
        self._pushed: dict[tuple[str, str], asyncio.Queue[list[Job]]] = defaultdict(asyncio.Queue)
        self.told: dict[str, asyncio.Future[dict[str, Any]]] = defaultdict(
            lambda: asyncio.get_running_loop().create_future()
        )
        self.extended: list[float] = []
        self.off: set[str] = set()
        #: Whom nobody waits for, and who is never answered.
        self.unwanted: set[str] = set()
        self.mute: set[str] = set()

    def push(self, queue: str, *names: str, activity: str, tenant: str = "default") -> None:
        jobs = [Job(name, name, 1, 2, activity, 1, "null", 1, tenant=tenant) for name in names]
        self._pushed[tenant, queue].put_nowait(jobs)

    async def tenants(self) -> AsyncIterator[str]:
        for tenant in self._tenants:
            yield tenant

    async def prepare(self, tenant: str, queue: str) -> int:
        return 5

    async def take(self, tenant: str, queue: str, count: int, lock_seconds: int) -> Batch | None:
        jobs = await self._pushed[tenant, queue].get()
        assert len(jobs) <= count
        return Batch(tenant, queue, "lock", jobs)

    def expecting(self, job: Job) -> AbstractContextManager[None]:
        return nullcontext()

    async def extend(self, batch: Batch, seconds: int) -> None:
        self.extended.append(asyncio.get_running_loop().time())
        await self._answer("extend")

    async def done(self, batch: Batch, job: Job) -> None:
        self.off.add(job.item_id)

    async def give_back(self, batch: Batch, jobs: Sequence[Job], error: str, delay_seconds: float) -> None: ...

    async def bury(self, batch: Batch, item_ids: Sequence[str], reason: str) -> None: ...

    async def tell(self, job: Job, outcome: dict[str, Any]) -> None:
        self.told[job.item_id].set_result(outcome)

    async def awaited(self, job: Job) -> bool:
        await self._answer(job.item_id)
        return job.item_id not in self.unwanted

    async def once(self, job: Job, what: str, body: dict[str, Any]) -> dict[str, Any]:
        raise AssertionError("nothing here must happen once")

    async def _answer(self, who: str) -> None:
        if who in self.mute:
            await asyncio.Event().wait()


@asynccontextmanager
async def working(desk: Desk, **options: Any) -> AsyncIterator[None]:
    worker = asyncio.create_task(Worker(desk, app.registry, **options).run())
    try:
        yield
    finally:
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)


async def test_threads_of_one_tenant_are_not_those_of_another() -> None:
    desk = Desk("busy", "idle")
    # All slots of all its queues: more it cannot have.
    for queue in ("activities", "long"):
        desk.push(queue, f"{queue}-1", f"{queue}-2", activity="block", tenant="busy")
    async with working(desk, slots=2):
        try:
            for _ in range(4):
                assert await asyncio.to_thread(began.acquire, timeout=SECONDS)
            desk.push("activities", "quick", activity="quick", tenant="idle")
            async with asyncio.timeout(SECONDS / 2):
                assert await desk.told["quick"] == {"result": '"done"'}
        finally:
            released.set()


def test_an_instance_that_does_not_answer_costs_its_batch_nothing() -> None:
    async def run() -> None:
        desk = Desk("default")
        desk.mute.add("mute")
        desk.unwanted.add("unwanted")
        desk.push("long", "mute", "unwanted", "wanted", activity="linger")
        async with working(desk):
            await asyncio.sleep(10 * LOCK_SECONDS)
        assert desk.off == {"unwanted"}
        assert_never_without_a_lock(desk)

    VirtualTimeLoop.run(run())


def test_an_extension_that_hangs_is_tried_again() -> None:
    async def run() -> None:
        desk = Desk("default")
        desk.mute.add("extend")
        desk.push("long", "wanted", activity="linger")
        async with working(desk):
            await asyncio.sleep(LOCK_SECONDS / 2)
            assert len(desk.extended) == 1
            desk.mute.clear()
            await asyncio.sleep(10 * LOCK_SECONDS)
        assert_never_without_a_lock(desk)

    VirtualTimeLoop.run(run())


def assert_never_without_a_lock(desk: Desk) -> None:
    gaps = [later - earlier for earlier, later in zip(desk.extended, desk.extended[1:], strict=False)]
    assert len(gaps) > 10
    assert desk.extended[0] < LOCK_SECONDS
    assert max(gaps) < LOCK_SECONDS * 2 / 3
