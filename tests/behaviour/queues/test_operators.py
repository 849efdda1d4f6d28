"""Operators' calls: revoke an item, and end or extend the locks of consumers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.behaviour.queues.test_complete import UNKNOWN
from tests.behaviour.queues.test_long_polls import answered, waiting
from tests.behaviour.queues.test_partitions import PARTITIONS, one_in_each, partitioned
from tests.behaviour.stacks import ALL, KILLED, on_every_stack, on_stacks

if TYPE_CHECKING:
    from tests.support.rest import Queue, Server


async def prefixes(queue: Queue) -> dict[str, str]:
    """Returns the shown prefix of each lock's id, by the first item of the lock."""
    return {str(lock["items"][0]): lock["lock_id_prefix"] for lock in await queue.in_flight()}


# Revoking


@on_every_stack
async def test_items_that_wait_can_be_revoked(server: Server) -> None:
    queue = await partitioned(server)
    ids = await one_in_each(queue, 5)
    for own in ids.values():
        for item_id in (own[1], own[4]):
            assert (await queue.revoke(item_id)).ok() == {"success": True, "purged": 1}
            (await queue.revoke(item_id)).refused(404, "NOT_FOUND")
    assert (await queue.complete(ids[2][1])).ok()["ignored"] == 1
    stats = await queue.stats()
    assert (stats["count"], stats["counters"]["revoked"]) == (3 * PARTITIONS, 2 * PARTITIONS)
    assert sorted(item[1] for item in await queue.drain()) == sorted([0, 2, 3] * PARTITIONS)


@on_every_stack
async def test_items_that_are_delayed_or_came_back_can_be_revoked(server: Server) -> None:
    queue = server.queue()
    (await queue.configure(max_locks=2)).ok()
    [delayed] = (await queue.push("delayed", delay_seconds=60)).ok()["ids"]
    back, postponed, kept = (await queue.push_many("back", "postponed", "kept")).ok()["ids"]
    first, second = await queue.lock(), await queue.lock()
    (await queue.abandon(first["lock_id"])).ok()
    (await queue.abandon(second["lock_id"], delay_seconds=60)).ok()
    for item_id in (delayed, back, postponed):
        (await queue.revoke(item_id)).ok()
        (await queue.revoke(item_id)).refused(404, "NOT_FOUND")
    stats = await queue.stats()
    assert (stats["count"], stats["delayed"]) == (1, 0)
    (await queue.revoke(kept)).ok()
    assert await queue.drain() == []


@on_every_stack
async def test_what_is_locked_cannot_be_revoked(server: Server) -> None:
    queue = server.queue()
    [item_id] = (await queue.push("held")).ok()["ids"]
    taken = await queue.lock()
    (await queue.revoke(item_id)).refused(409, "CONFLICT")
    (await queue.abandon(taken["lock_id"])).ok()
    (await queue.revoke(item_id)).ok()


@on_every_stack
async def test_what_is_not_there_cannot_be_revoked(server: Server) -> None:
    queue = await partitioned(server)
    ids = await one_in_each(queue)
    for item_id in UNKNOWN:
        if len(item_id) < 1000:
            (await queue.revoke(item_id)).refused(404, "NOT_FOUND")
    assert (await queue.stats())["count"] == PARTITIONS
    assert (await server.queue("other").revoke(ids[1][0])).refused(404, "NOT_FOUND")
    popped = (await queue.pop()).ok()["messages"][0]["id"]
    (await queue.revoke(popped)).refused(404, "NOT_FOUND")


@on_every_stack
async def test_dead_letters_can_be_revoked_from_their_queue(server: Server) -> None:
    queue = server.queue()
    await queue.push_many("a", "b")
    (await queue.dead_letter((await queue.lock(count=2))["lock_id"])).ok()
    dead = type(queue)(server, f"{queue.name}-deadletter")
    first, second = [letter["id"] for letter in await queue.dead_letters()]
    (await dead.revoke(first)).ok()
    assert [letter["id"] for letter in await queue.dead_letters()] == [second]
    assert (await queue.redrive(ids=[first])).ok()["redriven"] == 0


# Locks of others


@on_every_stack
async def test_an_operator_gives_back_what_somebody_holds(server: Server) -> None:
    queue = await partitioned(server, max_locks=2)
    await one_in_each(queue, 4)
    locks = {str(lock["items"][0]): lock for lock in [await queue.lock(count=2) for _ in range(2 * PARTITIONS)]}
    shown = await prefixes(queue)
    assert shown.keys() == locks.keys()
    for first, prefix in shown.items():
        answer = (await queue.requeue(prefix, error="its consumer is gone")).ok()
        assert (answer["success"], answer["items_acknowledged"]) == (True, 2)
        refusal = await queue.acknowledge(locks[first]["lock_id"])
        assert refusal.status in (400, 404), refusal.text
        (await queue.requeue(prefix)).refused(404, "LOCK_NOT_FOUND")
    assert await queue.in_flight() == []
    left = await queue.drain_messages()
    assert len(left) == 4 * PARTITIONS
    assert {(message["delivery_count"], message["last_error"]) for _, message in left} == {(2, "its consumer is gone")}


@on_every_stack
async def test_an_operator_gives_back_for_later(server: Server) -> None:
    queue = server.queue()
    (await queue.configure(max_deliveries=2)).ok()
    await queue.push("a")
    await queue.lock()
    [prefix] = (await prefixes(queue)).values()
    (await queue.requeue(prefix, delay_seconds=60)).ok()
    stats = await queue.stats()
    assert (stats["count"], stats["delayed"], stats["locked"]) == (1, 1, 0)
    assert (await queue.pop()).ok()["items"] == []


@on_every_stack
async def test_an_operator_makes_a_lock_last_longer(server: Server) -> None:
    queue = await partitioned(server)
    await one_in_each(queue)
    locks = {str(lock["items"][0]): lock for lock in [await queue.lock(ttl_seconds=50) for _ in range(PARTITIONS)]}
    for first, prefix in (await prefixes(queue)).items():
        extended = (await queue.extend_for(prefix, additional_ttl_seconds=20)).ok()
        assert abs(extended["lock_expires_at"] - locks[first]["lock_expires_at"] - 20) < 0.001
        extended = (await queue.extend_for(prefix)).ok()
        assert abs(extended["lock_expires_at"] - locks[first]["lock_expires_at"] - 50) < 0.001
        assert (await queue.acknowledge(locks[first]["lock_id"])).ok()["items_acknowledged"] == 1
        (await queue.extend_for(prefix)).refused(404, "LOCK_NOT_FOUND")


@on_every_stack
async def test_a_body_is_not_needed(server: Server) -> None:
    queue = server.queue()
    await queue.push("a")
    await queue.lock()
    [prefix] = (await prefixes(queue)).values()
    for call in ("extend", "requeue"):
        (await server.request("POST", f"/queue/{queue.name}/in-flight/{prefix}/{call}")).ok()


@on_every_stack
async def test_a_beginning_that_several_locks_share_is_not_enough(server: Server) -> None:
    queue = await partitioned(server, max_locks=2)
    await one_in_each(queue, 2)
    locks: list[Any] = [await queue.lock() for _ in range(2 * PARTITIONS)]
    # Locks of a partition but the first all begin with its number.
    for call in (queue.requeue, queue.extend_for):
        (await call("2.")).refused(409, "CONFLICT")
        for unknown in ("2.!!", "nothing", "9.", "%00", "%20", "%F0%9F%98%80"):
            (await call(unknown)).refused(404, "LOCK_NOT_FOUND")
    own = next(lock for lock in locks if lock["lock_id"].startswith("2."))
    assert (await queue.extend_for(own["lock_id"])).ok()["success"] is True
    (await queue.acknowledge(own["lock_id"])).ok()
    (await queue.requeue("2.")).ok()
    assert (await queue.stats())["locked"] == 2 * PARTITIONS - 2


@on_stacks(*ALL, part=KILLED)
async def test_what_an_operator_gives_back_wakes_a_poll(server: Server) -> None:
    queue = server.queue()
    await queue.push("a")
    await queue.lock(ttl_seconds=300)
    polls = await waiting(queue)
    [prefix] = (await prefixes(queue)).values()
    (await queue.requeue(prefix)).ok()
    [answer] = await answered(polls, 1)
    assert answer["items"] == ["a"]
