"""A server that crashes, on a disk that does not; and what a run of it is like."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from holdfast.errors import Conflict, Unavailable
from holdfast.gateway.queues.config import Configuration
from holdfast.gateway.queues.partitions import Partitions
from holdfast.kinds import QUEUE_TYPE
from holdfast.pushpop.actor import PushPopActor
from holdfast.pushpop.index import QueueIndexActor
from holdfast.runtime.batching import CallBatcher
from holdfast.runtime.notifier import Notifier, NotifierActor
from holdfast.runtime.serialization import dump, load
from holdfast.runtime.simulated import Faults, MemoryStorage, SimulatedHost, VirtualTimeLoop
from tests.properties.ledger import Ledger

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

    from holdfast.runtime.contract import ActorAddress
    from holdfast.runtime.in_process.storage import ReminderChange, Write

QUEUES = {"orders": 8, "orders-deadletter": 1, "elsewhere": 1}

MOST_PARTITIONS = 4

#: How late reminders may be.
LATEST = 5.0


@dataclass(frozen=True, slots=True)
class Scenario:
    """The settings of a run."""

    callers: int
    max_locks: int
    partitions: int
    faults: Faults
    #: How long a caller thinks between two operations, in seconds, on average.
    pause: float
    #: How often a caller's operations travel together with others', and how often it does not wait for the answer.
    gathered: float
    impatient: float
    #: How often one that finds nothing waits for a notification.
    polling: float
    #: How long it is, in seconds, on average, from one crash, restart or step of the clock to the next.
    peace: float
    idle_timeout: float

    @classmethod
    def random(cls, random: random.Random) -> Scenario:
        trouble = random.choice((0.0, 0.01, 0.03, 0.15))
        faults = Faults(
            load_fails=random.choice((0.0, trouble)),
            remind_fails=random.choice((0.0, trouble)),
            save_fails=random.choice((0.0, trouble)),
            reply_lost=random.choice((0.0, trouble)),
            crash_before_save=random.choice((0.0, trouble / 3)),
            crash_after_save=random.choice((0.0, trouble / 3)),
            reminder_twice=random.choice((0.0, 0.3)),
            reminder_late=random.choice((0.0, 0.5)),
            latest=LATEST,
            slowest=random.choice((0.001, 0.02, 0.2)),
            late_commit=random.choice((0.0, trouble)),
        )
        return cls(
            callers=random.choice((1, 3, 8, 20)),
            max_locks=random.choice((1, 2, 5, 20)),
            partitions=random.choice((1, 1, 2, 4)),
            faults=faults,
            pause=random.choice((0.01, 0.3, 3.0)),
            gathered=random.choice((0.0, 0.5, 1.0)),
            impatient=random.choice((0.0, 0.02)),
            polling=random.choice((0.0, 0.5)),
            peace=random.choice((20.0, 200.0, 1e9)),
            idle_timeout=random.choice((2.0, 60.0)),
        )


class Host(SimulatedHost):
    """A host on which some actors are unreachable for a while."""

    unreachable: frozenset[str] = frozenset()

    async def call(self, address: ActorAddress, method: str, body: bytes) -> bytes:
        if address.id in self.unreachable:
            await asyncio.sleep(0.05)
            raise Unavailable
        return await super().call(address, method, body)


class Disk(MemoryStorage):
    """Tells of saves that failed."""

    def __init__(self, now: Callable[[], float]) -> None:
        super().__init__(now)
        self.failed: Callable[[Sequence[Write]], None]

    async def save(self, writes: Sequence[Write], reminders: Sequence[ReminderChange] = ()) -> None:
        try:
            await super().save(writes, reminders)
        except BaseException:
            if writes:
                self.failed(writes)
            raise


class Server:
    """A process that is started again whenever it dies, on one disk."""

    def __init__(self, seed: int, scenario: Scenario) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)
        self.loop = loop
        self.storage = Disk(loop.wall_clock)
        self.ledger = Ledger(self.storage, loop.wall_clock)
        self.storage.failed = self.ledger.journal.save_failed
        self._scenario = scenario
        self._stopped = False
        #: How often the scheduler went down since all was calm.
        self._outages = 0
        # Of every other seed, reminders are saved together with state, as on the embedded host.
        self._host = Host(
            seed=seed, storage=self.storage, idle_timeout=scenario.idle_timeout, saves_reminders=bool(seed % 2)
        )
        self._connect()

    async def start(self) -> None:
        for actor_class in (PushPopActor, QueueIndexActor, NotifierActor):
            await self._host.register(actor_class)
        await self._host.start()
        for queue in QUEUES:
            config: dict[str, Any] = {"max_locks": self._scenario.max_locks}
            if queue == "orders" and self._scenario.partitions > 1:
                config["partitions"] = self._scenario.partitions
            await self.call(QUEUE_TYPE, queue, "SetConfig", config)

    async def stop(self) -> None:
        await self._host.stop()

    @property
    def faults(self) -> Faults:
        return self._host.faults

    @faults.setter
    def faults(self, faults: Faults) -> None:
        self._host.faults = faults

    @property
    def process(self) -> object:
        """Another one after each restart."""
        return self._host

    @property
    def unreachable(self) -> frozenset[str]:
        """Actors that cannot be called for a while."""
        return self._host.unreachable

    @unreachable.setter
    def unreachable(self, actors: frozenset[str]) -> None:
        self._host.unreachable = actors

    @property
    def up(self) -> bool:
        return not (self._stopped or self._host.crashed.is_set())

    async def call(self, actor_type: str, actor_id: str, method: str, data: Any = None) -> Any:
        """In a turn of its own."""
        return load(await self._host.client.invoke_method(actor_type, actor_id, method, dump(data)))

    async def gathered(self, queue: str, method: str, data: Any) -> Any:
        """In one turn with whatever else comes meanwhile."""
        return await self._gatherer.call(queue, method, dump(data))

    async def subscribe(self) -> str | None:
        return await self._notifier.subscribe()

    async def have_troubles(self, generator: random.Random) -> None:
        """Crashes where it stands, restarts in good order, actors out of reach, clocks that are set, and a scheduler
        that is down while the store works; until cancelled."""
        while True:
            pause = asyncio.create_task(asyncio.sleep(generator.expovariate(1 / self._scenario.peace)))
            crash = asyncio.create_task(self._host.crashed.wait())
            try:
                await asyncio.wait((pause, crash), return_when=asyncio.FIRST_COMPLETED)
            finally:
                pause.cancel()
                crash.cancel()
            if self.up:
                match generator.choice(("crash", "restart", "clock", "unreachable", "scheduler")):
                    case "crash":
                        self._host.crash()
                    case "restart":
                        self._stopped = True
                        await self._host.stop()
                    case "clock" if not self.storage.scheduler_up:
                        # What fired and could not be settled would fire as late as the clock is set back.
                        continue
                    case "clock":
                        self.ledger.journal.note_time()
                        self.loop.step_wall_clock(generator.choice((-40.0, -2.0, 5.0, 100.0)))
                        continue
                    case "unreachable":
                        actors = sorted(self.ledger.journal.queues)
                        self.unreachable = frozenset(generator.sample(actors, generator.randint(0, 2)))
                        continue
                    case "scheduler":
                        self._outages += 1
                        self._host.stop_scheduler(generator.uniform(0, 60))
                        continue
            await asyncio.sleep(generator.uniform(0, 3))
            await self._restart()

    async def grow(self, after: float) -> None:
        """Adds a partition while the queue is in use.

        As the gateway does, which tells the partitions too, besides the first one.
        """
        await asyncio.sleep(after)
        partitions = self.ledger.journal.partitions("orders")
        if self.up and partitions < MOST_PARTITIONS:
            change = {"partitions": partitions + 1}
            gateway = Configuration(Partitions(self._host.client))
            with suppress(Unavailable, Conflict):
                await gateway.change("orders", dump(change), change)

    async def calm_down(self, *, restart: bool) -> None:
        """No more faults, but for reminders that are late; and when asked for, a process that remembers nothing."""
        self.faults = Faults(reminder_late=self._scenario.faults.reminder_late, latest=LATEST)
        self.unreachable = frozenset()
        self._host.start_scheduler()
        if restart or not self.up:
            await self._restart()
        if self._outages or self._scenario.faults.remind_fails:
            self._outages = 0
            # Where a process crashed before the scheduler took a queue's reminder, the next operation registers it.
            for queue in sorted(self.ledger.journal.queues):
                await self.call(QUEUE_TYPE, queue, "Stats")

    def digest(self) -> str:
        """Of all that was asked and what came of it."""
        told = [(call.actor, call.operation.method, call.outcome, call.began) for call in self.ledger.calls]
        return (
            f"{len(told)} operations, {self.ledger.journal.commits} commits, {sha256(repr(told).encode()).hexdigest()}"
        )

    async def _restart(self) -> None:
        self._host = await self._host.restarted()
        self._stopped = False
        self._connect()

    def _connect(self) -> None:
        self._gatherer = CallBatcher(self._host.client, QUEUE_TYPE)
        self._notifier = Notifier(self._host.client)
