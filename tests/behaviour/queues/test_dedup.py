"""A push that is repeated is stored once, as long as its ``dedup_id`` is remembered."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from tests.behaviour.clock import past
from tests.behaviour.queues.test_partitions import PARTITIONS, partition_of, partitioned
from tests.behaviour.queues.test_redrive import rejected
from tests.behaviour.stacks import on_every_stack

if TYPE_CHECKING:
    from tests.support.rest import Server


@on_every_stack
async def test_a_push_that_is_repeated_answers_the_first_id(server: Server) -> None:
    queue, other = server.queue(), server.queue("other")
    first = (await queue.push("a", dedup_id="order-1")).ok()
    assert first["count"] == 1
    for item, priority in (("a", 0), ("another", 7)):
        again = (await queue.push(item, priority=priority, dedup_id="order-1")).ok()
        assert again == {"success": True, "count": 0, "ids": first["ids"]}
    assert (await queue.push("b", dedup_id="ORDER-1")).ok()["count"] == 1
    assert (await queue.push("c")).ok()["count"] == 1
    assert (await other.push("a", dedup_id="order-1")).ok()["count"] == 1
    stats = await queue.stats()
    assert (stats["count"], stats["counters"]["pushed"], stats["counters"]["deduplicated"]) == (3, 3, 2)
    left = await queue.drain_messages()
    assert [(item, message.get("dedup_id")) for item, message in left] == [
        ("a", "order-1"),
        ("b", "ORDER-1"),
        ("c", None),
    ]


@on_every_stack
async def test_duplicates_inside_a_bulk_and_beside_new_ones(server: Server) -> None:
    queue = server.queue()
    [first] = (await queue.push("old", dedup_id="x")).ok()["ids"]
    entries = [
        {"item": 1, "dedup_id": "y"},
        {"item": 2},
        {"item": 3, "dedup_id": "x"},
        {"item": 4, "dedup_id": "y", "priority": 5},
        {"item": 5, "dedup_id": "z"},
        {"item": 6},
    ]
    answer = (await queue.send("push", {"items": entries})).ok()
    assert answer["count"] == 4
    ids = answer["ids"]
    assert (ids[2], ids[3]) == (first, ids[0])
    assert len(set(ids)) == 5
    assert await queue.drain() == ["old", 1, 2, 5, 6]
    assert (await queue.send("push", {"items": entries})).ok() | {"ids": None} == {
        "success": True,
        "count": 2,
        "ids": None,
    }
    assert await queue.drain() == [2, 6]


@on_every_stack
async def test_a_dedup_id_is_remembered_after_its_item_is_gone(server: Server) -> None:
    queue = server.queue()
    ids = {}
    for name in ("popped", "acknowledged", "completed", "rejected", "revoked", "purged"):
        [item_id] = ids[name] = (await queue.push(name, dedup_id=name)).ok()["ids"]
        match name:
            case "popped":
                assert (await queue.pop()).ok()["items"] == [name]
            case "acknowledged":
                (await queue.acknowledge((await queue.lock())["lock_id"])).ok()
            case "completed":
                await queue.lock()
                assert (await queue.complete(item_id)).ok()["completed"] == 1
            case "rejected":
                (await queue.dead_letter((await queue.lock())["lock_id"])).ok()
            case "revoked":
                (await queue.revoke(item_id)).ok()
            case "purged":
                assert (await queue.purge()).ok()["purged"] == 1
    for name, first in ids.items():
        assert (await queue.push(name, dedup_id=name)).ok() == {"success": True, "count": 0, "ids": first}
    assert await queue.drain() == []


@on_every_stack
async def test_a_dedup_id_is_forgotten_when_the_window_is_over(server: Server) -> None:
    queue, never = await partitioned(server, dedup_window_seconds=1), server.queue("never")
    assert (await queue.push_many(*range(3), dedup_id="x")).ok()["count"] == 1
    await past(time.time() + 1)
    assert (await queue.push("again", dedup_id="x")).ok()["count"] == 1
    # A window of nothing remembers nothing, not even inside a bulk.
    (await never.configure(dedup_window_seconds=0)).ok()
    assert (await never.push_many(1, 2, dedup_id="x")).ok()["count"] == 2
    assert (await never.push(3, dedup_id="x")).ok()["count"] == 1
    assert await never.drain() == [1, 2, 3]


@on_every_stack
async def test_a_dedup_id_counts_for_all_partitions(server: Server) -> None:
    queue = await partitioned(server)
    first = {name: (await queue.push(name, dedup_id=name)).ok()["ids"][0] for name in "abcdefgh"}
    assert {partition_of(item_id) for item_id in first.values()} == set(range(PARTITIONS))
    for name, item_id in first.items():
        assert (await queue.push("again", dedup_id=name)).ok() == {"success": True, "count": 0, "ids": [item_id]}
    entries = [{"item": f"new {name}", "dedup_id": name} for name in "xaybczhw"]
    answer = (await queue.send("push", {"items": [*entries, {"item": "plain"}]})).ok()
    assert answer["count"] == 5
    expected = [first.get(name) for name in "xaybczhw"]
    assert [own if told else None for own, told in zip(answer["ids"], expected, strict=False)] == expected
    # What is new stays together.
    new = [item_id for item_id in answer["ids"] if item_id not in first.values()]
    assert len({partition_of(item_id) for item_id in new}) == 1
    assert sorted(await queue.drain()) == sorted([*"abcdefgh", "plain", *(f"new {name}" for name in "xyzw")])
    again = (await queue.send("push", {"items": entries})).ok()
    assert (again["count"], again["ids"]) == (0, answer["ids"][:-1])


@on_every_stack
async def test_of_pushes_at_the_same_time_one_is_stored(server: Server) -> None:
    queue = await partitioned(server)
    answers = await asyncio.gather(*(queue.push(number, dedup_id=f"id {number % 5}") for number in range(60)))
    for which in range(5):
        own = [answer.ok() for answer in answers[which::5]]
        assert sum(answer["count"] for answer in own) == 1
        assert len({answer["ids"][0] for answer in own}) == 1
    assert (await queue.stats())["count"] == 5


@on_every_stack
async def test_dedup_ids_are_remembered_while_a_queue_grows(server: Server) -> None:
    queue = server.queue()
    before = {name: (await queue.push(name, dedup_id=name)).ok()["ids"] for name in "abcd"}
    assert await queue.drain() == ["a", "b", "c", "d"]
    (await queue.configure(partitions=3)).ok()
    more = {name: (await queue.push(name, dedup_id=name)).ok()["ids"] for name in "efgh"}
    (await queue.configure(partitions=6)).ok()
    for name, ids in (before | more).items():
        assert (await queue.push("again", dedup_id=name)).ok() == {"success": True, "count": 0, "ids": ids}


@on_every_stack
async def test_a_redrive_is_no_duplicate(server: Server) -> None:
    queue = server.queue()
    (await queue.push("kept", dedup_id="k")).ok()
    (await queue.dead_letter((await queue.lock())["lock_id"])).ok()
    await rejected(queue, "other")
    assert (await queue.redrive()).ok()["redriven"] == 2
    assert (await queue.push("kept", dedup_id="k")).ok()["count"] == 0
    assert await queue.drain() == ["kept", "other"]


@on_every_stack
async def test_a_delayed_item_is_a_first_one_too(server: Server) -> None:
    queue = server.queue()
    first = (await queue.push("later", dedup_id="k", delay_seconds=60)).ok()
    assert (await queue.push("now", dedup_id="k")).ok() == first | {"count": 0}
    stats = await queue.stats()
    assert (stats["count"], stats["delayed"]) == (1, 1)
