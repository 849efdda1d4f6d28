"""Where pushes go when a queue has several partitions."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import errors
from holdfast.gateway.queues.push_routing import refuse_elsewhere, with_elsewhere
from holdfast.runtime.serialization import dump, load
from tests.unit.gateway.stage import QUEUE, Stage, by_partition, on_stage


@on_stage
async def test_pushes_spread_evenly_one_call_each(stage: Stage) -> None:
    gateway = stage.gateway()
    await gateway.configure(partitions=4)
    await gateway.push("x")
    gateway.client.calls.clear()
    for _ in range(39):
        await gateway.push("x")
    assert await gateway.stored() == [10, 10, 10, 10]
    assert sum(asked == ("Push",) for _, asked in gateway.client.calls) == 39


@on_stage
async def test_pushes_at_the_same_time_spread_too(stage: Stage) -> None:
    gateway = stage.gateway()
    await gateway.configure(partitions=4)
    await asyncio.gather(*(gateway.push("x") for _ in range(40)))
    assert await gateway.stored() == [10, 10, 10, 10]


@on_stage
async def test_a_request_stays_together_in_the_least_loaded(stage: Stage) -> None:
    gateway = stage.gateway()
    await gateway.configure(partitions=3)
    for _ in range(6):
        ids = (await gateway.push(*range(50)))["ids"]
        assert len(by_partition(ids)) == 1
    assert await gateway.stored() == [100, 100, 100]
    await gateway.pop(20)
    light = (await gateway.stored()).index(80)
    assert by_partition((await gateway.push(*range(10)))["ids"]) == {light: 10}


@on_stage
async def test_what_others_do_is_noticed(stage: Stage) -> None:
    gateway, other = stage.gateway(), stage.gateway()
    await gateway.configure(partitions=2)
    for _ in range(4):
        await gateway.push(*range(10))
    await other.partitions.call(QUEUE, "Pop", dump({"count": 20}), 1)
    # The known loads are outdated after a few seconds, and are asked for again.
    await asyncio.sleep(5)
    await gateway.push("x")
    await asyncio.sleep(1)
    for _ in range(5):
        assert by_partition((await gateway.push("y"))["ids"]) == {1: 1}


@on_stage
async def test_an_id_is_stored_once_whoever_pushes_it(stage: Stage) -> None:
    one, other = stage.gateway(), stage.gateway()
    await one.configure(partitions=4)
    first = await one.push("x", dedup_id="k")
    for gateway in (one, other, stage.gateway()):
        for _ in range(3):
            assert await gateway.push("x", dedup_id="k") == {**first, "count": 0}
    assert sum(await one.stored()) == 1


@on_stage
async def test_a_request_with_known_and_new_ids_is_answered_in_its_order(stage: Stage) -> None:
    gateway = stage.gateway()
    await gateway.configure(partitions=3)
    known = {key: (await gateway.push(key, dedup_id=key))["ids"][0] for key in "abc"}
    assert len(by_partition(known.values())) == 3
    entries = [
        {"item": "new", "dedup_id": "n"},
        {"item": "a", "dedup_id": "a"},
        {"item": "plain"},
        {"item": "c", "dedup_id": "c"},
        {"item": "new again", "dedup_id": "n"},
        {"item": "b", "dedup_id": "b"},
    ]
    answer = await gateway.push_entries(entries)
    assert (answer["success"], answer["count"]) == (True, 2)
    new, a, plain, c, again, b = answer["ids"]
    assert (a, b, c) == (known["a"], known["b"], known["c"])
    assert new == again
    assert len({new, plain, *known.values()}) == 5
    assert sum(await gateway.stored()) == 5


@on_stage
async def test_a_request_that_is_not_valid_claims_nothing(stage: Stage) -> None:
    gateway = stage.gateway()
    await gateway.configure(partitions=2)
    await gateway.push("x")
    gateway.client.calls.clear()
    for wrong in ({"dedup_id": 7}, {"dedup_id": "k", "priority": -1}, {"dedup_id": ["k"]}, {"dedup_id": ""}):
        with pytest.raises(errors.InvalidRequest):
            await gateway.push_entries([{"item": 1}, {"item": 2, **wrong}])
    assert not any("Claim" in asked for _, asked in gateway.client.calls)
    assert sum(await gateway.stored()) == 1


@on_stage
async def test_a_queue_is_full_when_all_of_it_is(stage: Stage) -> None:
    one, other = stage.gateway(), stage.gateway()
    await one.configure(partitions=3, capacity=10)
    for _ in range(10):
        assert (await one.push("x"))["success"]
    assert sum(await other.stored()) == 10
    for gateway in (one, other):
        refused = await gateway.push("x")
        assert refused["error_code"] == "CAPACITY"
        assert refused["retry_after"] >= 1
    assert (await one.push("a", "b"))["success"] is False
    # Taken by another process: there is room, and it is found.
    await other.pop()
    assert (await one.push("x"))["success"]
    assert (await one.push("x"))["success"] is False
    assert sum(await one.stored()) == 10


@on_stage
async def test_a_capacity_below_what_all_partitions_hold_is_refused(stage: Stage) -> None:
    gateway, other = stage.gateway(), stage.gateway()
    await gateway.configure(partitions=3)
    for _ in range(9):
        await gateway.push("x")
    with pytest.raises(errors.InvalidRequest, match="capacity"):
        await other.configure(capacity=8)
    assert (await other.configure(capacity=9))["capacity"] == 9


@on_stage
async def test_a_partition_with_no_pace_left_leaves_it_to_another(stage: Stage) -> None:
    gateway = stage.gateway()
    await gateway.configure(partitions=4, rate_per_second=8)
    answers = [await gateway.push("x") for _ in range(9)]
    assert [answer["success"] for answer in answers] == [True] * 8 + [False]
    assert answers[-1]["error_code"] == "RATE_LIMITED"
    assert answers[-1]["retry_after"] >= 1


@on_stage
async def test_a_partition_that_is_away_is_avoided(stage: Stage) -> None:
    gateway = stage.gateway()
    await gateway.configure(partitions=2)
    for _ in range(10):
        await gateway.push("x")
    gateway.client.away = {f"{QUEUE}@1"}
    failed = 0
    for _ in range(20):
        try:
            await gateway.push("x")
        except errors.Unavailable:
            # The push may have been stored, so it may not be sent to another partition.
            failed += 1
    assert failed == 1
    gateway.client.away.clear()
    await asyncio.sleep(10)
    for _ in range(20):
        await gateway.push("x")
    first, second = await gateway.stored()
    assert abs(first - second) <= 2


@on_stage
async def test_nobody_waits_long_for_one_that_does_not_say_how_much_it_holds(stage: Stage) -> None:
    gateway, other = stage.gateway(), stage.gateway()
    await gateway.configure(partitions=3, capacity=100)
    other.client.held[f"{QUEUE}@1"] = asyncio.Event()
    started = asyncio.get_running_loop().time()
    for _ in range(10):
        assert (await other.push("x"))["success"]
    assert asyncio.get_running_loop().time() - started < 2
    assert sum(await gateway.stored()) == 10
    other.client.held[f"{QUEUE}@1"].set()


def test_what_is_added_to_a_body_leaves_it_as_it_is() -> None:
    for body in (b'{"item": 1}', b' {"item":[{}]} \n', b'{"item":"}"}', b"{}", b"{ }"):
        told = load(with_elsewhere(body, 12))
        assert told == load(body) | {"elsewhere": 12}


def test_only_the_gateway_says_what_lies_elsewhere() -> None:
    with pytest.raises(errors.InvalidRequest, match="elsewhere"):
        refuse_elsewhere(load(dump({"item": 1, "elsewhere": 5})))
