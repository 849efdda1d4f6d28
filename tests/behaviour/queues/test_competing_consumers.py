"""Fifty consumers of one queue of four partitions: everything exactly once, or at least once when some of them die."""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from tests.behaviour.queues.test_partitions import PARTITIONS, partitioned
from tests.behaviour.stacks import EMBEDDED, KILLED, OnPostgresql, on_stacks
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.rest import Queue, Server

ITEMS = 20_000
CONSUMERS = 50
BATCH = 20
PUSHED_AT_ONCE = 500

#: Consumers are threads of so many processes; killing one process kills several consumers.
PROCESSES = 10
KILLS = 12
#: A consumer that died keeps its items from the others so long.
LOCK_SECONDS = 2
SEED = 20260302


async def filled(server: Server) -> Queue:
    queue = await partitioned(server, max_locks=CONSUMERS, max_deliveries=1000)
    starts = range(0, ITEMS, PUSHED_AT_ONCE)
    answers = await asyncio.gather(*(queue.push_many(*range(first, first + PUSHED_AT_ONCE)) for first in starts))
    assert sum(answer.ok()["count"] for answer in answers) == ITEMS
    return queue


@on_stacks(EMBEDDED, OnPostgresql.name)
async def test_each_item_is_processed_exactly_once_when_nobody_fails(server: Server) -> None:
    queue = await filled(server)
    shares: list[list[int]] = []
    partitions: Counter[int] = Counter()

    async def consume() -> None:
        own: list[int] = []
        shares.append(own)
        while (taken := (await queue.pop(require_ack=True, count=BATCH, ttl_seconds=300)).ok())["count"]:
            own += taken["items"]
            partitions.update(message["partition"] for message in taken["messages"])
            assert {message["delivery_count"] for message in taken["messages"]} == {1}
            if len(own) % 3:
                ids = [message["id"] for message in taken["messages"]]
                assert (await queue.complete(*ids)).ok()["completed"] == len(ids)
            else:
                answer = (await queue.acknowledge(taken["lock_id"])).ok()
                assert answer["items_acknowledged"] == taken["count"]

    await asyncio.gather(*(consume() for _ in range(CONSUMERS)))
    assert sorted(item for own in shares for item in own) == list(range(ITEMS))
    assert all(shares), "a consumer got no items"
    assert partitions.keys() == set(range(PARTITIONS))
    stats = await queue.stats()
    assert (stats["count"], stats["locked"], stats["counters"]["acknowledged"]) == (0, 0, ITEMS)


class Crew:
    """Processes that consume, each with some consumers; one that is killed is replaced."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._random = random.Random(SEED)
        self._running: list[tuple[asyncio.subprocess.Process, asyncio.Task[None]]] = []
        self.told: dict[str, Counter[int]] = {}

    async def start(self) -> None:
        stack = self._queue.server.stack
        numbers = (stack.app_port, self._queue.name, CONSUMERS // PROCESSES, BATCH, LOCK_SECONDS)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-S", str(Path(__file__).with_name("consumer.py")), *map(str, numbers)),
            stdout=asyncio.subprocess.PIPE,
        )
        self._running.append((process, asyncio.create_task(self._follow(process))))

    async def kill_one(self) -> None:
        """As ``kill -9``, wherever its consumers are just now."""
        victim = self._running.pop(self._random.randrange(len(self._running)))
        await self._end(*victim)

    async def close(self) -> None:
        while self._running:
            await self._end(*self._running.pop())

    async def _end(self, process: asyncio.subprocess.Process, following: asyncio.Task[None]) -> None:
        process.kill()
        await process.wait()
        await following

    async def _follow(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            if line.endswith(b"\n"):
                what, items = json.loads(line)
                self.told.setdefault(what, Counter()).update(items)


@on_stacks(EMBEDDED, OnPostgresql.name, part=KILLED)
async def test_each_item_is_processed_at_least_once_when_consumers_are_killed(server: Server) -> None:
    queue = await filled(server)
    crew = Crew(queue)
    try:
        for _ in range(PROCESSES):
            await crew.start()
        for kills in range(1, KILLS + 1):
            mark = ITEMS * kills // (KILLS + 4)

            async def processed(mark: int = mark) -> bool:
                return len(crew.told.get("processed", ())) >= mark

            await eventually(processed, within=60)
            await crew.kill_one()
            await crew.start()

        async def drained() -> bool:
            stats = await queue.stats()
            return int(stats["count"]) + int(stats["locked"]) == 0

        await eventually(drained, within=60)
    finally:
        await crew.close()
    assert crew.told["processed"].keys() == set(range(ITEMS)), "some items were not processed"
    assert set(crew.told["acknowledged"].values()) == {1}, "acknowledged twice"
    assert crew.told.keys() <= {"processed", "acknowledged", "refused LOCK_EXPIRED"}
    stats = await queue.stats()
    assert stats["counters"]["acknowledged"] == ITEMS
    # The kills were felt: another consumer got the items of a dead one when their lock expired, or at once when the
    # server saw that the caller of a pop had left. The latter does not count as a delivery.
    counters = stats["counters"]
    assert counters["expired"] + counters["abandoned"] > 0
    assert counters["expired"] <= counters["redelivered"] <= counters["expired"] + counters["abandoned"]
