"""Delayed items, and items with a time to live."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from tests.behaviour.clock import expired, past
from tests.behaviour.queues.test_long_polls import LONG, answered, waiting
from tests.behaviour.queues.test_partitions import partitioned
from tests.behaviour.queues.test_redrive import letters_of
from tests.behaviour.stacks import ALL, KILLED, on_every_stack, on_stacks
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.rest import Queue, Server

#: What is meant for a moment comes at the latest a tick later.
TICK = 0.11


async def drained_when_due(queue: Queue, count: int) -> list[Any]:
    """So many items as they come, by polls that wait for them."""
    items: list[Any] = []
    while len(items) < count:
        items += (await queue.pop(wait_seconds=LONG, count=100)).ok()["items"]
    return items


# Delays


@on_every_stack
async def test_a_delayed_item_is_not_taken_before_its_time(server: Server) -> None:
    queue = server.queue()
    pushed = (await queue.push("later", delay_seconds=1.5)).ok()
    due = time.time() + 1.5
    (await queue.push("now")).ok()
    stats = await queue.stats()
    assert (stats["count"], stats["delayed"], stats["priorities"]) == (2, 1, {"0": 1})
    assert (await queue.peek(count=9))["items"] == ["now"]
    assert (await queue.pop(count=9)).ok()["items"] == ["now"]
    if time.time() < due - 0.2:
        assert (await queue.pop()).ok()["items"] == []
    await past(due + TICK)
    taken = await queue.lock()
    assert (taken["items"], taken["messages"][0]["id"]) == (["later"], pushed["ids"][0])
    assert taken["messages"][0]["delivery_count"] == 1
    (await queue.complete(pushed["ids"][0])).ok()
    stats = await queue.stats()
    assert (stats["count"], stats["delayed"], stats["locked"]) == (0, 0, 0)


@on_every_stack
async def test_due_items_come_in_the_order_of_their_time_then_of_their_pushing(server: Server) -> None:
    queue = server.queue()
    (await queue.push("never", delay_seconds=31_536_000)).ok()
    entries = [
        {"item": "last 1", "delay_seconds": 1.6},
        {"item": "first 1", "delay_seconds": 0.6},
        {"item": "last 2", "delay_seconds": 1.6},
        {"item": "first 2", "delay_seconds": 0.6},
        {"item": "middle", "delay_seconds": 1.1},
        {"item": "urgent", "delay_seconds": 1.6, "priority": 0},
        {"item": "at once", "delay_seconds": 0},
    ]
    (await queue.send("push", {"items": [{"priority": 3} | entry for entry in entries]})).ok()
    await past(time.time() + 1.6 + TICK)
    assert await queue.drain() == ["urgent", "at once", "first 1", "first 2", "middle", "last 1", "last 2"]
    stats = await queue.stats()
    assert (stats["count"], stats["delayed"]) == (1, 1)


@on_every_stack
async def test_abandoned_items_can_come_back_later(server: Server) -> None:
    queue = server.queue()
    await queue.push_many("a", "b", "c", "d")
    taken = await queue.lock(count=2)
    (await queue.abandon(taken["lock_id"], delay_seconds=2, error="busy")).ok()
    back = time.time() + 2
    stats = await queue.stats()
    assert (stats["count"], stats["delayed"], stats["locked"]) == (4, 2, 0)
    assert (await queue.pop()).ok()["items"] == ["c"]
    await past(back + TICK)
    # To where they were: before what was pushed after them.
    left = await queue.drain_messages()
    assert [(item, message["delivery_count"], message.get("last_error")) for item, message in left] == [
        ("a", 2, "busy"),
        ("b", 2, "busy"),
        ("d", 1, None),
    ]


@on_stacks(*ALL, part=KILLED)
async def test_a_poll_wakes_when_an_item_falls_due(server: Server) -> None:
    queue, back = await partitioned(server), server.queue("back")
    (await back.push("back")).ok()
    held = await back.lock()
    polls = [*await waiting(queue, polls=2), *await waiting(back)]
    began = time.time()
    (await queue.push("a", delay_seconds=1)).ok()
    (await queue.push("b", delay_seconds=1)).ok()
    (await back.abandon(held["lock_id"], delay_seconds=1)).ok()
    answers = await answered(polls, 3, within=8)
    assert time.time() >= began + 1
    assert sorted(item for answer in answers for item in answer["items"]) == ["a", "b", "back"]


@on_every_stack
async def test_a_purge_takes_what_is_delayed_too(server: Server) -> None:
    queue = server.queue()
    (await queue.push_many(*range(150), delay_seconds=60)).ok()
    (await queue.push_many(*range(3))).ok()
    (await queue.abandon((await queue.lock())["lock_id"], delay_seconds=60)).ok()
    assert (await queue.purge()).ok()["purged"] == 153
    stats = await queue.stats()
    assert (stats["count"], stats["delayed"]) == (0, 0)

    async def swept() -> bool:
        return not any(key.startswith(("segment-", "delayed-")) for key in await queue.stored())

    await eventually(swept)


# Times to live


@on_every_stack
async def test_items_that_expire_are_dropped_and_counted(server: Server) -> None:
    queue = server.queue()
    (await queue.push("long", ttl_seconds=60)).ok()
    (await queue.push("ever")).ok()
    (await queue.push_many("short", "short", ttl_seconds=1)).ok()
    pushed = time.time()
    assert (await queue.stats())["count"] == 4
    await past(pushed + 1 + TICK)
    stats = await queue.stats()
    assert (stats["count"], stats["counters"]["ttl_expired"], stats["counters"]["expired"]) == (2, 2, 0)
    assert await queue.drain() == ["long", "ever"]
    assert await queue.dead_letters() == []


@on_every_stack
async def test_expired_items_are_dropped_though_nobody_asks(server: Server) -> None:
    queue = server.queue()
    (await queue.push_many(*range(20), ttl_seconds=1)).ok()

    async def swept() -> bool:
        return not any(key.startswith(("segment-", "due-")) for key in await queue.stored())

    await eventually(swept)
    assert (await queue.stats())["counters"]["ttl_expired"] == 20


@on_every_stack
async def test_a_queue_can_have_a_time_to_live_for_all_its_items(server: Server) -> None:
    queue = await partitioned(server)
    (await queue.push_many("before", "before")).ok()
    (await queue.configure(default_ttl_seconds=2)).ok()
    (await queue.push_many("default", "default")).ok()
    (await queue.push("own", ttl_seconds=60)).ok()
    (await queue.push("delayed", delay_seconds=2.3)).ok()
    pushed = time.time()
    await past(pushed + 2 + TICK)
    stats = await queue.stats()
    assert (stats["count"], stats["counters"]["ttl_expired"]) == (4, 2)
    # Its time runs from when it can be taken.
    assert "delayed" in await drained_when_due(queue, 4)
    (await queue.configure(default_ttl_seconds=None)).ok()
    (await queue.push("ever")).ok()
    await past(time.time() + 2 + TICK)
    assert await queue.drain() == ["ever"]


@on_every_stack
async def test_whoever_has_taken_an_item_may_finish_it_after_its_time(server: Server) -> None:
    queue = server.queue()
    (await queue.configure(max_locks=3)).ok()
    (await queue.push_many("done", "abandoned", "late", ttl_seconds=2)).ok()
    pushed = time.time()
    done, abandoned, late = await queue.lock(), await queue.lock(), await queue.lock(ttl_seconds=4)
    await past(pushed + 2 + TICK)
    assert (await queue.stats())["locked"] == 3
    assert (await queue.acknowledge(done["lock_id"])).ok()["items_acknowledged"] == 1
    (await queue.abandon(abandoned["lock_id"])).ok()
    await expired(late)
    assert await queue.drain() == []

    async def dropped() -> bool:
        return int((await queue.stats())["counters"]["ttl_expired"]) == 2

    await eventually(dropped)
    assert (await queue.stats())["count"] == 0


@on_every_stack
async def test_expired_items_can_become_dead_letters(server: Server) -> None:
    queue = await partitioned(server, expired_to_dead_letters=True)
    (await queue.push_many("a", "b", ttl_seconds=1, idempotency_key="k")).ok()
    [kept] = (await queue.push("c", ttl_seconds=60)).ok()["ids"]
    letters = await letters_of(queue, 2)
    assert [(letter["item"], letter["reason"], letter["attempts"]) for letter in letters] == [
        ("a", "expired", 0),
        ("b", "expired", 0),
    ]
    assert {letter["idempotency_key"] for letter in letters} == {"k"}
    stats = await queue.stats()
    assert (stats["counters"]["ttl_expired"], stats["counters"]["dead_lettered"]) == (2, 2)
    # Redriven items have no time to live: it would be over at once.
    assert (await queue.redrive()).ok()["redriven"] == 2
    assert sorted(item for item, message in await queue.drain_messages() if message["id"] != kept) == ["a", "b"]
