"""A queue that is deleted is gone: items, locks, configuration, partitions, and its line in the list."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from tests.behaviour import crash_points
from tests.behaviour.queues.test_actor_proxy import proxied
from tests.behaviour.queues.test_config import DEFAULTS
from tests.behaviour.queues.test_partitions import PARTITIONS, one_in_each, partitioned
from tests.behaviour.stacks import ALL, KILLED, on_every_stack, on_stacks
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.rest import Answer, Queue, Server


async def delete(queue: Queue, **query: Any) -> Answer:
    return await queue.server.request("DELETE", f"/queue/{queue.name}", query=query)


async def listed(server: Server) -> set[str]:
    names: set[str] = set()
    query: dict[str, Any] = {"limit": 100}
    while True:
        page = (await server.request("GET", "/queues", query=query)).ok()
        names |= {queue["queue"] for queue in page["queues"]}
        if "next_cursor" not in page:
            return names
        query["cursor"] = page["next_cursor"]


async def is_as_new(queue: Queue) -> None:
    stats = await queue.stats()
    assert (stats["count"], stats["locked"], stats["delayed"], stats["locks"]) == (0, 0, 0, [])
    assert set(stats["counters"].values()) == {0}
    assert stats["config"] == await queue.config() == DEFAULTS
    assert (await queue.pop()).ok()["items"] == []
    assert queue.name not in await listed(queue.server)


@on_every_stack
async def test_an_empty_queue_is_deleted_with_all_that_was_known_of_it(server: Server) -> None:
    queue = server.queue()
    (await queue.configure(max_locks=5, capacity=10)).ok()
    [first] = (await queue.push("a", dedup_id="one")).ok()["ids"]
    assert await queue.drain() == ["a"]
    await eventually(lambda: is_listed(queue))
    assert (await delete(queue)).ok() == {"success": True, "purged": 0}
    await is_as_new(queue)
    # Its dedup ids are forgotten, and no id is given twice.
    [second] = (await queue.push("b", dedup_id="one")).ok()["ids"]
    assert second != first
    assert (await queue.peek())["items"] == ["b"]
    await eventually(lambda: is_listed(queue))


async def is_listed(queue: Queue) -> bool:
    return queue.name in await listed(queue.server)


@on_every_stack
async def test_a_queue_that_holds_something_is_deleted_by_force_only(server: Server) -> None:
    waiting, delayed, locked = server.queue("waiting"), server.queue("delayed"), server.queue("locked")
    (await waiting.push(1)).ok()
    (await delayed.push(1, delay_seconds=600)).ok()
    (await locked.push(1)).ok()
    lock = await locked.lock()
    for queue in (waiting, delayed, locked):
        assert "1 item" in (await delete(queue)).refused(409, "CONFLICT")["message"]
        stats = await queue.stats()
        assert stats["count"] + stats["locked"] == 1
        assert (await delete(queue, force=True)).ok()["purged"] == 1
        await is_as_new(queue)
    (await locked.acknowledge(lock["lock_id"])).refused(404, "LOCK_NOT_FOUND")
    (await locked.extend(lock["lock_id"])).refused(404, "LOCK_NOT_FOUND")
    assert (await locked.complete(lock["messages"][0]["id"])).ok()["ignored"] == 1


@on_every_stack
async def test_a_queue_nobody_used_is_deleted_too_and_leaves_nothing(server: Server) -> None:
    queue = server.queue()
    for _ in range(2):
        assert (await delete(queue)).ok() == {"success": True, "purged": 0}
    assert await queue.stored() == {}
    (await delete(queue, force="maybe")).refused(400, "INVALID_REQUEST")
    (await delete(queue, other=1)).refused(400, "INVALID_REQUEST")


@on_every_stack
async def test_all_partitions_go_and_the_queue_begins_with_one_again(server: Server) -> None:
    queue = await partitioned(server, max_locks=3)
    ids = await one_in_each(queue, 2)
    locks = [await queue.lock() for _ in range(PARTITIONS)]
    (await delete(queue)).refused(409, "CONFLICT")
    assert (await queue.config())["partitions"] == PARTITIONS
    assert (await delete(queue, force=True)).ok()["purged"] == 2 * PARTITIONS
    await is_as_new(queue)
    for lock in locks:
        (await queue.acknowledge(lock["lock_id"])).refused(404, "LOCK_NOT_FOUND")
    assert (await queue.complete(*(item for some in ids.values() for item in some))).ok()["completed"] == 0
    # Who knew of its partitions learns that there is one, whatever it pushes.
    for number in range(2 * PARTITIONS):
        (await queue.push(number, dedup_id=f"new {number}")).ok()
    (await queue.push_many("x", "y")).ok()
    assert await queue.drain() == [*range(2 * PARTITIONS), "x", "y"]
    assert (await queue.stats())["config"]["partitions"] == 1
    (await queue.configure(partitions=PARTITIONS)).ok()
    await one_in_each(queue)
    assert (await queue.stats())["count"] == PARTITIONS


@on_every_stack
async def test_settings_of_a_queue_that_was_deleted_once_change_without_a_loss(server: Server) -> None:
    """Its partitions hear of them from the server that was called, or from the first partition."""
    queue = await partitioned(server)
    (await delete(queue, force=True)).ok()
    (await queue.configure(partitions=PARTITIONS)).ok()
    await one_in_each(queue)

    async def all_have_heard() -> bool:
        return "_pending_partitions" not in (await queue.stored())["metadata"]

    async with proxied(server) as call:
        for number in range(2, 5):
            assert (await call("SetConfig", {"max_locks": number}))["max_locks"] == number
            await eventually(all_have_heard)
            assert (await queue.stats())["count"] == PARTITIONS
            (await queue.configure(max_locks=10 * number)).ok()
    assert len(await queue.drain()) == PARTITIONS


@on_every_stack
async def test_an_empty_queue_of_several_partitions_is_deleted_without_force(server: Server) -> None:
    queue = await partitioned(server)
    await one_in_each(queue)
    assert len(await queue.drain()) == PARTITIONS
    assert (await delete(queue)).ok()["purged"] == 0
    await is_as_new(queue)


@on_every_stack
async def test_a_deletion_that_is_refused_changes_nothing(server: Server) -> None:
    queue = await partitioned(server)
    ids = await one_in_each(queue)
    # Something is left in the last partition only: the others were found empty before.
    for number in range(PARTITIONS - 1):
        (await queue.revoke(ids[number][0])).ok()
    (await delete(queue)).refused(409, "CONFLICT")
    for number in range(3 * PARTITIONS):
        (await queue.push(number)).ok()
    assert (await queue.stats())["count"] == 3 * PARTITIONS + 1
    assert len(await queue.drain()) == 3 * PARTITIONS + 1


@on_every_stack
async def test_dead_letters_stay_and_come_back_to_the_queue_that_has_their_name(server: Server) -> None:
    queue = await partitioned(server, max_deliveries=1)
    await one_in_each(queue)
    for _ in range(PARTITIONS):
        (await queue.abandon((await queue.lock())["lock_id"], error="x")).ok()

    async def all_there() -> bool:
        return len(await queue.dead_letters()) == PARTITIONS

    await eventually(all_there)
    (await delete(queue)).ok()
    assert len(await queue.dead_letters()) == PARTITIONS
    assert (await queue.redrive()).ok()["redriven"] == PARTITIONS

    async def returned() -> bool:
        return int((await queue.stats())["count"]) == PARTITIONS

    await eventually(returned)
    assert len(await queue.drain()) == PARTITIONS


@on_every_stack
async def test_pushes_that_are_answered_are_kept_while_a_queue_is_deleted(server: Server) -> None:
    """Without force nothing is lost, however a deletion and pushes come together."""
    queue = await partitioned(server)
    kept: list[int] = []

    async def push(first: int) -> None:
        for number in range(first, first + 25):
            answer = await queue.push(number)
            if answer.status == 503:
                continue
            answer.ok()
            kept.append(number)

    async def deletions() -> None:
        for _ in range(6):
            assert (await delete(queue)).status in (200, 409)

    await asyncio.gather(*(push(100 * caller) for caller in range(4)), deletions())

    async def all_found() -> bool:
        return int((await queue.stats())["count"]) == len(kept)

    await eventually(all_found)
    assert sorted(await queue.drain()) == sorted(kept)


#: Where a deletion is broken off: an actor, and what its save has in it.
BROKEN_OFF = {
    "begun": ("PushPopActor", "", '"_deletion"'),
    "closed": ("PushPopActor", "@2", '"_closed"'),
    "deleted": ("PushPopActor", "", '"_deleted"'),
    "erased": ("PushPopActor", "@2", '"_deleted"'),
}


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("point", BROKEN_OFF)
@on_stacks(*ALL, part=KILLED)
async def test_a_deletion_that_was_broken_off_is_finished_or_given_up(server: Server, point: str, when: str) -> None:
    queue = await partitioned(server)
    await one_in_each(queue)
    assert len(await queue.drain()) == PARTITIONS
    (await queue.configure(max_deliveries=7)).ok()
    actor_type, partition, saved = BROKEN_OFF[point]
    crash_points.arm(server.stack.folder, actor_type, queue.name + partition, when, holding=saved)
    deleting = server.begin(delete(queue))
    await server.stack.app_died()
    await asyncio.gather(deleting, return_exceptions=True)
    await server.stack.start_app()
    # Either all of it is there, or nothing.
    partitions = (await queue.config())["partitions"]
    committed = point == "erased" or (point, when) == ("deleted", "after")
    assert partitions == (1 if committed else PARTITIONS)

    async def in_one_piece() -> bool:
        """Each partition takes pushes, or is none any more: nothing is half deleted for long."""
        stored = [await server.stack.stored("PushPopActor", f"{queue.name}@{number}") for number in range(1, 4)]
        if partitions == 1:
            return all(values["metadata"].get("_deleted") and "config" not in values for values in stored)
        return not any(values["metadata"].get("_closed") for values in stored)

    if partitions == 1:
        await eventually(in_one_piece, within=30)
        assert queue.name not in await listed(server)
    (await delete(queue)).ok()
    await is_as_new(queue)
