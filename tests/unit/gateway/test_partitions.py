"""A queue over its partitions, as one process and as several: pops, completions, what is shown."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import errors
from holdfast.gateway.queues.partitions import COMPLETE_SECONDS
from holdfast.names import partition_id
from holdfast.pushpop.api.requests import SelectDeadLetters
from holdfast.runtime.serialization import dump
from holdfast.wire.errors import raise_for_refusal
from tests.unit.gateway.stage import QUEUE, Stage, by_partition, on_stage


@on_stage
async def test_a_queue_of_one_partition_costs_one_call_for_each_thing(stage: Stage) -> None:
    gateway = stage.gateway()
    [item] = (await gateway.push("a"))["ids"]
    locked = await gateway.lock()
    await gateway.partitions.call_holder(QUEUE, locked["lock_id"], "ExtendLock", dump({"lock_id": locked["lock_id"]}))
    await gateway.partitions.complete(QUEUE, [item])
    await gateway.pop()
    asked = [(QUEUE, (method,)) for method in ("Push", "PopWithAck", "ExtendLock", "Complete", "Pop")]
    assert gateway.client.calls == asked


@on_stage
async def test_pops_take_from_every_partition_in_turn(stage: Stage) -> None:
    gateway = stage.gateway()
    await gateway.configure(partitions=4)
    for _ in range(12):
        await gateway.push("x")
    taken = [(await gateway.pop())["messages"][0]["partition"] for _ in range(12)]
    for first in range(0, 12, 4):
        assert sorted(taken[first : first + 4]) == [0, 1, 2, 3]


@on_stage
async def test_a_pop_that_finds_something_asks_one_partition_only(stage: Stage) -> None:
    gateway = stage.gateway()
    await gateway.configure(partitions=4)
    [only] = (await gateway.push("x"))["ids"]
    gateway.client.calls.clear()
    assert [message["id"] for message in (await gateway.pop())["messages"]] == [only]
    assert len(gateway.client.calls) == 1


@on_stage
async def test_a_damaged_partition_keeps_nobody_from_the_others(stage: Stage) -> None:
    gateway = stage.gateway()
    await gateway.configure(partitions=2)
    for _ in range(4):
        await gateway.push("x")
    gateway.client.damaged.add(partition_id(QUEUE, 1))
    assert [(await gateway.pop())["messages"][0]["partition"] for _ in range(2)] == [0, 0]
    with pytest.raises(errors.StorageBroken):
        await gateway.pop()


@on_stage
async def test_what_others_pushed_is_found_wherever_it_is(stage: Stage) -> None:
    one, other = stage.gateway(), stage.gateway()
    await one.configure(partitions=4)
    for _ in range(4):
        await one.push("x")
    # Nothing is known of the queue there, not even that it has partitions.
    found = [await other.pop() for _ in range(4)]
    assert sorted(answer["messages"][0]["partition"] for answer in found) == [0, 1, 2, 3]
    assert (await other.pop())["count"] == 0
    await one.push("y")
    assert (await other.pop())["items"] == ["y"]


@on_stage
async def test_a_partition_that_was_empty_a_while_ago_is_not_starved(stage: Stage) -> None:
    consumer, producer = stage.gateway(), stage.gateway()
    await consumer.configure(partitions=2)
    assert (await consumer.pop())["count"] == 0
    await producer.partitions.call(QUEUE, "Push", dump({"items": [{"item": n} for n in range(100)]}))
    await producer.partitions.call(QUEUE, "Push", dump({"item": "alone"}), 1)
    await asyncio.sleep(2)
    assert "alone" in [item for _ in range(2) for item in (await consumer.pop())["items"]]


@on_stage
async def test_a_queue_is_locked_when_all_of_its_partitions_are(stage: Stage) -> None:
    gateway = stage.gateway()
    await gateway.configure(partitions=2)
    for _ in range(4):
        await gateway.push("x")
    locks = [await gateway.lock(ttl_seconds=ttl) for ttl in (60, 20)]
    refused = await gateway.lock()
    assert (refused["success"], refused["error_code"]) == (False, "QUEUE_LOCKED")
    assert refused["lock_expires_at"] == locks[1]["lock_expires_at"]
    await gateway.partitions.call_holder(
        QUEUE, locks[0]["lock_id"], "Acknowledge", dump({"lock_id": locks[0]["lock_id"]})
    )
    assert (await gateway.lock())["count"] == 1


@on_stage
async def test_a_locked_partition_and_an_empty_one_are_nothing_to_pop(stage: Stage) -> None:
    gateway = stage.gateway()
    await gateway.configure(partitions=2)
    await gateway.push("x")
    await gateway.lock()
    answer = await gateway.pop()
    assert (answer["count"], answer.get("success")) == (0, None)


@on_stage
async def test_a_pop_goes_on_where_a_partition_is_away(stage: Stage) -> None:
    gateway = stage.gateway()
    await gateway.configure(partitions=3)
    for _ in range(3):
        await gateway.push("x")
    gateway.client.away = {f"{QUEUE}@1"}
    assert [(await gateway.pop())["count"] for _ in range(2)] == [1, 1]
    # An item is left in the partition that cannot be reached.
    with pytest.raises(errors.Unavailable):
        await gateway.pop()
    gateway.client.away.clear()
    assert (await gateway.pop())["count"] == 1


@on_stage
async def test_items_of_several_partitions_are_completed_together(stage: Stage) -> None:
    gateway, other = stage.gateway(), stage.gateway()
    await gateway.configure(partitions=3, max_locks=5)
    for _ in range(3):
        await gateway.push("a", "b")
    ids = [message["id"] for _ in range(3) for message in (await gateway.lock(2))["messages"]]
    assert set(by_partition(ids)) == {0, 1, 2}
    completed = await other.partitions.complete(QUEUE, [*ids[1:], "no-such-id", "7-0-0-0", "0-0-99-0"])
    assert completed == {"success": True, "completed": 5, "ignored": 3}
    assert await gateway.partitions.complete(QUEUE, ids) == {"success": True, "completed": 1, "ignored": 5}
    assert await gateway.stored() == [0, 0, 0]


@on_stage
async def test_what_is_not_leased_is_named_and_the_others_are_completed(stage: Stage) -> None:
    gateway = stage.gateway()
    await gateway.configure(partitions=2, max_locks=5)
    pushed = [(await gateway.push("a", "b"))["ids"] for _ in range(2)]
    leased = [message["id"] for _ in range(2) for message in (await gateway.lock())["messages"]]
    waiting = {item for ids in pushed for item in ids} - set(leased)
    refused = await gateway.partitions.complete(QUEUE, [*leased, *waiting])
    assert (refused["success"], refused["error_code"]) == (False, "NOT_LEASED")
    assert (refused["completed"], refused["ignored"]) == (2, 0)
    assert set(refused["not_leased"]) == waiting
    assert await gateway.stored() == [1, 1]


@on_stage
async def test_a_partition_that_is_away_fails_a_completion_at_once_and_the_others_go_on(stage: Stage) -> None:
    gateway = stage.gateway()
    await gateway.configure(partitions=3, max_locks=5)
    for _ in range(3):
        await gateway.push("x")
    ids = [message["id"] for _ in range(3) for message in (await gateway.lock())["messages"]]
    gateway.client.away = {f"{QUEUE}@1"}
    slow = gateway.client.held[f"{QUEUE}@2"] = asyncio.Event()
    started = asyncio.get_running_loop().time()
    with pytest.raises(errors.PartitionUnavailable) as failure:
        await gateway.partitions.complete(QUEUE, ids)
    assert asyncio.get_running_loop().time() - started < 0.5
    assert failure.value.details["retry_after"] >= 1
    slow.set()
    await gateway.partitions.close()
    gateway.client.away.clear()
    assert await gateway.stored() == [0, 1, 0]
    assert await gateway.partitions.complete(QUEUE, ids) == {"success": True, "completed": 1, "ignored": 2}


@on_stage
async def test_nor_does_a_completion_wait_for_one_that_does_not_answer(stage: Stage) -> None:
    gateway = stage.gateway()
    await gateway.configure(partitions=2, max_locks=5)
    for _ in range(2):
        await gateway.push("x")
    ids = [message["id"] for _ in range(2) for message in (await gateway.lock())["messages"]]
    stuck = gateway.client.held[f"{QUEUE}@1"] = asyncio.Event()
    started = asyncio.get_running_loop().time()
    with pytest.raises(errors.PartitionUnavailable):
        await gateway.partitions.complete(QUEUE, ids)
    assert asyncio.get_running_loop().time() - started <= COMPLETE_SECONDS + 1
    stuck.set()
    await gateway.partitions.close()
    assert await gateway.stored() == [0, 0]


@on_stage
async def test_a_partition_that_is_away_fails_what_needs_all_of_them(stage: Stage) -> None:
    gateway = stage.gateway()
    await gateway.configure(partitions=2)
    for _ in range(4):
        await gateway.push("x")
    gateway.client.away = {f"{QUEUE}@1"}
    for method in ("Stats", "Purge"):
        with pytest.raises(errors.PartitionUnavailable):
            await gateway.partitions.call_all(QUEUE, method)
    gateway.client.away.clear()
    assert await gateway.stored() == [0, 2]


@on_stage
async def test_a_lock_is_answered_for_where_it_was_made_by_any_process(stage: Stage) -> None:
    gateway, other = stage.gateway(), stage.gateway()
    await gateway.configure(partitions=3)
    for _ in range(3):
        await gateway.push("x")
    for _ in range(3):
        lock_id = (await gateway.lock())["lock_id"]
        answer = await other.partitions.call_holder(QUEUE, lock_id, "Acknowledge", dump({"lock_id": lock_id}))
        assert answer["items_acknowledged"] == 1
    assert await gateway.stored() == [0, 0, 0]


@on_stage
async def test_a_lock_of_a_partition_that_is_not_there_is_refused_by_the_first(stage: Stage) -> None:
    gateway = stage.gateway()
    for lock_id in ("3.abcdefghijklmnop", "99999.x", "x.y", 7, None):
        refused = await gateway.partitions.call_holder(QUEUE, lock_id, "Acknowledge", dump({"lock_id": lock_id}))
        assert refused["success"] is False
    assert {actor for actor, _ in gateway.client.calls} == {QUEUE}


@on_stage
async def test_a_configuration_is_known_to_all_partitions_when_it_is_answered(stage: Stage) -> None:
    gateway = stage.gateway()
    await gateway.configure(partitions=4, max_locks=7)
    known = [raise_for_refusal(one) for one in await gateway.partitions.call_all(QUEUE, "GetConfig")]
    assert [config["max_locks"] for config in known] == [7, 7, 7, 7]
    await gateway.configure(partitions=5)
    assert len(await gateway.partitions.call_all(QUEUE, "GetConfig")) == 5


@on_stage
async def test_a_partition_that_is_away_is_told_later(stage: Stage) -> None:
    gateway = stage.gateway()
    gateway.client.away = {f"{QUEUE}@2"}
    assert (await gateway.configure(partitions=3, max_locks=7))["partitions"] == 3
    gateway.client.away.clear()
    await asyncio.sleep(5)
    assert [one["max_locks"] for one in await gateway.partitions.call_all(QUEUE, "GetConfig")] == [7, 7, 7]


@on_stage
async def test_dead_letters_are_there_when_the_answer_is(stage: Stage) -> None:
    gateway = stage.gateway()
    await gateway.configure(partitions=2)
    for _ in range(2):
        await gateway.push("x")
    for _ in range(2):
        lock_id = (await gateway.lock())["lock_id"]
        await gateway.partitions.call_holder(QUEUE, lock_id, "DeadLetter", dump({"lock_id": lock_id}))
        await gateway.dead_letters.deliver(QUEUE, 1 if "." in lock_id else 0)
    letters = (await gateway.dead_letters.page(QUEUE, 50, None))["dead_letters"]
    assert sorted(letter["original_partition"] for letter in letters) == [0, 1]
    assert await gateway.dead_letters.redrive(QUEUE, SelectDeadLetters()) == {"success": True, "redriven": 2}
    assert await gateway.stored() == [1, 1]
    assert await gateway.dead_letters.redrive(QUEUE, SelectDeadLetters()) == {"success": True, "redriven": 0}


@on_stage
async def test_a_dead_letter_queue_that_is_away_keeps_nobody_for_long(stage: Stage) -> None:
    gateway = stage.gateway()
    gateway.client.held[f"{QUEUE}-deadletter"] = asyncio.Event()
    await gateway.push("x")
    lock_id = (await gateway.lock())["lock_id"]
    started = asyncio.get_running_loop().time()
    await gateway.partitions.call(QUEUE, "DeadLetter", dump({"lock_id": lock_id}))
    await gateway.dead_letters.deliver(QUEUE)
    assert asyncio.get_running_loop().time() - started < 2.5


@on_stage
async def test_many_dead_letters_are_redriven_in_one_call_or_as_many_as_are_asked_for(stage: Stage) -> None:
    gateway = stage.gateway()
    for _ in range(3):
        await gateway.push(*range(100))
    for _ in range(3):
        lock_id = (await gateway.lock(100))["lock_id"]
        await gateway.partitions.call(QUEUE, "DeadLetter", dump({"lock_id": lock_id}))
        await gateway.dead_letters.deliver(QUEUE)
    letters = (await gateway.dead_letters.page(QUEUE, 3, None))["dead_letters"]
    assert (await gateway.dead_letters.redrive(QUEUE, SelectDeadLetters(ids=[letters[1]["id"], "0-0-99-0"])))[
        "redriven"
    ] == 1
    assert (await gateway.dead_letters.redrive(QUEUE, SelectDeadLetters(max=150)))["redriven"] == 150
    assert (await gateway.dead_letters.redrive(QUEUE, SelectDeadLetters()))["redriven"] == 149
    assert await gateway.stored() == [300]
    assert (await gateway.dead_letters.page(QUEUE, 3, None))["dead_letters"] == []
