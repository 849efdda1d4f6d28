"""A server with its worker that is started again whenever it ends, on one disk, with whatever code is deployed."""

from __future__ import annotations

import asyncio
import contextvars
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError, Unavailable
from holdfast.kinds import INSTANCE_INDEX_TYPE, ORCHESTRATION_TYPE, QUEUE_TYPE
from holdfast.orchestration.actor.actor import orchestration_actor
from holdfast.orchestration.actor.cache import save_arrivals
from holdfast.orchestration.index.instance_index import SHARDS, InstanceIndexActor
from holdfast.orchestration.index.tenant_index import TenantIndexActor
from holdfast.orchestration.recovery.recheck import Recheck
from holdfast.orchestration.recovery.rescuer import RescuerActor
from holdfast.pushpop.actor import PushPopActor
from holdfast.pushpop.index import QueueIndexActor
from holdfast.runtime.in_process.host import SEPARATOR
from holdfast.runtime.notifier import NotifierActor
from holdfast.runtime.serialization import dump, load
from holdfast.runtime.simulated import Faults, MemoryStorage, SimulatedHost, VirtualTimeLoop
from holdfast.worker.local_source import LocalWorkSource
from holdfast.worker.worker import Worker
from tests.properties.instances.programs import FITTING, REFUSING_QUEUE, foreign, record
from tests.support.index_contents import check_stored_index

if TYPE_CHECKING:
    import random
    from collections.abc import AsyncIterator, Sequence

    from dapr.actor import Actor

    from holdfast.orchestration.registry import Registry
    from holdfast.runtime.in_process.storage import Write

CLASSES: tuple[type[Actor], ...] = (
    PushPopActor,
    QueueIndexActor,
    NotifierActor,
    InstanceIndexActor,
    TenantIndexActor,
    RescuerActor,
)
#: What one transaction of an instance may write: a store that is behind a sidecar refuses what is larger.
MOST_BYTES = 256 * 1024
QUEUES = ("activities", REFUSING_QUEUE)
#: How long instances get at an orderly stop to save what has arrived.
SETTLE_SECONDS = 2.0

_ahead: contextvars.ContextVar[float] = contextvars.ContextVar("ahead", default=0.0)


@dataclass(frozen=True)
class Setting:
    """How the processes of one run are set up."""

    faults: Faults
    idle_timeout: float
    always_replay: bool
    slots: int
    #: Whether a worker of another app takes from the same queues.
    shared_queues: bool
    #: Whether reminders are saved together with state, as on the embedded host.
    saves_reminders: bool = False


class Host(SimulatedHost):
    """A host on which one call may see a clock that is ahead of everybody else's."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        loop_clock = self.now
        self.now = lambda: loop_clock() + _ahead.get()


class Server:
    """A server with one process at a time. All randomness comes from the generator."""

    def __init__(self, seed: int, generator: random.Random, setting: Setting) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)
        self.loop = loop
        self.storage = MemoryStorage(loop.wall_clock)
        self.storage.committed = self._committed
        #: What one transaction wrote and should not have.
        self.broken: str | None = None
        self.deployed: Registry = FITTING
        #: How often something happened after which an activity may run again: a process ended, a storage call failed.
        self.disturbances = 0
        #: How often the process ended in good order: an activity that it interrupted runs once more.
        self.stops = 0
        self.calls = 0
        #: Set while the code that is deployed fits all instances.
        self.fits = asyncio.Event()
        self.fits.set()
        #: Starts of instances that other code does not fit: a deployment waits for these.
        self.starts_under_way = 0
        self._seed = seed
        self._random = generator
        self._setting = setting
        self._host: Host | None = None
        self._workers: list[asyncio.Task[None]] = []

    # Processes

    @property
    def up(self) -> bool:
        return self._host is not None and not self._host.crashed.is_set()

    async def start(self, *, faults: Faults | None = None) -> None:
        self._seed += 1
        record.process += 1
        host = Host(
            seed=self._seed,
            storage=self.storage,
            idle_timeout=self._setting.idle_timeout,
            faults=faults or self._setting.faults,
            saves_reminders=self._setting.saves_reminders,
        )
        host.struck = self.disturbed
        for actor_class in (*CLASSES, orchestration_actor(self.deployed, always_replay=self._setting.always_replay)):
            await host.register(actor_class)
        await host.start()
        self._host = host
        worker = Worker(LocalWorkSource(host.client, alone=True), self.deployed, slots=self._setting.slots)
        self._workers = [asyncio.create_task(Recheck(host.client).run()), asyncio.create_task(worker.run())]
        if self._setting.shared_queues:
            other = Worker(LocalWorkSource(host.client), foreign.registry, slots=2)
            self._workers.append(asyncio.create_task(other.run()))

    async def kill(self) -> None:
        """The process is gone at once, whatever it was doing."""
        check_stored_index(self.storage.rows)
        self.disturbed()
        if self._host is not None and not self._host.crashed.is_set():
            self._host.crash()
        await self._end_workers()
        self._host = None

    async def stop(self) -> None:
        """In good order: the worker gives back what it has, arrivals are saved, and turns come to their end."""
        self.stops += 1
        host = self._host
        await self._end_workers()
        if host is not None:
            await save_arrivals(host.client, SETTLE_SECONDS)
            await host.stop()
        # As after a crash: a database is done with what it has before the next process has been started.
        self.storage.finish_commits()
        self._host = None

    async def _end_workers(self) -> None:
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)

    # FaultInjector

    @property
    def faults(self) -> Faults:
        assert self._host is not None
        return self._host.faults

    @faults.setter
    def faults(self, faults: Faults) -> None:
        if self._host is not None:
            self._host.faults = faults

    def disturbed(self) -> None:
        self.disturbances += 1

    async def refuse(self, queue: str) -> str:
        """The queue takes nothing until it is opened again. Answers what that takes."""
        # Once, however often it is pushed.
        item = {"item": {}, "delay_seconds": 10_000, "dedup_id": f"filler {self.loop.time()}"}
        filler = await self.ask(QUEUE_TYPE, queue, "Push", item)
        await self.ask(QUEUE_TYPE, queue, "SetConfig", {"capacity": 1})
        return str(filler["ids"][0])

    async def take_again(self, queue: str, filler: str) -> None:
        await self.ask(QUEUE_TYPE, queue, "SetConfig", {"capacity": None})
        await self.ask(QUEUE_TYPE, queue, "Revoke", {"id": filler})

    # Calls

    @asynccontextmanager
    async def starting(self, *, changed: bool) -> AsyncIterator[None]:
        """Around the start of an instance; ``changed``: of one that begins only with the code that fits."""
        if not changed:
            yield
            return
        await self.fits.wait()
        self.starts_under_way += 1
        try:
            yield
        finally:
            self.starts_under_way -= 1

    async def ask(self, actor_type: str, actor_id: str, method: str, data: Any = None, *, ahead: float = 0.0) -> Any:
        """Until there is an answer, of whichever process. ``ahead``: the clock of this call, if it is wrong."""
        while True:
            self.calls += 1
            token = _ahead.set(ahead)
            try:
                if self._host is not None:
                    answer = load(await self._host.client.invoke_method(actor_type, actor_id, method, dump(data)))
                    # A call that only looks fails by itself, not the turn it shares with others.
                    if not (isinstance(answer, dict) and answer.get("error_code") == Unavailable.code):
                        return answer
            except Unavailable:
                pass
            finally:
                _ahead.reset(token)
            await asyncio.sleep(self._random.uniform(0, 2))

    async def instance(self, instance_id: str, method: str, data: Any = None, *, ahead: float = 0.0) -> Any:
        answer = await self.ask(ORCHESTRATION_TYPE, instance_id, method, data, ahead=ahead)
        return self._accepted(answer, instance_id, method)

    async def together(self, instance_id: str, calls: Sequence[tuple[str, Any]]) -> list[Any]:
        """In one turn."""
        body = {"calls": [{"method": method, "data": data} for method, data in calls]}
        replies = (await self.ask(ORCHESTRATION_TYPE, instance_id, "Batch", body))["replies"]
        return [self._accepted(reply, instance_id, call[0]) for reply, call in zip(replies, calls, strict=True)]

    async def listed(self) -> dict[str, tuple[str, str]]:
        """Name and status of each instance in the index."""
        found: dict[str, tuple[str, str]] = {}
        for shard in range(SHARDS):
            position = None
            while True:
                body = {"limit": 1000, "position": position}
                answer = await self.ask(INSTANCE_INDEX_TYPE, str(shard), "Find", body)
                found.update({entry[1]: (entry[2], entry[4]) for entry in answer["entries"]})
                position = answer["position"]
                if position is None:
                    break
        return found

    def _accepted(self, answer: Any, instance_id: str, method: str) -> Any:
        if answer.get("success") is False and answer["error_code"] != "CONFLICT":
            # A conflict: the instance has ended, perhaps with what it had taken before, though the answer was lost.
            raise HoldfastError(f"{method} of {instance_id}: {answer}")
        return answer

    # What is stored

    def rows_of(self, instance_id: str) -> list[str]:
        return [key for key in self.storage.rows if f"{ORCHESTRATION_TYPE}{SEPARATOR}{instance_id}{SEPARATOR}" in key]

    def _committed(self, writes: Sequence[Write]) -> None:
        size = sum(len(write.value or b"") for write in writes)
        if size > MOST_BYTES and self.broken is None:
            self.broken = f"{size} bytes in one transaction: {writes[0].key}"
