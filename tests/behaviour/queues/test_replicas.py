"""Partitioned queues over two replicas of the app, of which one comes and goes while the queues are in use."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.behaviour.queues.test_complete import ids_of
from tests.behaviour.queues.test_crashes import left
from tests.behaviour.queues.test_long_polls import answered, waiting
from tests.behaviour.queues.traffic import PAUSE, Consumer, Ledger, Producer
from tests.behaviour.stacks import OnReplicas, on_stacks
from tests.support.rest import Server
from tests.support.stacks.base import CallFailed
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from tests.support.rest import Answer, Queue

#: So many that some are on either side.
PARTITIONS = 16
#: How long it may take until calls to a replica that is gone go to the other one.
MOVED = 60

on_replicas = on_stacks(OnReplicas.name)


@asynccontextmanager
async def second_replica(server: Server) -> AsyncIterator[Server]:
    """The second one, ready, and the same test's queues through it."""
    await server.stack.start_second()
    try:
        async with Server(server.stack, server.name, server.stack.second_port) as second:
            yield second
    finally:
        await server.stack.kill_second()


async def spread_out(server: Server, **config: object) -> Queue:
    """A queue that both replicas have partitions of."""
    queue = server.queue()
    (await queue.configure(partitions=PARTITIONS, **config)).ok()

    async def shared() -> bool:
        await queue.stats()
        return bool(await server.stack.actors_of_second() > 0)

    await eventually(shared, within=30)
    return queue


async def gone_through(call: Callable[[], Awaitable[Answer]], within: float = MOVED) -> Answer:
    """The first answer that is not a refusal for the moment."""

    async def answer() -> Answer | None:
        got = await call()
        if got.status == 503:
            got.refused_for_now(503, got.body["error_code"])
            return None
        return got

    found = await eventually(answer, within)
    assert found is not None
    return found


@on_replicas
async def test_both_replicas_serve_all_partitions_and_one_those_of_one_that_died(server: Server) -> None:
    async with second_replica(server) as second:
        queue = await spread_out(server, max_locks=3)
        other = second.queue()
        polls = await waiting(queue, polls=PARTITIONS, require_ack=True)
        # The second has heard nothing of partitions yet.
        pushed = [(await other.push(number, dedup_id=str(number))).ok()["ids"][0] for number in range(PARTITIONS)]
        taken = await answered(polls, PARTITIONS, within=20)
        assert sorted(item for answer in taken for item in answer["items"]) == list(range(PARTITIONS))
        for number, item_id in enumerate(pushed):
            assert (await queue.push("again", dedup_id=str(number))).ok()["ids"] == [item_id]
        assert (await other.complete(*ids_of(*taken))).ok()["completed"] == PARTITIONS
        assert await other.stats() == await queue.stats() | {"oldest_age_seconds": None}
        for number in range(PARTITIONS):
            (await other.push(number)).ok()
        locks = [await queue.lock(ttl_seconds=300) for _ in range(PARTITIONS)]
        await server.stack.kill_second()
        # It can be repeated until it goes through, whatever was done by those before.
        answer = await gone_through(lambda: queue.complete(*ids_of(*locks)))
        assert answer.ok()["completed"] + answer.body["ignored"] == PARTITIONS
        stats = (await gone_through(lambda: queue.get(""))).ok()
        assert (stats["locked"], stats["counters"]["acknowledged"]) == (0, 2 * PARTITIONS)


@on_replicas
async def test_a_replica_that_does_not_answer_holds_up_its_own_partitions_only(server: Server) -> None:
    async with second_replica(server):
        queue = await spread_out(server)
        for number in range(PARTITIONS):
            (await queue.push(number)).ok()
        ids = ids_of(*[await queue.lock(ttl_seconds=300) for _ in range(PARTITIONS)])
        async with server.stack.second_halted():
            began = time.monotonic()
            (await queue.complete(*ids)).refused_for_now(503, "PARTITION_UNAVAILABLE")
            assert time.monotonic() - began < 10, "it waited for a partition that does not answer"
            answers = await asyncio.gather(*(queue.complete(item_id) for item_id in ids))
            there = [answer for answer in answers if answer.status == 200]
            assert 0 < len(there) < PARTITIONS
            # The others were completed by the call that was refused, and stay so.
            assert {(answer.body["completed"], answer.body["ignored"]) for answer in there} == {(0, 1)}
            for answer in answers:
                if answer.status != 200:
                    answer.refused_for_now(503, "PARTITION_UNAVAILABLE")
        answer = await gone_through(lambda: queue.complete(*ids))
        assert answer.ok()["completed"] + answer.body["ignored"] == PARTITIONS
        stats = (await gone_through(lambda: queue.get(""))).ok()
        assert (stats["locked"], stats["counters"]["acknowledged"]) == (0, PARTITIONS)


@dataclass
class Insisting(Producer):
    """Repeats each push until it is acknowledged; the ``dedup_id`` makes it stored once."""

    async def run(self) -> None:
        while not self.ledger.stopping:
            name = (self.number, self.tried)
            try:
                answer = await self.queue.push(name, priority=self.priority, dedup_id=f"{self.number}/{self.tried}")
            except CallFailed:
                answer = None
            if answer is not None and answer.status == 200:
                [self.ledger.pushed[name]] = answer.body["ids"]
                self.done += 1
                self.tried += 1
            else:
                await asyncio.sleep(PAUSE)


@on_replicas
async def test_nothing_is_lost_while_a_replica_comes_and_goes(server: Server) -> None:
    queue, ledger = server.queue(), Ledger()
    (await queue.configure(partitions=PARTITIONS, max_locks=20, max_deliveries=1000)).ok()
    async with Server(server.stack, server.name, server.stack.second_port) as second:
        other = second.queue()
        # Some of them call the replica that comes and goes, and go on calling it while it is away.
        producers = [
            Insisting(each, ledger, number, priority=number % 2) for number, each in enumerate([queue, other] * 3)
        ]
        consumers = [
            Consumer(each, ledger, wait_seconds=number % 2, moving=True)
            for number, each in enumerate([queue, other] * 3)
        ]
        callers = [server.begin(caller.run()) for caller in (*producers, *consumers)]
        on_first = [producer for producer in producers if producer.queue is queue]

        async def progress() -> None:
            """Waits until the callers of the first replica have made progress, wherever the partitions are now."""
            marks = [producer.done + 5 for producer in on_first]
            taken = sum(consumer.done for consumer in consumers) + 20

            async def reached() -> bool:
                further = all(producer.done >= mark for producer, mark in zip(on_first, marks, strict=True))
                return further and sum(consumer.done for consumer in consumers) >= taken

            await eventually(reached, within=MOVED)

        try:
            for leave in (server.stack.stop_second, server.stack.kill_second):
                await progress()
                await server.stack.start_second()
                await progress()
                await eventually(server.stack.actors_of_second)
                await leave()
            await progress()
        finally:
            ledger.stopping = True
            await server.stack.kill_second()
        await asyncio.gather(*callers)
    assert ledger.wrong == []
    found = Counter(name for name, _ in await left(queue))
    lost = ledger.pushed.keys() - found.keys() - ledger.acknowledged.keys() - ledger.unsure_acknowledged
    assert not lost, "pushed with 200, and neither there nor consumed"
    assert not found.keys() & ledger.acknowledged.keys(), "acknowledged with 200, and still there"
    assert set(found.values()) <= {1}, "an item is in the queue twice"
    assert len(set(ledger.pushed.values())) == len(ledger.pushed), "two items have the same id"
    # Whatever became of an answer, the queue has counted the end of every item that is not there any more.
    gone = (ledger.pushed.keys() | ledger.acknowledged.keys() | ledger.unsure_acknowledged) - found.keys()
    counters = (await queue.stats())["counters"]
    assert counters["acknowledged"] == len(gone)
    assert counters["pushed"] == len(gone) + len(found)
