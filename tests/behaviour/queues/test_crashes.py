"""``kill -9`` under twenty callers: what was answered with 200 is true, and stays true."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.behaviour.queues.traffic import Consumer, Ledger, Name, Producer
from tests.behaviour.stacks import ALL, DAPR, KILLED, on_stacks
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.support.rest import Queue, Server

ROUNDS = 2
PRODUCERS = 12
CONSUMERS = 8


async def storm(server: Server, kill: Callable[[], Awaitable[None]], start: Callable[[], Awaitable[None]]) -> None:
    queue, ledger = server.queue(), Ledger()
    (await queue.configure(max_locks=CONSUMERS + 2, max_deliveries=1000)).ok()
    producers = [Producer(queue, ledger, number, priority=number % 3) for number in range(PRODUCERS)]
    consumers = [Consumer(queue, ledger, wait_seconds=number % 2) for number in range(CONSUMERS)]
    callers = [server.begin(producer.run()) for producer in producers]
    callers += [server.begin(consumer.run()) for consumer in consumers]
    for _ in range(ROUNDS):
        await eventually(_progress(producers, consumers), within=60)
        await kill()
        await start()
    await eventually(_progress(producers, consumers), within=60)
    ledger.stopping = True
    await asyncio.gather(*callers)
    assert ledger.wrong == []
    check(ledger, await left(queue))


def _progress(producers: list[Producer], consumers: list[Consumer]) -> Callable[[], Awaitable[bool]]:
    """Returns a condition: each producer, and the consumers together, have made progress since this call."""
    marks = [producer.done + 8 for producer in producers]
    consumed = sum(consumer.done for consumer in consumers) + 20

    async def reached() -> bool:
        return (
            all(producer.done >= mark for producer, mark in zip(producers, marks, strict=True))
            and sum(consumer.done for consumer in consumers) >= consumed
        )

    return reached


async def left(queue: Queue) -> list[tuple[Name, str]]:
    """Returns the items of the queue in order, with ids, once locks with lost ids have expired."""

    async def unlocked() -> bool:
        return int((await queue.stats())["locked"]) == 0

    await eventually(unlocked, within=30)
    found: list[tuple[Name, str]] = []
    while (taken := (await queue.pop(count=100)).ok())["count"]:
        for (who, which), message in zip(taken["items"], taken["messages"], strict=True):
            found.append(((who, which), message["id"]))
    return found


def check(ledger: Ledger, found: list[tuple[Name, str]]) -> None:
    names = [name for name, _ in found]
    assert len(names) == len(set(names)), "an item is in the queue twice"
    assert len({item_id for _, item_id in found}) == len(found)
    present = set(names)
    lost = ledger.pushed.keys() - present - ledger.acknowledged.keys() - ledger.unsure_acknowledged
    assert not lost, "pushed with 200, and neither there nor consumed"
    assert not present & ledger.acknowledged.keys(), "acknowledged with 200, and still there"
    assert present <= ledger.pushed.keys() | ledger.unsure_pushed
    assert all(ledger.pushed.get(name, item_id) == item_id for name, item_id in found), "another id than it was given"
    # Each caller pushes into one priority, one item after the other.
    for producer in range(PRODUCERS):
        order = [which for who, which in names if who == producer]
        assert order == sorted(order)
        places = [_place(item_id) for (who, _), item_id in sorted(ledger.pushed.items()) if who == producer]
        assert places == sorted(places)


def _place(item_id: str) -> list[int]:
    """Ids are places: partition, priority, segment, ordinal."""
    return [int(part) for part in item_id.split("-")]


@on_stacks(*ALL, part=KILLED)
async def test_the_app_is_killed(server: Server) -> None:
    await storm(server, server.stack.kill_app, server.stack.start_app)


@on_stacks(*DAPR, part=KILLED)
async def test_daprd_is_killed(server: Server) -> None:
    await storm(server, server.stack.kill_daprd, server.stack.start_daprd)
