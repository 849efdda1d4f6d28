"""Requests that travel together: one turn for many callers, and each gets what is its own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from tests.behaviour.stacks import on_every_stack

if TYPE_CHECKING:
    from tests.support.rest import Server


@on_every_stack
async def test_each_of_many_pushes_gets_its_own_id(server: Server) -> None:
    queue = server.queue()
    answers = await asyncio.gather(*(queue.push({"n": number}) for number in range(300)))
    ids = [answer.ok()["ids"] for answer in answers]
    assert all(len(own) == 1 for own in ids)
    by_id = {own[0]: number for number, own in enumerate(ids)}
    assert len(by_id) == 300
    while (taken := (await queue.pop(count=100)).ok())["count"]:
        for item, message in zip(taken["items"], taken["messages"], strict=True):
            assert by_id.pop(message["id"]) == item["n"]
    assert by_id == {}


@on_every_stack
async def test_a_bad_request_among_good_ones_fails_alone(server: Server) -> None:
    queue = server.queue()
    bad: list[tuple[str, Any, int, str]] = [
        ("push", {"item": 1, "priority": "0"}, 400, "INVALID_REQUEST"),
        ("push", {"priority": 0}, 400, "INVALID_REQUEST"),
        ("push", {"item": "x" * 1_100_000}, 413, "TOO_LARGE"),
        ("push", {"item": 1, "colour": "red"}, 400, "INVALID_REQUEST"),
        ("push", b'{"item": ', 400, "INVALID_REQUEST"),
        ("push", b"\xff\xfe", 400, "INVALID_REQUEST"),
        ("acknowledge", {"lock_id": "abc123def45"}, 404, "LOCK_NOT_FOUND"),
        ("abandon", {"lock_id": 7}, 400, "INVALID_REQUEST"),
        ("extend-lock", {"lock_id": "abc123def45", "additional_ttl_seconds": -1}, 400, "INVALID_REQUEST"),
    ]

    async def good(number: int) -> str:
        [item_id] = (await queue.push(number)).ok()["ids"]
        return str(item_id)

    async def wrong(number: int) -> None:
        call, body, status, code = bad[number % len(bad)]
        (await queue.send(call, body)).refused(status, code)

    ids, _, looks = await asyncio.gather(
        asyncio.gather(*(good(number) for number in range(90))),
        asyncio.gather(*(wrong(number) for number in range(90))),
        asyncio.gather(*(queue.stats() for _ in range(20))),
    )
    assert len(set(ids)) == 90
    assert all(0 <= look["count"] <= 90 for look in looks)
    assert sorted(await queue.drain()) == list(range(90))


@on_every_stack
async def test_each_of_many_pops_gets_items_of_its_own(server: Server) -> None:
    queue = server.queue()
    await queue.push_many(*range(200))
    answers = await asyncio.gather(*(queue.pop(count=1 + number % 5) for number in range(60)))
    assert [answer.ok()["count"] for answer in answers] == [1 + number % 5 for number in range(60)]
    assert sorted(item for answer in answers for item in answer.body["items"]) == list(range(180))


@on_every_stack
async def test_many_consumers_of_one_queue_acknowledge_what_is_theirs(server: Server) -> None:
    queue = server.queue()
    (await queue.configure(max_locks=20)).ok()
    await queue.push_many(*range(200))

    async def consume() -> list[Any]:
        done: list[Any] = []
        while (taken := (await queue.pop(require_ack=True, count=3)).ok())["count"]:
            assert (await queue.acknowledge(taken["lock_id"])).ok()["items_acknowledged"] == taken["count"]
            done += taken["items"]
        return done

    shares = await asyncio.gather(*(consume() for _ in range(20)))
    assert sorted(item for share in shares for item in share) == list(range(200))
    stats = await queue.stats()
    assert (stats["count"], stats["locked"], stats["counters"]["acknowledged"]) == (0, 0, 200)


@on_every_stack
async def test_the_pushes_of_each_caller_keep_their_order(server: Server) -> None:
    queue = server.queue()

    async def push(caller: int) -> None:
        for number in range(15):
            (await queue.push([caller, number])).ok()

    await asyncio.gather(*(push(caller) for caller in range(20)))
    items = await queue.drain()
    for caller in range(20):
        assert [number for who, number in items if who == caller] == list(range(15))


@on_every_stack
async def test_many_queues_at_once(server: Server) -> None:
    queues = [server.queue(str(number)) for number in range(40)]

    async def use(number: int) -> None:
        queue = queues[number]
        (await queue.push(number)).ok()
        taken = await queue.lock()
        assert taken["items"] == [number]
        (await queue.acknowledge(taken["lock_id"])).ok()
        (await queue.acknowledge(taken["lock_id"])).refused(404, "LOCK_NOT_FOUND")

    await asyncio.gather(*(use(number) for number in range(40)))
