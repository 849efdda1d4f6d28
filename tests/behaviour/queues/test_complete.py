"""Completing items by their ids: all or an error, without taking anything back, and safe to repeat."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from tests.behaviour.clock import expired
from tests.behaviour.queues.test_long_polls import answered, waiting
from tests.behaviour.queues.test_partitions import PARTITIONS, one_in_each, partitioned
from tests.behaviour.stacks import ALL, KILLED, OnPostgresql, on_every_stack, on_stacks

if TYPE_CHECKING:
    from tests.support.rest import Server

#: Ids that no item of a test has, but that a client may send.
UNKNOWN = [
    *("nonsense", "", " ", "0", "0-0-0", "0-0-0-0-0", "0-0-999-999", "0-0-d0-0", "3-0-0-77", "77-0-0-0"),
    *(
        "-1-0-0-0",
        "00-0-0-0",
        "0-0-0-00",
        "0-0-0-1.0",
        "\uff10-0-0-0",
        "0-0-0-" + "9" * 15,
        "x" * 10_000,
        "\u0000",
        "😀",
    ),
    *("../config", "0-0-0-0\n", "1e1-0-0-0", "0@1-0-0-0", "kX3vQ1b2c4E"),
]


def ids_of(*taken: Any) -> list[str]:
    return [message["id"] for answer in taken for message in answer["messages"]]


@on_every_stack
async def test_items_of_several_partitions_are_completed_by_one_call(server: Server) -> None:
    queue = await partitioned(server, max_locks=2)
    await one_in_each(queue, 4)
    locks = [await queue.lock(count=2) for _ in range(2 * PARTITIONS)]
    ids = ids_of(*locks)
    assert (await queue.complete(*ids)).ok() == {"success": True, "completed": 4 * PARTITIONS, "ignored": 0}
    stats = await queue.stats()
    assert (stats["count"], stats["locked"], stats["locks"]) == (0, 0, [])
    assert stats["counters"]["acknowledged"] == 4 * PARTITIONS
    for lock in locks:
        (await queue.acknowledge(lock["lock_id"])).refused(404, "LOCK_NOT_FOUND")
    # A caller that did not get the answer sends it all again.
    assert (await queue.complete(*ids)).ok() == {"success": True, "completed": 0, "ignored": 4 * PARTITIONS}


@on_every_stack
async def test_a_part_of_a_lock_can_be_completed(server: Server) -> None:
    queue = server.queue()
    (await queue.configure(max_locks=3)).ok()
    await queue.push_many(*range(12))
    kept, late, given = await queue.lock(count=4), await queue.lock(count=4, ttl_seconds=1), await queue.lock(count=4)
    ids = [ids_of(lock) for lock in (kept, late, given)]
    some = [ids[0][1], ids[0][3], ids[1][0], ids[2][2]]
    assert (await queue.complete(*some)).ok()["completed"] == 4
    assert sorted(lock["count"] for lock in await queue.in_flight()) == [2, 3, 3]
    assert (await queue.acknowledge(kept["lock_id"])).ok()["items_acknowledged"] == 2
    assert (await queue.abandon(given["lock_id"])).ok()["items_acknowledged"] == 3
    await expired(late)
    assert await queue.drain() == [5, 6, 7, 8, 9, 11]


@on_every_stack
async def test_completing_all_of_a_lock_ends_it(server: Server) -> None:
    queue = server.queue()
    await queue.push_many(*range(5))
    taken = await queue.lock(count=4)
    (first, *others) = ids_of(taken)
    (await queue.complete(first)).ok()
    (await queue.pop()).refused(423, "QUEUE_LOCKED")
    assert (await queue.complete(*others)).ok()["completed"] == 3
    assert await queue.in_flight() == []
    (await queue.acknowledge(taken["lock_id"])).refused(404, "LOCK_NOT_FOUND")
    assert (await queue.pop()).ok()["items"] == [4]


@on_stacks(*ALL, part=KILLED)
async def test_a_lock_that_is_completed_wakes_a_poll(server: Server) -> None:
    queue = server.queue()
    await queue.push_many("a", "b")
    taken = await queue.lock(ttl_seconds=300)
    polls = await waiting(queue, require_ack=True)
    (await queue.complete(*ids_of(taken))).ok()
    [answer] = await answered(polls, 1)
    assert answer["items"] == ["b"]


@on_every_stack
async def test_what_is_not_there_is_ignored(server: Server) -> None:
    queue, unused = await partitioned(server), server.queue("unused")
    assert (await unused.complete(*UNKNOWN)).ok() == {"success": True, "completed": 0, "ignored": len(UNKNOWN)}
    assert await unused.stored() == {}
    (await queue.push_many("popped", "acknowledged", "dead", "revoked", "leased", "leased")).ok()
    popped = (await queue.pop()).ok()
    acknowledged = await queue.lock()
    (await queue.acknowledge(acknowledged["lock_id"])).ok()
    dead = await queue.lock()
    (await queue.dead_letter(dead["lock_id"])).ok()
    waiting_ids = [message["id"] for message in (await queue.peek(count=9))["messages"]]
    (await queue.revoke(waiting_ids[0])).ok()
    leased = await queue.lock(count=3)
    assert leased["items"] == ["leased", "leased"]
    gone = [*ids_of(popped, acknowledged, dead), waiting_ids[0]]
    answer = (await queue.complete(*UNKNOWN, *gone, *ids_of(leased))).ok()
    assert answer == {"success": True, "completed": leased["count"], "ignored": len(UNKNOWN) + len(gone)}


@on_every_stack
async def test_an_id_that_is_named_twice_is_completed_once(server: Server) -> None:
    queue = server.queue()
    await queue.push_many(1, 2)
    (one, two) = ids_of(await queue.lock(count=2))
    assert (await queue.complete(one, two, one, one)).ok() == {"success": True, "completed": 2, "ignored": 2}
    assert (await queue.stats())["counters"]["acknowledged"] == 2


@on_every_stack
async def test_what_is_not_leased_is_an_error_and_the_others_are_completed(server: Server) -> None:
    queue = await partitioned(server)
    await one_in_each(queue, 3)
    locks = [await queue.lock(count=2) for _ in range(PARTITIONS)]
    [delayed] = (await queue.push("later", delay_seconds=100)).ok()["ids"]
    not_leased = [delayed, *(message["id"] for message in (await queue.peek(count=100))["messages"])]
    assert len(not_leased) == 1 + PARTITIONS
    ids = [not_leased[0], *ids_of(*locks), *not_leased[1:], "unknown"]
    body = (await queue.complete(*ids)).refused(400, "NOT_LEASED")
    assert (body["completed"], body["ignored"]) == (2 * PARTITIONS, 1)
    assert sorted(body["not_leased"]) == sorted(not_leased)
    stats = await queue.stats()
    assert (stats["locked"], stats["count"], stats["delayed"]) == (0, 1 + PARTITIONS, 1)
    # Once they are leased, the same call goes through.
    for _ in range(PARTITIONS):
        await queue.lock()
    (await queue.revoke(delayed)).ok()
    answer = (await queue.complete(*ids)).ok()
    assert answer == {"success": True, "completed": PARTITIONS, "ignored": len(ids) - PARTITIONS}


@on_every_stack
async def test_what_was_given_back_is_not_leased_until_it_is_taken_again(server: Server) -> None:
    queue = server.queue()
    (await queue.configure(max_locks=3)).ok()
    await queue.push_many("abandoned", "postponed", "expired")
    abandoned, postponed, late = await queue.lock(), await queue.lock(), await queue.lock(ttl_seconds=1)
    (await queue.abandon(abandoned["lock_id"])).ok()
    (await queue.abandon(postponed["lock_id"], delay_seconds=60)).ok()
    await expired(late)
    for taken in (abandoned, postponed, late):
        body = (await queue.complete(*ids_of(taken))).refused(400, "NOT_LEASED")
        assert body["not_leased"] == ids_of(taken)
    again = await queue.lock(count=5)
    assert again["items"] == ["abandoned", "expired"]
    # The previous holder may complete an item too: complete goes by item, not by lock.
    assert (await queue.complete(*ids_of(abandoned, late))).ok()["completed"] == 2


@on_every_stack
async def test_up_to_1000_ids_at_once(server: Server) -> None:
    queue = await partitioned(server, max_locks=100)
    for _ in range(PARTITIONS):
        await queue.push_many(*range(250))
    taken = await asyncio.gather(*(queue.lock(count=100) for _ in range(3 * PARTITIONS)))
    ids = ids_of(*taken)
    assert len(set(ids)) == 250 * PARTITIONS == 1000
    for wrong in ([], [*ids, "one more"]):
        (await queue.complete(*wrong)).refused(400, "INVALID_REQUEST")
    assert (await queue.stats())["locked"] == 1000
    assert (await queue.complete(*ids)).ok() == {"success": True, "completed": 1000, "ignored": 0}
    assert (await queue.stats())["locked"] == 0


@on_every_stack
async def test_completions_at_the_same_time_count_each_item_once(server: Server) -> None:
    queue = await partitioned(server)
    await one_in_each(queue, 5)
    ids = ids_of(*[await queue.lock(count=5) for _ in range(PARTITIONS)])
    answers = await asyncio.gather(*(queue.complete(*ids[number:], *ids[:number]) for number in range(10)))
    assert sum(answer.ok()["completed"] for answer in answers) == len(ids)
    assert {answer.body["completed"] + answer.body["ignored"] for answer in answers} == {len(ids)}


@on_stacks(OnPostgresql.name)
async def test_a_partition_whose_storage_does_not_answer_is_503_while_the_others_are_completed(server: Server) -> None:
    queue = await partitioned(server)
    await one_in_each(queue, 2)
    locks = {}
    for _ in range(PARTITIONS):
        taken = await queue.lock(count=2, ttl_seconds=300)
        locks[taken["messages"][0]["partition"]] = taken
    ids = ids_of(*locks.values())
    async with server.stack.row_held("PushPopActor", f"{queue.name}@2", "metadata"):
        whole, *parts = await asyncio.gather(
            queue.complete(*ids), *(queue.complete(*ids_of(locks[other])) for other in (0, 1, 3))
        )
        whole.refused_for_now(503, "PARTITION_UNAVAILABLE")
        # By the whole call or by its own, each once; a partition that works is not held up.
        assert all(part.ok()["completed"] + part.body["ignored"] == 2 for part in parts)
        for other in (0, 1, 3):
            assert (await queue.complete(*ids_of(locks[other]))).ok()["ignored"] == 2
    answer = (await queue.complete(*ids)).ok()
    assert answer["completed"] + answer["ignored"] == 2 * PARTITIONS
    assert (await queue.stats())["locked"] == 0
    assert (await queue.stats())["counters"]["acknowledged"] == 2 * PARTITIONS
