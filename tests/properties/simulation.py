"""Callers, a server that crashes, and a disk: everything about a run comes from its seed."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import defaultdict, deque
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from holdfast.errors import Unavailable
from holdfast.kinds import QUEUE_TYPE
from holdfast.names import partition_id, split_partition
from holdfast.runtime.notifier import Subscription
from holdfast.runtime.simulated import VirtualTimeLoop
from tests.properties.invariants import Inspection
from tests.properties.operations import ENDS_A_LOCK, Known, Operation, Operations
from tests.properties.server import QUEUES, Scenario, Server
from tests.properties.sizes import small
from tests.support.seeds import OPERATIONS_PER_SEED, noting_seed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


OPERATIONS_BETWEEN_LULLS = 250


def simulate(seed: int) -> str:
    """Runs what the seed stands for, and checks all that is known to hold. Answers with a digest of the run."""
    generator = random.Random(seed)
    with noting_seed(seed, "test_simulation.py"), small(generator), _silence():
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
            await inspection.one_target_holds_up_no_other()
            await inspection.everything_is_in_order()
            assert not self._unhandled, f"tasks with unretrieved errors: {self._unhandled}"
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


class Caller:
    """A client that makes one call after the other."""

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
        paused = self._server.ledger.journal.watched(queue).setting("paused")
        operation = self._make.next(Known(self._locks[actor], self._ids[actor], self._held, paused=paused))
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
        """Asks, and when there is nothing, waits for a notification and asks once more."""
        queue, _ = split_partition(actor)
        with Subscription(queue) as rung:
            data = (operation.data or {}) | {"notify": await self._server.subscribe()}
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
        # A deletion is several turns in one call.
        gathered = self._random.random() < scenario.gathered and operation.method != "Delete"
        patience = self._random.uniform(0, 0.02) if self._random.random() < scenario.impatient else None
        call = ledger.asked(actor, operation, alone=not gathered)
        process = self._server.process
        try:
            async with asyncio.timeout(patience):
                if gathered:
                    answer = await self._server.gathered(actor, operation.method, data)
                else:
                    answer = await self._server.call(QUEUE_TYPE, actor, operation.method, data)
        except Unavailable:
            ledger.failed(call, alive=self._server.up and process is self._server.process)
            return None
        except TimeoutError:
            ledger.left(call)
            return None
        ledger.answered(call, answer)
        return answer


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
