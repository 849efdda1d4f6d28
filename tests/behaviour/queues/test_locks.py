"""Competing consumers: many locks at once, each of which ends by itself."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from tests.behaviour.clock import expired
from tests.behaviour.stacks import on_every_stack

if TYPE_CHECKING:
    from tests.support.rest import Server


@on_every_stack
async def test_each_lock_ends_by_itself(server: Server) -> None:
    queue = server.queue()
    (await queue.configure(max_locks=5)).ok()
    await queue.push_many(*range(10))
    late = await queue.lock(count=2, ttl_seconds=1)
    done, longer, back, dead = [await queue.lock(count=2, ttl_seconds=60) for _ in range(4)]
    assert len({lock["lock_id"] for lock in (late, done, longer, back, dead)}) == 5
    assert (await queue.acknowledge(done["lock_id"])).ok()["items_acknowledged"] == 2
    extended = (await queue.extend(longer["lock_id"], additional_ttl_seconds=100)).ok()
    assert abs(extended["lock_expires_at"] - longer["lock_expires_at"] - 100) < 0.001
    assert (await queue.abandon(back["lock_id"], error="not now")).ok()["items_acknowledged"] == 2
    assert (await queue.dead_letter(dead["lock_id"])).ok()["items_acknowledged"] == 2
    await expired(late)
    [lock] = await queue.in_flight()
    assert longer["lock_id"].startswith(lock["lock_id_prefix"])
    assert lock["items"] == [4, 5]
    (await queue.acknowledge(late["lock_id"])).refused(410, "LOCK_EXPIRED")
    for over in (done, back, dead):
        (await queue.acknowledge(over["lock_id"])).refused(400, "INVALID_LOCK_ID")
    assert (await queue.acknowledge(longer["lock_id"])).ok()["items_acknowledged"] == 2
    left = await queue.drain_messages()
    assert [(item, message["delivery_count"], message.get("last_error")) for item, message in left] == [
        (0, 2, None),
        (1, 2, None),
        (6, 2, "not now"),
        (7, 2, "not now"),
    ]


@on_every_stack
async def test_what_comes_back_takes_its_place_among_what_was_never_taken(server: Server) -> None:
    queue = server.queue()
    (await queue.configure(max_locks=3)).ok()
    await queue.push_many("a1", "a2", "a3", "a4", "a5", priority=1)
    await queue.push_many("b1", "b2", priority=2)
    first, second = await queue.lock(count=2), await queue.lock(count=1)
    assert (await queue.pop()).ok()["items"] == ["a4"]
    late = await queue.lock(count=2, ttl_seconds=1)
    assert late["items"] == ["a5", "b1"]
    (await queue.push("c", priority=0)).ok()
    (await queue.abandon(second["lock_id"])).ok()
    await expired(late)
    assert (await queue.peek(count=9))["items"] == ["c", "a3", "a5", "b1", "b2"]
    (await queue.abandon(first["lock_id"])).ok()
    assert await queue.drain() == ["c", "a1", "a2", "a3", "a5", "b1", "b2"]


@on_every_stack
async def test_many_locks_at_once(server: Server) -> None:
    queue = server.queue()
    (await queue.configure(max_locks=200)).ok()
    await queue.push_many(*range(200))
    locks = await asyncio.gather(*(queue.lock(ttl_seconds=120) for _ in range(200)))
    assert sorted(item for lock in locks for item in lock["items"]) == list(range(200))
    (await queue.push("one more")).ok()
    before = time.time()
    body = (await queue.pop()).refused(423, "QUEUE_LOCKED")
    assert body["lock_expires_at"] == min(lock["lock_expires_at"] for lock in locks) <= before + 120
    assert (await queue.stats())["locked"] == 200
    answers = await asyncio.gather(
        *(queue.acknowledge(lock["lock_id"]) for lock in locks[::2]),
        *(queue.abandon(lock["lock_id"]) for lock in locks[1::2]),
    )
    assert [answer.ok()["items_acknowledged"] for answer in answers] == [1] * 200
    back = sorted(item for lock in locks[1::2] for item in lock["items"])
    assert await queue.drain() == [*back, "one more"]
    assert await queue.in_flight() == []


@on_every_stack
async def test_some_of_the_items_under_a_lock_can_be_given_back_or_rejected(server: Server) -> None:
    queue = server.queue()
    await queue.push_many(*range(6))
    taken = await queue.lock(count=6)
    ids = [message["id"] for message in taken["messages"]]
    for call in (queue.abandon, queue.dead_letter):
        # One that it does not hold, and nothing happens.
        (await call(taken["lock_id"], ids=[ids[0], "0-0-0-77"])).refused(400, "INVALID_REQUEST")
    assert [lock["count"] for lock in await queue.in_flight()] == [6]
    answer = (await queue.abandon(taken["lock_id"], ids=[ids[4], ids[1], ids[4]], error="busy")).ok()
    assert answer["items_acknowledged"] == 2
    assert (await queue.dead_letter(taken["lock_id"], ids=[ids[2]], reason="broken")).ok()["items_acknowledged"] == 1
    (await queue.pop()).refused(423, "QUEUE_LOCKED")
    assert (await queue.acknowledge(taken["lock_id"])).ok()["items_acknowledged"] == 3
    left = await queue.drain_messages()
    assert [(item, message["delivery_count"], message["last_error"]) for item, message in left] == [
        (1, 2, "busy"),
        (4, 2, "busy"),
    ]
    assert [(letter["item"], letter["reason"]) for letter in await queue.dead_letters()] == [(2, "broken")]
    # The last of a lock ends it.
    await queue.push("last")
    taken = await queue.lock()
    (await queue.abandon(taken["lock_id"], ids=[taken["messages"][0]["id"]])).ok()
    assert (await queue.pop()).ok()["items"] == ["last"]
