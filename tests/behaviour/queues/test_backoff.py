"""Items that fail again and again come back later and later."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from tests.behaviour.clock import expired, past
from tests.behaviour.queues.test_partitions import partitioned
from tests.behaviour.stacks import on_every_stack

if TYPE_CHECKING:
    from tests.support.rest import Queue, Server

LONG = 60


async def delayed(queue: Queue) -> tuple[int, int]:
    stats = await queue.stats()
    return stats["count"], stats["delayed"]


async def fail_next(queue: Queue, *items: Any) -> None:
    """Waits for these items, and abandons them with an error."""
    taken = await queue.lock(count=len(items), wait_seconds=LONG)
    assert taken["items"] == list(items)
    (await queue.abandon(taken["lock_id"], error="it broke")).ok()


@on_every_stack
async def test_each_failure_delays_an_item_by_the_factor_more_up_to_the_longest_delay(server: Server) -> None:
    queue = server.queue()
    (await queue.configure(retry_delay_seconds=0.4, retry_delay_factor=3, retry_delay_max_seconds=1.5)).ok()
    (await queue.push("a")).ok()
    for delay in (0.4, 1.2, 1.5):
        began = time.time()
        await fail_next(queue, "a")
        assert await delayed(queue) == (1, 1) or time.time() >= began + delay
        taken = await queue.lock(wait_seconds=LONG)
        assert time.time() >= began + delay
        assert taken["messages"][0]["last_error"] == "it broke"
        # Given back as if it had not been tried: the next delay is that of the next failure.
        (await queue.abandon(taken["lock_id"], uncounted=True)).ok()


@on_every_stack
async def test_failed_items_come_back_to_the_front_in_their_order(server: Server) -> None:
    queue = server.queue()
    (await queue.configure(retry_delay_seconds=1.0)).ok()
    await queue.push_many("a", "b", "c", "d")
    await fail_next(queue, "a", "b")
    back = time.time() + 1.0
    assert await delayed(queue) == (4, 2)
    assert (await queue.pop()).ok()["items"] == ["c"]
    await past(back)
    assert await queue.drain() == ["a", "b", "d"]


@on_every_stack
async def test_an_item_whose_lock_expired_comes_back_after_the_delay(server: Server) -> None:
    queue = await partitioned(server, retry_delay_seconds=2.0)
    (await queue.push("a")).ok()
    lock = await queue.lock(ttl_seconds=1)
    await expired(lock)
    stats = await queue.stats()
    assert (stats["count"], stats["locked"], stats["counters"]["expired"]) == (1, 0, 1)
    assert stats["delayed"] == 1 or time.time() >= lock["lock_expires_at"] + 2.0
    [message] = (await queue.pop(wait_seconds=LONG)).ok()["messages"]
    assert time.time() >= lock["lock_expires_at"] + 2.0
    assert message["delivery_count"] == 2


@on_every_stack
async def test_a_delay_given_with_the_abandon_wins_also_none(server: Server) -> None:
    queue = server.queue()
    (await queue.configure(retry_delay_seconds=300, max_locks=5)).ok()
    await queue.push_many("own delay", "no delay", "no error", "not tried", "by an operator")
    own, none, without, untried, operator = [await queue.lock() for _ in range(5)]
    (await queue.abandon(own["lock_id"], error="x", delay_seconds=1)).ok()
    (await queue.abandon(none["lock_id"], error="x", delay_seconds=0)).ok()
    (await queue.abandon(without["lock_id"])).ok()
    (await queue.abandon(untried["lock_id"], error="x", uncounted=True)).ok()
    (await queue.requeue(operator["lock_id"][:6], error="x", delay_seconds=0)).ok()
    assert [item for item in await queue.drain() if item != "own delay"] == [
        "no delay",
        "no error",
        "not tried",
        "by an operator",
    ]


@on_every_stack
async def test_the_last_failure_makes_a_dead_letter_at_once(server: Server) -> None:
    queue = server.queue()
    (await queue.configure(retry_delay_seconds=300, max_deliveries=1)).ok()
    (await queue.push("a")).ok()
    await fail_next(queue, "a")
    [letter] = await queue.dead_letters()
    assert (letter["item"], letter["last_error"]) == ("a", "it broke")


@on_every_stack
async def test_items_that_are_kept_back_can_be_revoked_and_purged(server: Server) -> None:
    queue = server.queue()
    (await queue.configure(retry_delay_seconds=300)).ok()
    ids = (await queue.push_many("a", "b", "c")).ok()["ids"]
    await fail_next(queue, "a", "b", "c")
    assert await delayed(queue) == (3, 3)
    (await queue.revoke(ids[1])).ok()
    assert (await queue.purge()).ok()["purged"] == 2
    assert await delayed(queue) == (0, 0)
