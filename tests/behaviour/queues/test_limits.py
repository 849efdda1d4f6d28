"""Queues that take no more than they are told to: a push that is refused has stored nothing."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from tests.behaviour.clock import past
from tests.behaviour.queues.test_partitions import PARTITIONS, one_in_each, partition_of, partitioned
from tests.behaviour.stacks import on_every_stack

if TYPE_CHECKING:
    from tests.support.rest import Server


@on_every_stack
async def test_a_full_queue_refuses_and_stores_nothing(server: Server) -> None:
    queue = server.queue()
    (await queue.configure(capacity=5, max_locks=2)).ok()
    (await queue.push_many(1, 2, 3)).ok()
    body = (await queue.push_many("x", "y", "z")).refused_for_now(429, "CAPACITY")
    assert "5" in body["message"]
    (await queue.push_many(4, 5)).ok()
    (await queue.push("x")).refused_for_now(429, "CAPACITY")
    stats = await queue.stats()
    assert (stats["count"], stats["counters"]["pushed"]) == (5, 5)
    assert (await queue.pop()).ok()["items"] == [1]
    (await queue.push(6)).ok()
    assert await queue.drain() == [2, 3, 4, 5, 6]
    (await queue.push_many(*range(6))).refused_for_now(429, "CAPACITY")
    (await queue.configure(capacity=None)).ok()
    (await queue.push_many(*range(6))).ok()


@on_every_stack
async def test_what_is_locked_or_delayed_takes_room_too(server: Server) -> None:
    queue = server.queue()
    (await queue.configure(capacity=3, max_locks=3)).ok()
    (await queue.push_many("done", "back")).ok()
    done, back = await queue.lock(), await queue.lock()
    [later] = (await queue.push("later", delay_seconds=60)).ok()["ids"]
    for delay in (0, 60):
        (await queue.push("x", delay_seconds=delay)).refused_for_now(429, "CAPACITY")
    (await queue.abandon(back["lock_id"], delay_seconds=60)).ok()
    (await queue.push("x")).refused_for_now(429, "CAPACITY")
    (await queue.acknowledge(done["lock_id"])).ok()
    (await queue.push("a")).ok()
    (await queue.push("x")).refused_for_now(429, "CAPACITY")
    (await queue.revoke(later)).ok()
    (await queue.push("b")).ok()
    (await queue.push("x")).refused_for_now(429, "CAPACITY")
    assert await queue.drain() == ["a", "b"]
    assert (await queue.purge()).ok()["purged"] == 1
    (await queue.push_many(1, 2, 3)).ok()


@on_every_stack
async def test_a_duplicate_needs_no_room(server: Server) -> None:
    queue = server.queue()
    (await queue.configure(capacity=1, rate_per_second=0.001)).ok()
    first = (await queue.push("a", dedup_id="k")).ok()["ids"]
    for _ in range(3):
        assert (await queue.push("a", dedup_id="k")).ok() == {"success": True, "count": 0, "ids": first}
    (await queue.push("b", dedup_id="other")).refused_for_now(429, "CAPACITY")
    (await queue.pop()).ok()
    # What was refused is not remembered as if it had been pushed.
    (await queue.configure(rate_per_second=None)).ok()
    assert (await queue.push("b", dedup_id="other")).ok()["count"] == 1


@on_every_stack
async def test_the_capacity_is_that_of_all_partitions_together(server: Server) -> None:
    queue = await partitioned(server, capacity=10)
    answers = await asyncio.gather(*(queue.push(number) for number in range(30)))
    stored = [answer for answer in answers if answer.status == 200]
    for answer in answers:
        if answer.status != 200:
            answer.refused_for_now(429, "CAPACITY")
    assert len(stored) <= 10
    while (answer := await queue.push("more")).status == 200:
        stored.append(answer)
    answer.refused_for_now(429, "CAPACITY")
    assert len(stored) == 10
    assert (await queue.stats())["count"] == 10
    (await queue.push_many("too", "many")).refused_for_now(429, "CAPACITY")
    assert (await queue.pop()).ok()["count"] == 1
    (await queue.push("fits")).ok()
    (await queue.push("does not")).refused_for_now(429, "CAPACITY")
    assert len(await queue.drain()) == 10


@on_every_stack
async def test_a_push_that_was_refused_is_no_first_one(server: Server) -> None:
    queue = await partitioned(server, capacity=PARTITIONS)
    await one_in_each(queue)
    for name in "abcd":
        (await queue.push(name, dedup_id=name)).refused_for_now(429, "CAPACITY")
    assert len(await queue.drain()) == PARTITIONS
    for count in (1, 0):
        answers = [(await queue.push(name, dedup_id=name)).ok() for name in "abcd"]
        assert {answer["count"] for answer in answers} == {count}
    assert sorted(await queue.drain()) == ["a", "b", "c", "d"]


@on_every_stack
async def test_a_capacity_below_what_is_stored_is_refused_with_the_reason(server: Server) -> None:
    queue = await partitioned(server, max_locks=2)
    await one_in_each(queue, 2)
    await queue.lock(count=2)
    (await queue.push("later", delay_seconds=60)).ok()
    stored = 2 * PARTITIONS + 1
    for capacity in (1, stored - 1):
        body = (await queue.configure(capacity=capacity, max_locks=7)).refused(400, "INVALID_REQUEST")
        assert "capacity" in body["message"]
        assert str(stored) in body["message"]
    config = await queue.config()
    assert (config["capacity"], config["max_locks"]) == (None, 2)
    (await queue.configure(capacity=stored)).ok()
    (await queue.push("x")).refused_for_now(429, "CAPACITY")


@on_every_stack
async def test_a_rate_lets_so_many_through_in_a_second(server: Server) -> None:
    queue = server.queue()
    (await queue.configure(rate_per_second=2)).ok()
    began = time.time()
    (await queue.push_many("a", "b")).ok()
    refusal = await queue.push("c")
    # Unless the machine was so slow that it was time for the next one.
    if time.time() < began + 0.45:
        refusal.refused_for_now(429, "RATE_LIMITED")
        assert (await queue.stats())["counters"]["pushed"] == 2
        await past(time.time() + int(refusal.headers["Retry-After"]))
        (await queue.push("c")).ok()
    # One request of many is let through when nothing is owed, and paid for by those after it.
    (await queue.configure(rate_per_second=20)).ok()
    await past(time.time() + 1)
    (await queue.push_many(*range(100))).ok()
    refusal = await queue.push("x")
    refusal.refused_for_now(429, "RATE_LIMITED")
    assert 3 <= int(refusal.headers["Retry-After"]) <= 5
    assert refusal.body["retry_after"] == int(refusal.headers["Retry-After"])
    (await queue.configure(rate_per_second=None)).ok()
    (await queue.push_many("x", "y")).ok()


@on_every_stack
async def test_a_rate_does_not_hold_up_pops(server: Server) -> None:
    queue = server.queue()
    (await queue.push_many(*range(50))).ok()
    (await queue.configure(rate_per_second=1)).ok()
    for number in range(10):
        taken = await queue.lock()
        assert taken["items"] == [number]
        (await queue.acknowledge(taken["lock_id"])).ok()


@on_every_stack
async def test_the_rate_is_that_of_all_partitions_together(server: Server) -> None:
    queue = await partitioned(server, rate_per_second=2 * PARTITIONS)
    began = time.time()
    answers = await asyncio.gather(*(queue.push(number) for number in range(10 * PARTITIONS)))
    took = time.time() - began
    stored = [answer.body["ids"][0] for answer in answers if answer.status == 200]
    for answer in answers:
        if answer.status != 200:
            answer.refused_for_now(429, "RATE_LIMITED")
    # As many as come in a second at once, and what came in the meantime.
    assert 2 * PARTITIONS <= len(stored) <= 2 * PARTITIONS * (1 + took) + PARTITIONS
    assert {partition_of(item_id) for item_id in stored} == set(range(PARTITIONS))
    assert (await queue.stats())["count"] == len(stored)
