"""Orchestrations on a simulated host, with a worker beside it, while things break."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast import App, Context, Retry
from holdfast.errors import HoldfastError, SubOrchestrationFailed, Unavailable
from holdfast.orchestration.actor import orchestration_actor
from holdfast.orchestration.index import INSTANCE_INDEX_TYPE, SHARDS, InstanceIndexActor
from holdfast.orchestration.interface import ORCHESTRATION_TYPE
from holdfast.orchestration.tenants import TenantIndexActor
from holdfast.orchestration.vigil import VigilActor
from holdfast.pushpop.actor import PushPopActor
from holdfast.pushpop.doorbell import DoorbellActor
from holdfast.pushpop.index import QueueIndexActor
from holdfast.runtime.serialization import dump, load
from holdfast.runtime.simulated import Faults, MemoryStorage, SimulatedHost, VirtualTimeLoop
from holdfast.worker.beside import BesideServer
from holdfast.worker.worker import Worker
from properties.seeds import told
from properties.sizes import small_instances

if TYPE_CHECKING:
    from collections.abc import Callable

app = App()

#: How often each activity ran, by its idempotency key.
ran: Counter[str] = Counter()


@app.activity
async def double(number: int) -> int:
    from holdfast.worker.context import activity_context

    ran[activity_context().idempotency_key] += 1
    await asyncio.sleep(0.01 * number)
    return 2 * number


@app.activity
async def fail_at_first(number: int) -> int:
    from holdfast.worker.context import activity_context

    if activity_context().attempt < 3:
        raise ValueError(f"not yet: {number}")
    return number


@app.activity
async def fail(number: int) -> int:
    raise RuntimeError(f"never: {number}")


@app.orchestration
async def in_a_row(ctx: Context, number: int) -> int:
    total = 0
    for step in range(number):
        total += await ctx.call(double, step)
        ctx.set_status({"step": step})
    return total


@app.orchestration
async def side_by_side(ctx: Context, number: int) -> list[int]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ctx.call(double, step)) for step in range(number)]
    return [task.result() for task in tasks]


@app.orchestration
async def patient(ctx: Context, number: int) -> list[Any]:
    began = ctx.now()
    await asyncio.sleep(number)
    try:
        async with asyncio.timeout(number):
            await ctx.event("never")
    except TimeoutError:
        pass
    waited = (ctx.now() - began).total_seconds()
    return [round(waited) >= 2 * number, await ctx.call(fail_at_first, number, retry=Retry(max_attempts=3))]


@app.orchestration
async def family(ctx: Context, number: int) -> list[Any]:
    results = await asyncio.gather(
        *(ctx.sub(in_a_row, size) for size in range(number)), ctx.sub(failing, number), return_exceptions=True
    )
    return [type(result).__name__ if isinstance(result, Exception) else result for result in results]


@app.orchestration
async def failing(ctx: Context, number: int) -> int:
    return await ctx.call(fail, number)


@app.orchestration
async def again_and_again(ctx: Context, number: int) -> int:
    await ctx.call(double, number)
    if number:
        ctx.continue_as_new(number - 1)
    return ctx.execution_id


@app.orchestration(mailboxes=["letters"])
async def reader(ctx: Context, number: int) -> list[int]:
    return [await ctx.receive("letters", int) for _ in range(number)]


EXPECTED: dict[str, Callable[[int], Any]] = {
    "in_a_row": lambda number: number * (number - 1),
    "side_by_side": lambda number: [2 * step for step in range(number)],
    "patient": lambda number: [True, number],
    "family": lambda number: [*(size * (size - 1) for size in range(number)), SubOrchestrationFailed.__name__],
    "again_and_again": lambda number: number + 1,
    "reader": lambda number: list(range(number)),
}


@dataclass(frozen=True)
class Ordered:
    instance_id: str
    name: str
    number: int


def simulate_instances(seed: int, instances: int) -> int:
    """Runs so many under what the seed stands for, and checks what came of them. Answers how many activities ran."""
    generator = random.Random(seed)
    with told(seed, "test_instances.py"), small_instances(generator):
        return VirtualTimeLoop.run(_Run(seed, generator, instances).run())


class _Run:
    def __init__(self, seed: int, generator: random.Random, instances: int) -> None:
        self._random = generator
        self._seed = seed
        self._ordered = [
            Ordered(f"i-{number}", generator.choice(list(EXPECTED)), generator.randint(0, 5))
            for number in range(instances)
        ]
        trouble = generator.choice((0.0, 0.02, 0.1))
        self._faults = Faults(
            load_fails=trouble,
            remind_fails=trouble / 2,
            save_fails=trouble,
            reply_lost=trouble,
            crash_before_save=trouble / 20,
            crash_after_save=trouble / 20,
            reminder_twice=0.3,
            reminder_late=0.3,
            latest=5.0,
            slowest=generator.choice((0.001, 0.02)),
        )
        self._replaying = generator.random() < 0.3
        self._idle = generator.choice((0.05, 2.0, 60.0))

    async def run(self) -> int:
        ran.clear()
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)
        self._storage = MemoryStorage(loop.wall_clock)
        self._host = SimulatedHost(seed=self._seed, storage=self._storage, idle_timeout=self._idle)
        classes = (PushPopActor, QueueIndexActor, DoorbellActor, InstanceIndexActor, TenantIndexActor, VigilActor)
        for actor_class in (*classes, orchestration_actor(app.registry, always_replay=self._replaying)):
            await self._host.register(actor_class)
        await self._host.start()
        worker = self._begin_work()
        self._host.faults = self._faults
        asking = asyncio.gather(*(self._order(one) for one in self._ordered))
        try:
            while not asking.done():
                await asyncio.wait({asking}, timeout=self._random.expovariate(1 / 20))
                if self._host.crashed.is_set() or self._random.random() < 0.2:
                    worker.cancel()
                    await asyncio.gather(worker, return_exceptions=True)
                    self._host = await self._host.restarted()
                    worker = self._begin_work()
            await asking
            self._host.faults = Faults()
            for one in self._ordered:
                await self._check(one)
            await self._check_index()
            await self._check_deletion()
        finally:
            worker.cancel()
            await asyncio.gather(worker, asking, return_exceptions=True)
            await self._host.stop()
        return ran.total()

    def _begin_work(self) -> asyncio.Task[None]:
        return asyncio.create_task(Worker(BesideServer(self._host.client, alone=True), app.registry, slots=7).run())

    async def _order(self, one: Ordered) -> None:
        await self._insist(one.instance_id, "Start", {"name": one.name, "input": one.number, "seed": "s"})
        if one.name == "reader":
            for letter in range(one.number):
                await self._insist(
                    one.instance_id, "RaiseEvent", {"name": "letters", "data": letter, "event_id": f"letter-{letter}"}
                )

    async def _check(self, one: Ordered) -> None:
        async with asyncio.timeout(600):
            while (status := await self._insist(one.instance_id, "Status", None))["ended_at"] is None:
                await asyncio.sleep(1)
        assert (status["status"], status["output"]) == ("COMPLETED", EXPECTED[one.name](one.number)), status
        last = {"step": one.number - 1} if one.name == "in_a_row" and one.number else None
        given = 0 if one.name == "again_and_again" else one.number
        assert (status["input"], status["custom_status"]) == (given, last), status
        events: list[dict[str, Any]] = []
        while True:
            page = await self._insist(one.instance_id, "History", {"limit": 7, "cursor": len(events)})
            events += page["events"]
            if "next_cursor" not in page:
                break
        check_history(events)

    async def _check_index(self) -> None:
        await asyncio.sleep(60)
        listed = {}
        for shard in range(SHARDS):
            answer = load(
                await self._host.client.invoke_method(INSTANCE_INDEX_TYPE, str(shard), "List", dump({"limit": 1000}))
            )
            listed.update({entry[0]: entry[2] for entry in answer["instances"]})
        for one in self._ordered:
            assert listed[one.instance_id] == "COMPLETED"

    async def _check_deletion(self) -> None:
        """Nothing is left of what is deleted; children are not."""
        for one in self._ordered:
            await self._insist(one.instance_id, "Delete", None)
        await asyncio.sleep(60)
        for one in self._ordered:
            assert not [key for key in self._storage.rows if f"{ORCHESTRATION_TYPE}||{one.instance_id}||" in key]

    async def _insist(self, instance_id: str, method: str, data: Any) -> Any:
        while True:
            try:
                client = self._host.client
                answer = load(await client.invoke_method(ORCHESTRATION_TYPE, instance_id, method, dump(data)))
            except Unavailable:
                await asyncio.sleep(self._random.uniform(0, 2))
                continue
            if answer.get("success") is False and answer["error_code"] != "CONFLICT":
                # It may have ended with what was heard already, though nobody heard the answer.
                raise HoldfastError(f"{method} of {instance_id}: {answer}")
            return answer


def check_history(events: list[dict[str, Any]]) -> None:
    """Contiguous, one end, and every completion has its schedule."""
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert events[0]["type"] == "OrchestrationStarted"
    ends = [event for event in events if event["type"] in ("OrchestrationCompleted", "OrchestrationFailed")]
    assert ends == [events[-1]]
    pairs = {
        "ActivityCompleted": "ActivityScheduled",
        "ActivityFailed": "ActivityScheduled",
        "TimerFired": "TimerCreated",
        "SubOrchestrationCompleted": "SubOrchestrationScheduled",
        "SubOrchestrationFailed": "SubOrchestrationScheduled",
    }
    answered: set[int] = set()
    for event in events:
        if event["type"] in pairs:
            assert events[event["scheduled_seq"] - 1]["type"] == pairs[event["type"]]
            assert event["scheduled_seq"] not in answered
            answered.add(event["scheduled_seq"])
