"""The queue's actor: what happens by itself, what happens when a save fails, and what it tells others."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest

from holdfast.errors import InvalidRequest, SaveFailed, Unavailable
from holdfast.kinds import QUEUE_INDEX_TYPE, QUEUE_TYPE
from holdfast.pushpop.actor import PushPopActor
from holdfast.pushpop.core.pushes import MAX_PRIORITIES
from holdfast.pushpop.index import QueueIndexActor, shard_of
from holdfast.runtime.notifier import Notifier, NotifierActor, Subscription
from holdfast.runtime.serialization import load
from holdfast.runtime.simulated import Faults
from holdfast.runtime.unit_of_work import Turn
from tests.support.simulated import ActorStage, on_simulated_host

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable

    from dapr.actor import Actor

    from holdfast.runtime.contract import ActorAddress

QUEUE = "orders"


class Stage(ActorStage):
    """A host with a queue on it."""

    def actors(self) -> Iterable[type[Actor]]:
        return (PushPopActor, QueueIndexActor, NotifierActor)

    async def call(self, method: str, data: Any = None, queue: str = QUEUE) -> Any:
        return await self.invoke(QUEUE_TYPE, queue, method, data)

    def stored(self, key: str, queue: str = QUEUE) -> Any:
        """Returns a stored value without calling the actor, as a call would process due work."""
        row = self.host.storage.rows.get(f"holdfast||{QUEUE_TYPE}||{queue}||{key}")
        return None if row is None else load(row[0])

    def stored_keys(self) -> set[str]:
        prefix = f"holdfast||{QUEUE_TYPE}||{QUEUE}||"
        keys = {key.removeprefix(prefix) for key in self.host.storage.rows if key.startswith(prefix)}
        return keys | set(self.stored("metadata").get("_segments", ()))


on_stage = on_simulated_host(Stage)


@on_stage
async def test_a_lock_expires_though_nobody_asks(stage: Stage) -> None:
    await stage.call("Push", {"item": "x"})
    await stage.call("PopWithAck", {"ttl_seconds": 20})
    await asyncio.sleep(19)
    assert "_active_lock" in stage.stored("metadata")
    await asyncio.sleep(2)
    assert "_active_lock" not in stage.stored("metadata")
    assert stage.stored("metadata")["0"] == 1


@on_stage
async def test_a_lock_expires_though_the_process_died_meanwhile(stage: Stage) -> None:
    await stage.call("Push", {"item": "x"})
    await stage.call("PopWithAck", {"ttl_seconds": 20})
    stage.host.crash()
    await asyncio.sleep(60)
    await stage.restart()
    await asyncio.sleep(1)
    assert "_active_lock" not in stage.stored("metadata")


@on_stage
async def test_a_save_that_fails_does_not_put_a_deadline_off(stage: Stage) -> None:
    await stage.call("SetConfig", {"max_locks": 2})
    await stage.call("Push", {"items": [{"item": 1}, {"item": 2}]})
    soon = await stage.call("PopWithAck", {"ttl_seconds": 10})
    await stage.call("PopWithAck", {"ttl_seconds": 300})
    await asyncio.sleep(7)
    await stage.restart()
    stage.host.faults = Faults(save_fails=1.0)
    with pytest.raises(SaveFailed):
        await stage.call("Acknowledge", {"lock_id": soon["lock_id"]})
    stage.host.faults = Faults()
    await asyncio.sleep(6)
    assert stage.stored("metadata")["0"] == 1


@on_stage
async def test_a_failed_pop_loses_nothing(stage: Stage) -> None:
    await stage.call("Push", {"items": [{"item": 1}, {"item": 2}]})
    stage.host.faults = Faults(save_fails=1.0)
    for method in ("Pop", "PopWithAck"):
        with pytest.raises(SaveFailed):
            await stage.call(method)
    stage.host.faults = Faults()
    assert (await stage.call("Pop", {"count": 10}))["items"] == [1, 2]


@on_stage
async def test_an_answer_that_is_lost_is_an_error_and_the_work_is_done_once(stage: Stage) -> None:
    stage.host.faults = Faults(reply_lost=1.0)
    with pytest.raises(Unavailable):
        await stage.call("Push", {"item": "x"})
    stage.host.faults = Faults()
    assert (await stage.call("Pop", {"count": 10}))["items"] == ["x"]


@on_stage
async def test_dead_letters_travel_at_once_however_many(stage: Stage) -> None:
    await stage.call("SetConfig", {"max_locks": 20, "max_deliveries": 1})
    await stage.call("Push", {"items": [{"item": number} for number in range(20)]})
    for _ in range(20):
        await stage.call("PopWithAck", {"ttl_seconds": 10})
    await asyncio.sleep(12)
    assert stage.stored("metadata", "orders-deadletter")["0"] == 20
    assert not [key for key in stage.stored_keys() if key.startswith(("transfer-", "segment-"))]


@on_stage
async def test_dead_letters_wait_for_a_queue_that_cannot_take_them(stage: Stage) -> None:
    await stage.call("Push", {"item": "x"})
    await asyncio.sleep(10)  # until the queue is listed, and has nothing else to try again
    locked = await stage.call("PopWithAck", {"ttl_seconds": 300})
    stage.host.faults = Faults(load_fails=1.0)  # the queue itself is in memory
    await stage.call("DeadLetter", {"lock_id": locked["lock_id"]})
    await asyncio.sleep(30)
    assert stage.stored("metadata", "orders-deadletter") is None
    stage.host.faults = Faults()
    await asyncio.sleep(70)
    assert (await stage.call("Pop", queue="orders-deadletter"))["items"] == ["x"]


@on_stage
async def test_nothing_looks_for_parcels_again_and_again_while_one_is_being_sent(stage: Stage) -> None:
    call, gates, looked = stage.host.call, {"quick": asyncio.Event(), "slow": asyncio.Event()}, 0

    async def watched(address: ActorAddress, method: str, body: bytes) -> bytes:
        nonlocal looked
        looked += method == "Transferred"
        assert looked < 100
        if method == "Receive":
            await gates[address.id].wait()
        return await call(address, method, body)

    with patch.object(stage.host, "call", watched):
        for target in ("quick", "slow"):
            await stage.call("SetConfig", {"dead_letter_queue": target})
            await stage.call("Push", {"item": target})
            held = await stage.call("PopWithAck")
            await stage.call("DeadLetter", {"lock_id": held["lock_id"]})
            await asyncio.sleep(1)
        gates["quick"].set()
        await asyncio.sleep(1)
        assert looked < 10
        gates["slow"].set()
        await asyncio.sleep(1)
    assert [stage.stored("metadata", target)["0"] for target in ("quick", "slow")] == [1, 1]


@on_stage
async def test_dead_letters_are_taken_whatever_their_priority(stage: Stage) -> None:
    priorities = [{"item": number, "priority": number} for number in range(MAX_PRIORITIES)]
    await stage.call("Push", {"items": priorities}, "orders-deadletter")
    refused = await stage.call("Push", {"item": "x", "priority": MAX_PRIORITIES}, "orders-deadletter")
    assert refused["error_code"] == InvalidRequest.code
    await stage.call("Push", {"item": "x", "priority": MAX_PRIORITIES})
    await stage.call("DeadLetter", {"lock_id": (await stage.call("PopWithAck"))["lock_id"]})
    await asyncio.sleep(1)
    assert (await stage.call("Stats", queue="orders-deadletter"))["count"] == MAX_PRIORITIES + 1


@on_stage
async def test_a_purged_queue_is_swept_by_itself(stage: Stage) -> None:
    for _ in range(25):
        await stage.call("Push", {"items": [{"item": 1}] * 1000})
    await stage.call("Purge")
    await asyncio.sleep(10)
    assert stage.stored_keys() == {"metadata"}


@on_stage
async def test_a_queue_that_was_used_is_listed_though_the_index_was_away(stage: Stage) -> None:
    stage.host.faults = Faults(load_fails=1.0)
    with pytest.raises(Unavailable):
        await stage.call("Push", {"item": "x"})
    stage.host.faults = Faults()
    await stage.call("Push", {"item": "x"})
    stage.host.crash()
    await stage.restart()
    await asyncio.sleep(10)
    listed = load(await stage.host.client.invoke_method(QUEUE_INDEX_TYPE, shard_of(QUEUE), "List"))
    assert listed == [QUEUE]
    assert stage.stored("metadata")["_indexed"]


@on_stage
async def test_looking_at_a_queue_nobody_used_leaves_no_trace(stage: Stage) -> None:
    for method in ("Pop", "PopWithAck", "Peek", "Stats", "InFlight", "GetConfig", "Purge"):
        await stage.call(method)
    await asyncio.sleep(10)
    assert not stage.host.storage.rows
    assert not stage.host.storage.reminders


@on_stage
async def test_a_push_a_return_and_an_expiry_notify_a_waiting_poll(stage: Stage) -> None:
    notifier = await Notifier(stage.host.client).subscribe()

    async def rings(cause: Coroutine[Any, Any, Any]) -> None:
        with Subscription(QUEUE) as rung:
            assert (await stage.call("PopWithAck", {"notify": notifier, "ttl_seconds": 30}))["count"] == 0
            assert not rung.is_set()
            await cause
            async with asyncio.timeout(1):
                await rung.wait()

    await rings(stage.call("Push", {"item": "x"}))
    locked = await stage.call("PopWithAck", {"ttl_seconds": 30})
    await rings(stage.call("Abandon", {"lock_id": locked["lock_id"]}))
    await stage.call("PopWithAck", {"ttl_seconds": 30})
    await rings(asyncio.sleep(30))


@on_stage
async def test_a_waiting_poll_is_notified_though_the_actor_was_deactivated_meanwhile(stage: Stage) -> None:
    notifier = await Notifier(stage.host.client).subscribe()
    with Subscription(QUEUE) as rung:
        assert (await stage.call("PopWithAck", {"notify": notifier}))["count"] == 0
        while await stage.host.release_idle():
            pass
        assert (await stage.host.active_counts())[QUEUE_TYPE] == 0
        await stage.call("Push", {"item": "x"})
        async with asyncio.timeout(1):
            await rung.wait()


@on_stage
async def test_calls_in_a_batch_have_one_turn_and_answers_of_their_own(stage: Stage) -> None:
    batch = await stage.call(
        "Batch",
        {
            "calls": [
                {"method": "Stats"},
                {"method": "Push", "data": {"item": 1}},
                {"method": "Push", "data": {"item": 2, "priority": "high"}},
                {"method": "PopWithAck"},
                {"method": "Pop"},
                {"method": "Explode"},
                {"method": "Stats"},
            ]
        },
    )
    before, pushed, refused, locked, locked_out, unknown, after = batch["replies"]
    assert (before["count"], before["counters"]["pushed"]) == (0, 0)
    assert pushed["success"]
    assert refused["error_code"] == unknown["error_code"] == "INVALID_REQUEST"
    assert (locked["items"], locked_out["error_code"]) == ([1], "QUEUE_LOCKED")
    assert (after["count"], after["locked"], after["counters"]["pushed"]) == (0, 1, 1)


@on_stage
async def test_a_batch_whose_save_fails_fails_as_a_whole(stage: Stage) -> None:
    stage.host.faults = Faults(save_fails=1.0)
    with pytest.raises(SaveFailed):
        await stage.call("Batch", {"calls": [{"method": "Push", "data": {"item": 1}}, {"method": "Stats"}]})
    stage.host.faults = Faults()
    assert (await stage.call("Stats"))["count"] == 0


@on_stage
async def test_a_partition_out_of_reach_is_told_later_though_nobody_asks(stage: Stage) -> None:
    reach = stage.host.call

    async def out_of_reach(address: ActorAddress, method: str, body: bytes) -> bytes:
        if address.id == "orders@1":
            raise Unavailable
        return await reach(address, method, body)

    with patch.object(stage.host, "call", out_of_reach):
        await stage.call("SetConfig", {"partitions": 3, "max_locks": 7})
        await asyncio.sleep(60)
        assert stage.stored("metadata")["_pending_partitions"] == [1]
        assert stage.stored("config", "orders@2")["max_locks"] == 7
    await asyncio.sleep(20)
    assert "_pending_partitions" not in stage.stored("metadata")
    assert stage.stored("config", "orders@1")["max_locks"] == 7


@on_stage
async def test_what_is_held_is_in_memory_once_and_not_gone_through_by_every_turn(stage: Stage) -> None:
    await stage.call("SetConfig", {"max_locks": 200, "max_deliveries": 1})
    await stage.call("Push", {"items": [{"item": number} for number in range(300)]})
    locks = [(await stage.call("PopWithAck", {"ttl_seconds": 300}))["lock_id"] for _ in range(150)]
    for lock_id in locks[:50]:
        await stage.call("DeadLetter", {"lock_id": lock_id})
    await stage.call("SetConfig", {"max_deliveries": 10})
    for lock_id in locks[50:100]:
        await stage.call("Abandon", {"lock_id": lock_id, "delay_seconds": 1000})
    await stage.restart()
    await stage.call("Stats")  # reads all of it
    walked: list[int] = []
    known = Turn.known

    def seen(turn: Turn) -> list[str]:
        keys = known(turn)
        walked.append(len(keys))
        return keys

    with patch.object(Turn, "known", seen):
        await stage.call("Push", {"item": "another"})
        await stage.call("PopWithAck")
    assert 0 < max(walked) < 10
