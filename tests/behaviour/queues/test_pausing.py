"""A paused queue gives nothing, and does everything else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.behaviour.clock import expired
from tests.behaviour.queues.test_long_polls import answered, waiting
from tests.behaviour.queues.test_partitions import partitioned
from tests.behaviour.stacks import ALL, KILLED, on_every_stack, on_stacks

if TYPE_CHECKING:
    from tests.support.rest import Server

NOTHING = {"items": [], "count": 0, "messages": [], "paused": True}


@on_every_stack
async def test_a_paused_queue_gives_nothing_whatever_its_locks_are(server: Server) -> None:
    queue = server.queue()
    await queue.push_many("a", "b")
    held = await queue.lock()
    assert (await queue.configure(paused=True)).ok()["paused"] is True
    # Neither the item that waits, nor the refusal of a queue that has all its locks out.
    assert (await queue.pop()).ok() == NOTHING
    assert (await queue.pop(require_ack=True, count=9)).ok() == NOTHING
    (await queue.acknowledge(held["lock_id"])).ok()
    assert (await queue.pop()).ok() == NOTHING
    assert (await queue.peek(count=9))["items"] == ["b"]
    (await queue.configure(paused=False)).ok()
    assert await queue.drain() == ["b"]


@on_every_stack
async def test_a_paused_queue_takes_pushes_and_answers_for_its_locks(server: Server) -> None:
    queue = server.queue()
    (await queue.configure(max_locks=4)).ok()
    await queue.push_many("done", "back", "rejected", "late")
    done, back, rejected, late = [await queue.lock(ttl_seconds=1 + (number < 3)) for number in range(4)]
    (await queue.configure(paused=True)).ok()
    for lock in (done, back, rejected):
        (await queue.extend(lock["lock_id"], additional_ttl_seconds=60)).ok()
    (await queue.push("pushed")).ok()
    (await queue.acknowledge(done["lock_id"])).ok()
    (await queue.abandon(back["lock_id"])).ok()
    (await queue.dead_letter(rejected["lock_id"])).ok()
    await expired(late)
    (await queue.acknowledge(late["lock_id"])).refused(410, "LOCK_EXPIRED")
    stats = await queue.stats()
    assert (stats["count"], stats["locked"], stats["config"]["paused"]) == (3, 0, True)
    (await queue.configure(paused=False)).ok()
    assert await queue.drain() == ["back", "late", "pushed"]


@on_stacks(*ALL, part=KILLED)
async def test_a_poll_waits_while_the_queue_is_paused_and_wakes_when_it_is_resumed(server: Server) -> None:
    queue = await partitioned(server, paused=True)
    (await queue.push_many("a", "b")).ok()
    assert (await queue.pop(wait_seconds=0.3)).ok() == NOTHING
    [poll] = await waiting(queue, count=9)
    (await queue.push("c")).ok()
    assert not poll.done()
    (await queue.configure(paused=False)).ok()
    [answer] = await answered([poll], 1)
    assert answer["items"] in (["a", "b"], ["c"])


@on_every_stack
async def test_every_partition_of_a_queue_is_paused_and_one_that_is_added(server: Server) -> None:
    queue = await partitioned(server)
    for number in range(12):
        (await queue.push(number)).ok()
    (await queue.configure(paused=True)).ok()
    (await queue.configure(partitions=(await queue.config())["partitions"] + 1)).ok()
    for number in range(12, 16):
        (await queue.push(number)).ok()
    assert (await queue.pop(count=100)).ok() == NOTHING
    (await queue.configure(paused=False)).ok()
    assert sorted(await queue.drain()) == list(range(16))
