"""Callers, a server that crashes, and a disk: everything about a run comes from its seed."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import defaultdict, deque
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from holdfast.errors import Unavailable
from holdfast.identity import partition_id, split_partition
from holdfast.pushpop import ACTOR_TYPE
from holdfast.pushpop.actor import PushPopActor
from holdfast.pushpop.core import RESEND_SECONDS
from holdfast.pushpop.doorbell import Doorbell, DoorbellActor, Listening
from holdfast.pushpop.duplicates import CLAIM_LEEWAY
from holdfast.pushpop.index import INDEX_TYPE, SHARDS, QueueIndexActor
from holdfast.runtime.gather import Gatherer
from holdfast.runtime.reminders import LONGEST_WAIT
from holdfast.runtime.serialization import dump, load
from holdfast.runtime.simulated import Faults, MemoryStorage, SimulatedHost, VirtualTimeLoop
from properties.ledger import Ledger
from properties.operations import ENDS_A_LOCK, Known, Operation, Operations
from properties.seeds import OPERATIONS_PER_SEED, told
from properties.sizes import small
from properties.stored import TICKS_PER_SECOND

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.runtime.contract import ActorAddress

QUEUES = {"orders": 8, "orders-deadletter": 1, "elsewhere": 1}

MOST_PARTITIONS = 4

#: How late reminders may be, and what one turn may take on top of that.
LATEST = 5.0
SLACK = LONGEST_WAIT + 2.0

OPERATIONS_BETWEEN_LULLS = 250


@dataclass(frozen=True, slots=True)
class Scenario:
    """What a run is like."""

    callers: int
    max_locks: int
    partitions: int
    faults: Faults
    #: How long a caller thinks between two operations, in seconds, on average.
    pause: float
    #: How often a caller's operations travel together with others', and how often it does not wait for the answer.
    gathered: float
    impatient: float
    #: How often one that finds nothing waits for the doorbell.
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


def simulate(seed: int) -> str:
    """Runs what the seed stands for, and checks all that is known to hold. Answers with a digest of the run."""
    generator = random.Random(seed)
    with told(seed, "test_simulation.py"), small(generator), _silence():
        return VirtualTimeLoop.run(_Simulation(seed, generator).run())


class _Simulation:
    def __init__(self, seed: int, generator: random.Random) -> None:
        self._random = generator
        self._seed = seed
        self._scenario = Scenario.random(generator)
        self._unhandled: list[dict[str, Any]] = []

    async def run(self) -> str:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: self._unhandled.append(context))
        server = Server(self._seed, self._scenario)
        inspection = Inspection(server)
        await server.start()
        callers = [
            Caller(f"{number}:", random.Random(self._random.random()), server, self._scenario)
            for number in range(self._scenario.callers)
        ]
        try:
            while len(server.ledger.calls) < OPERATIONS_PER_SEED:
                await self._storm(server, callers, OPERATIONS_BETWEEN_LULLS // len(callers))
                await server.calm_down(restart=self._random.random() < 0.5)
                await inspection.everything_happens_by_itself()
            await inspection.everything_is_in_order()
            assert not self._unhandled, f"nobody awaited {self._unhandled}"
        except* Exception as errors:
            # The first rule that was broken is the one to look at; what follows may follow from it.
            raise server.ledger.journal.broken or _first(errors) from None
        finally:
            await server.stop()
        return server.digest()

    async def _storm(self, server: Server, callers: Sequence[Caller], operations: int) -> None:
        server.faults = self._scenario.faults
        async with asyncio.TaskGroup() as tasks:
            troubles = tasks.create_task(server.have_troubles(self._random))
            growth = tasks.create_task(server.grow(self._random.uniform(0, 60)))
            async with asyncio.TaskGroup() as working:
                for caller in callers:
                    working.create_task(caller.run(operations))
            troubles.cancel()
            growth.cancel()


class Host(SimulatedHost):
    """One on which some actors cannot be reached for a while."""

    unreachable: frozenset[str] = frozenset()

    async def call(self, address: ActorAddress, method: str, body: bytes) -> bytes:
        if address.id in self.unreachable:
            await asyncio.sleep(0.05)
            raise Unavailable
        return await super().call(address, method, body)


class Server:
    """A process that is started again whenever it dies, on one disk."""

    def __init__(self, seed: int, scenario: Scenario) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)
        self.loop = loop
        self.storage = MemoryStorage(loop.wall_clock)
        self.ledger = Ledger(self.storage, loop.wall_clock)
        self._scenario = scenario
        self._stopped = False
        self._host = Host(seed=seed, storage=self.storage, idle_timeout=scenario.idle_timeout)
        self._connect()

    async def start(self) -> None:
        for actor_class in (PushPopActor, QueueIndexActor, DoorbellActor):
            await self._host.register(actor_class)
        await self._host.start()
        for queue in QUEUES:
            config: dict[str, Any] = {"max_locks": self._scenario.max_locks}
            if queue == "orders" and self._scenario.partitions > 1:
                config["partitions"] = self._scenario.partitions
            await self.call(ACTOR_TYPE, queue, "SetConfig", config)

    async def stop(self) -> None:
        await self._host.stop()

    @property
    def faults(self) -> Faults:
        return self._host.faults

    @faults.setter
    def faults(self, faults: Faults) -> None:
        self._host.faults = faults

    @property
    def up(self) -> bool:
        return not (self._stopped or self._host.crashed.is_set())

    async def call(self, actor_type: str, actor_id: str, method: str, data: Any = None) -> Any:
        """In a turn of its own."""
        return load(await self._host.client.invoke_method(actor_type, actor_id, method, dump(data)))

    async def gathered(self, queue: str, method: str, data: Any) -> Any:
        """In one turn with whatever else comes meanwhile."""
        return await self._gatherer.call(queue, method, dump(data))

    async def hang_doorbell(self) -> str | None:
        return await self._doorbell.hang()

    async def have_troubles(self, generator: random.Random) -> None:
        """Crashes where it stands, restarts in good order, actors out of reach, and clocks that are set; until
        cancelled."""
        while True:
            pause = asyncio.create_task(asyncio.sleep(generator.expovariate(1 / self._scenario.peace)))
            crash = asyncio.create_task(self._host.crashed.wait())
            try:
                await asyncio.wait((pause, crash), return_when=asyncio.FIRST_COMPLETED)
            finally:
                pause.cancel()
                crash.cancel()
            if self.up:
                match generator.choice(("crash", "restart", "clock", "unreachable")):
                    case "crash":
                        self._host.crash()
                    case "restart":
                        self._stopped = True
                        await self._host.stop()
                    case "clock":
                        self.ledger.journal.note_time()
                        self.loop.step_wall_clock(generator.choice((-40.0, -2.0, 5.0, 100.0)))
                        continue
                    case "unreachable":
                        actors = sorted(self.ledger.journal.queues)
                        self._host.unreachable = frozenset(generator.sample(actors, generator.randint(0, 2)))
                        continue
            await asyncio.sleep(generator.uniform(0, 3))
            await self._restart()

    async def grow(self, after: float) -> None:
        """One more partition, while the queue is in use."""
        await asyncio.sleep(after)
        partitions = self.ledger.journal.partitions("orders")
        if self.up and partitions < MOST_PARTITIONS:
            with suppress(Unavailable):
                await self.call(ACTOR_TYPE, "orders", "SetConfig", {"partitions": partitions + 1})

    async def calm_down(self, *, restart: bool) -> None:
        """No more faults, but for reminders that are late; and when asked for, a process that remembers nothing."""
        self.faults = Faults(reminder_late=self._scenario.faults.reminder_late, latest=LATEST)
        self._host.unreachable = frozenset()
        if restart or not self.up:
            await self._restart()

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
        self._gatherer = Gatherer(self._host.client, ACTOR_TYPE)
        self._doorbell = Doorbell(self._host.client)


class Caller:
    """Somebody who asks one thing after the other."""

    def __init__(self, name: str, generator: random.Random, server: Server, scenario: Scenario) -> None:
        self._random = generator
        self._server = server
        self._scenario = scenario
        self._make = Operations(generator, name)
        # What it holds, or held not long ago, and what it has heard of.
        self._locks: defaultdict[str, deque[str]] = defaultdict(lambda: deque(maxlen=4))
        self._ids: defaultdict[str, deque[str]] = defaultdict(lambda: deque(maxlen=20))
        self._held: dict[str, list[str]] = {}
        #: Of how many partitions it knows: there may be more by now.
        self._partitions = dict.fromkeys(QUEUES, 1)

    async def run(self, operations: int) -> None:
        """Asks so many times, or until a rule is found broken."""
        for _ in range(operations):
            if self._server.ledger.journal.broken:
                return
            await asyncio.sleep(self._random.expovariate(1 / self._scenario.pause))
            # Not an event, which would wake all at once: each comes back at a moment of its own, the same in every run.
            while not self._server.up:
                await asyncio.sleep(self._random.uniform(0, 1))
            [queue] = self._random.choices(list(QUEUES), weights=list(QUEUES.values()))
            if self._random.random() < 0.3:
                self._partitions[queue] = self._server.ledger.journal.partitions(queue)
            await self._do(queue, self._random.randrange(self._partitions[queue]))

    async def _do(self, queue: str, partition: int) -> None:
        actor = partition_id(queue, partition)
        operation = self._make.next(Known(self._locks[actor], self._ids[actor], self._held))
        method = operation.method
        if operation.nonsense:
            await self._ask(actor, operation, operation.data)
        elif method in ("Pop", "PopWithAck") and self._random.random() < self._scenario.polling:
            self._note(actor, operation, await self._poll(actor, operation))
        elif method == "Push":
            await self._push(queue, partition, operation)
        elif method == "Claim":
            await self._claim(queue, operation.data["dedup_ids"], partition)
        elif method == "Redrive":
            await self._redrive(actor, operation)
        else:
            self._note(actor, operation, await self._ask(actor, operation, operation.data))

    def _note(self, actor: str, operation: Operation, answer: Any) -> None:
        answer = answer or {}
        messages = answer.get("messages", answer.get("dead_letters", ()))
        self._ids[actor].extend(message["id"] for message in messages)
        self._ids[actor].extend(answer.get("ids", ()))
        if "lock_id" in answer:
            self._locks[actor].append(answer["lock_id"])
            self._held[answer["lock_id"]] = [message["id"] for message in messages]
        elif operation.method in ENDS_A_LOCK and self._locks[actor] and self._random.random() < 0.9:
            self._locks[actor].popleft()

    async def _push(self, queue: str, partition: int, operation: Operation) -> None:
        """As the gateway does it: what has a dedup id goes to the partition that has claimed it."""
        entries = operation.data.get("items", [operation.data])
        dedup_ids = list(dict.fromkeys(entry["dedup_id"] for entry in entries if "dedup_id" in entry))
        parts = {partition: operation}
        if dedup_ids and self._partitions[queue] > 1:
            homes = await self._claim(queue, dedup_ids, partition)
            if homes is None:
                return
            divided: dict[int, list[Any]] = {}
            for entry in entries:
                divided.setdefault(homes.get(entry.get("dedup_id"), partition), []).append(entry)
            parts = {home: Operation("Push", {"items": part}) for home, part in divided.items()}
        for home, part in parts.items():
            actor = partition_id(queue, home)
            self._note(actor, part, await self._ask(actor, part, part.data))

    async def _claim(self, queue: str, dedup_ids: list[str], partition: int) -> dict[str | None, int] | None:
        claim = Operation("Claim", {"dedup_ids": dedup_ids, "partition": partition})
        answer = await self._ask(queue, claim, claim.data)
        return None if answer is None else dict(zip(dedup_ids, answer["partitions"], strict=True))

    async def _redrive(self, actor: str, operation: Operation) -> None:
        """Again and again, while there are more, but not for ever."""
        data = operation.data
        for _ in range(10):
            answer = await self._ask(actor, operation, data)
            if answer is None or not answer["more"]:
                return
            data = data | ({"cursor": answer["cursor"]} if "cursor" in answer else {})

    async def _poll(self, actor: str, operation: Operation) -> Any:
        """Asks, and when there is nothing, waits for the doorbell and asks once more."""
        queue, _ = split_partition(actor)
        with Listening(queue) as rung:
            data = (operation.data or {}) | {"doorbell": await self._server.hang_doorbell()}
            answer = await self._ask(actor, operation, data)
            if answer is None or answer.get("count") != 0:
                return answer
            with suppress(TimeoutError):
                async with asyncio.timeout(self._random.uniform(1, 10)):
                    await rung.wait()
        await asyncio.sleep(self._random.uniform(0, 0.01))
        return await self._ask(actor, operation, operation.data)

    async def _ask(self, actor: str, operation: Operation, data: Any) -> Any:
        ledger, scenario = self._server.ledger, self._scenario
        gathered = self._random.random() < scenario.gathered
        patience = self._random.uniform(0, 0.02) if self._random.random() < scenario.impatient else None
        call = ledger.asked(actor, operation, alone=not gathered)
        try:
            async with asyncio.timeout(patience):
                if gathered:
                    answer = await self._server.gathered(actor, operation.method, data)
                else:
                    answer = await self._server.call(ACTOR_TYPE, actor, operation.method, data)
        except Unavailable:
            ledger.failed(call)
            return None
        except TimeoutError:
            ledger.left(call)
            return None
        ledger.answered(call, answer)
        return answer


class Inspection:
    """When all is quiet: what is due happens by itself, and everything is accounted for."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._journal = server.ledger.journal

    async def everything_happens_by_itself(self) -> None:
        """Nobody asks for anything, and yet all that is due is done, and on time."""
        await self._what_is_due_is_done()
        await self._all_is_tidied_up()

    async def everything_is_in_order(self) -> None:
        await self._what_waits_can_be_popped()
        await self._the_index_knows_all()
        self._server.ledger.close()

    async def _what_is_due_is_done(self) -> None:
        """Locks end, delayed items become available, expired ones vanish, and dedup ids are forgotten."""
        while ahead := self._ahead():
            await self._sleep_until(max(self._now(), min(map(min, ahead.values()))) + LATEST + SLACK)
            following = self._ahead()
            for name, moments in ahead.items():
                # A queue does some at a time, each in a turn of its own, and the reminder of each may be late.
                if min(moments) + LATEST + SLACK <= self._now():
                    late = self._now() - min(moments)
                    assert following.get(name) != moments, f"{late:.0f} s ago {name} had to do something, and did not"

    async def _all_is_tidied_up(self) -> None:
        """What was sent arrives, queues are listed, partitions know their configuration, and nothing is left behind."""
        # Whatever failed is tried again by a reminder, and may find that there is more to do.
        await asyncio.sleep(2 * (RESEND_SECONDS + LATEST + SLACK))
        for name, watched in list(self._journal.queues.items()):
            contents = watched.contents
            assert not contents.parcels, f"what {name} sent never arrived"
            assert contents.listed or "@" in name or not watched.used, f"{name} is not listed"
            assert not contents.untold, f"{contents.untold} of {name} were never told"
            first = self._journal.watched(split_partition(name)[0])
            assert contents.config == first.contents.config, f"{name} has not the configuration of its queue"
            while garbage := watched.contents.garbage:
                await asyncio.sleep(LATEST + SLACK)
                assert watched.contents.garbage < garbage, f"{name} was purged and is not swept"
            left_over = self._journal.keys(name) - watched.contents.keys
            assert not left_over, f"{name} leaves {left_over} behind"

    async def _what_waits_can_be_popped(self) -> None:
        """Each queue gives what the disk says it has, in order, and is empty then."""
        for name, watched in list(self._journal.queues.items()):
            contents = watched.contents
            expected = [entry.id(contents.partition) for entry in contents.waiting]
            popped: list[str] = []
            while answer := await self._pop(name):
                popped += answer
            assert popped == expected
            assert not watched.lives
        await self._all_is_tidied_up()
        for name in self._journal.queues:
            left = {key for key in self._journal.keys(name) if not key.startswith("arrivals-")}
            assert left <= {"metadata", "config", "expired-locks"}

    async def _pop(self, actor: str) -> list[str]:
        operation = Operation("Pop", {"count": 100})
        call = self._server.ledger.asked(actor, operation, alone=True)
        answer = await self._server.call(ACTOR_TYPE, actor, "Pop", operation.data)
        self._server.ledger.answered(call, answer)
        return [message["id"] for message in answer["messages"]]

    async def _the_index_knows_all(self) -> None:
        listed = [name for shard in range(SHARDS) for name in await self._server.call(INDEX_TYPE, str(shard), "List")]
        assert len(listed) == len(set(listed))
        known = {name for name in self._journal.queues if "@" not in name}
        used = {name for name in known if self._journal.watched(name).used or self._journal.partitions(name) > 1}
        assert used <= set(listed) <= known

    def _ahead(self) -> dict[str, list[float]]:
        """The moments at which something is to happen by itself, in each queue in which something is."""
        ahead: dict[str, list[float]] = {}
        for name, watched in self._journal.queues.items():
            contents, window = watched.contents, watched.setting("dedup_window_seconds")
            ahead[name] = [
                *(lock.expires_at for lock in contents.locks.values()),
                *(group.due for group in contents.postponed),
                *(tick / TICKS_PER_SECOND for tick, _ in contents.calendar),
                *(at + window + CLAIM_LEEWAY * key.startswith("claims") for key, at in contents.remembered.items()),
            ]
        return {name: moments for name, moments in ahead.items() if moments}

    def _now(self) -> float:
        return self._server.loop.wall_clock()

    async def _sleep_until(self, moment: float) -> None:
        await asyncio.sleep(max(0.0, moment - self._now()))


@contextmanager
def _silence() -> Iterator[None]:
    """Faults are logged, thousands of them, and here they are meant to be."""
    log = logging.getLogger("holdfast")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(level)


def _first(errors: BaseExceptionGroup[Exception]) -> Exception:
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, Exception)
    return error
