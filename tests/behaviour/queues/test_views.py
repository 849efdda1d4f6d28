"""Looking at queues, and what can be set for them."""

from __future__ import annotations

import re
import time
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tests.behaviour.stacks import on_every_stack
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.rest import Server

ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z")

DEFAULTS = {"max_locks": 1, "max_deliveries": 10, "dead_letter_queue": None}


@on_every_stack
async def test_an_unknown_queue_is_an_empty_one(server: Server) -> None:
    queue = server.queue()
    stats = await queue.stats()
    assert stats.pop("config").items() >= DEFAULTS.items()
    assert set(stats.pop("counters").values()) == {0}
    assert stats == {
        "queue": queue.name,
        "count": 0,
        "priorities": {},
        "locked": 0,
        "delayed": 0,
        "dead_letters": 0,
        "oldest_age_seconds": None,
        "locks": [],
    }
    assert await queue.peek(count=100) == {"items": [], "messages": [], "count": 0}
    assert await queue.in_flight() == []
    assert (await queue.purge()).ok()["purged"] == 0
    assert await queue.stored() == {}


@on_every_stack
async def test_statistics_count_what_is_there(server: Server) -> None:
    queue = server.queue()
    (await queue.configure(max_locks=2)).ok()
    before = time.time()
    await queue.push_many(*range(6), priority=0)
    await queue.push_many(*range(4), priority=7)
    pushed = time.time()
    done, kept = await queue.lock(count=2), await queue.lock(count=3)
    (await queue.acknowledge(done["lock_id"])).ok()
    assert (await queue.pop()).ok()["items"] == [5]
    asked = time.time()
    stats = await queue.stats()
    assert (stats["count"], stats["priorities"], stats["locked"]) == (4, {"7": 4}, 3)
    [lock] = stats["locks"]
    assert lock["count"] == 3
    assert kept["lock_id"].startswith(lock["lock_id_prefix"])
    assert len(lock["lock_id_prefix"]) < len(kept["lock_id"])
    assert ISO.fullmatch(lock["expires_at"])
    assert abs(datetime.fromisoformat(lock["expires_at"]).timestamp() - kept["lock_expires_at"]) < 0.01
    assert {name: stats["counters"][name] for name in ("pushed", "popped", "acknowledged")} == {
        "pushed": 10,
        "popped": 6,
        "acknowledged": 2,
    }
    assert asked - pushed <= stats["oldest_age_seconds"] <= time.time() - before


@on_every_stack
async def test_counters_tell_what_happened(server: Server) -> None:
    queue = server.queue()
    await queue.push_many(*range(10))
    taken = await queue.lock(count=4)
    (await queue.abandon(taken["lock_id"])).ok()
    taken = await queue.lock(count=6)
    (await queue.acknowledge(taken["lock_id"])).ok()
    (await queue.purge()).ok()
    counters = (await queue.stats())["counters"]
    assert {name: count for name, count in counters.items() if count} == {
        "pushed": 10,
        "popped": 10,
        "abandoned": 4,
        "redelivered": 4,
        "acknowledged": 6,
        "purged": 4,
    }


@on_every_stack
async def test_peek_shows_what_the_next_pops_take(server: Server) -> None:
    queue = server.queue()
    for number in range(120):
        (await queue.push({"n": number}, priority=number % 2)).ok()
    taken = await queue.lock(count=5)
    (await queue.abandon(taken["lock_id"], error="again")).ok()
    assert (await queue.peek())["count"] == 1
    peeked = await queue.peek(count=70)
    assert peeked["count"] == 70
    assert [message["delivery_count"] for message in peeked["messages"][:6]] == [1, 1, 1, 1, 1, 0]
    assert await queue.peek(count=70) == peeked
    popped = (await queue.pop(count=70)).ok()
    assert popped["items"] == peeked["items"]
    assert [message["id"] for message in popped["messages"]] == [message["id"] for message in peeked["messages"]]


@on_every_stack
async def test_messages_tell_what_is_known_of_each_item(server: Server) -> None:
    queue = server.queue()
    before = time.time()
    [item_id] = (await queue.push("a", priority=3, idempotency_key="k-1")).ok()["ids"]
    [message] = (await queue.lock())["messages"]
    enqueued_at = message.pop("enqueued_at")
    assert ISO.fullmatch(enqueued_at)
    assert before - 0.01 <= datetime.fromisoformat(enqueued_at).timestamp() <= time.time()
    assert message == {
        "id": item_id,
        "priority": 3,
        "delivery_count": 1,
        "partition": 0,
        "idempotency_key": "k-1",
    }


@on_every_stack
async def test_in_flight_shows_every_lock_and_gives_none_away(server: Server) -> None:
    queue = server.queue()
    (await queue.configure(max_locks=5)).ok()
    await queue.push_many("a", "b", "c")
    first, second = await queue.lock(count=2), await queue.lock(ttl_seconds=200)
    locks = await queue.in_flight()
    assert [(lock["count"], lock["items"]) for lock in locks] == [(2, ["a", "b"]), (1, ["c"])]
    for lock, taken in zip(locks, (first, second), strict=True):
        assert taken["lock_id"].startswith(lock["lock_id_prefix"])
        assert [message["id"] for message in lock["messages"]] == [message["id"] for message in taken["messages"]]
        (await queue.acknowledge(lock["lock_id_prefix"])).refused(400, "INVALID_LOCK_ID")
        assert taken["lock_id"] not in str(locks)
    (await queue.acknowledge(first["lock_id"])).ok()
    assert [lock["items"] for lock in await queue.in_flight()] == [["c"]]


@on_every_stack
async def test_a_purge_takes_what_waits_and_leaves_what_is_locked(server: Server) -> None:
    queue = server.queue()
    await queue.push_many(*range(500))
    await queue.push_many("x", "y", priority=3)
    back = await queue.lock(count=2)
    (await queue.abandon(back["lock_id"])).ok()
    taken = await queue.lock(count=5)
    assert (await queue.purge()).ok()["purged"] == 497
    assert (await queue.peek(count=100))["items"] == []
    assert (await queue.stats())["locked"] == 5
    await queue.push("new")
    (await queue.abandon(taken["lock_id"])).ok()
    assert await queue.drain() == [0, 1, 2, 3, 4, "new"]

    async def swept() -> bool:
        return not any(key.startswith("segment-") for key in await queue.stored())

    await eventually(swept)


@on_every_stack
async def test_a_queue_that_was_drained_leaves_no_items_in_the_store(server: Server) -> None:
    queue = server.queue()
    for _ in range(3):
        await queue.push_many(*range(250))
    taken = await queue.lock(count=100)
    await queue.abandon(taken["lock_id"])
    for _ in range(8):
        taken = await queue.lock(count=100)
        (await queue.acknowledge(taken["lock_id"])).ok()
    assert (await queue.pop()).ok()["count"] == 0
    stored = await queue.stored()
    assert [key for key in stored if key.startswith(("segment-", "redelivery-", "lock-"))] == []


@on_every_stack
async def test_a_configuration_changes_by_the_keys_that_are_named(server: Server) -> None:
    queue = server.queue()
    assert (await queue.config()).items() >= DEFAULTS.items()
    changed = (await queue.configure(max_locks=4)).ok()
    assert changed == await queue.config()
    assert changed.items() >= (DEFAULTS | {"max_locks": 4}).items()
    (await queue.configure(max_deliveries=2, dead_letter_queue="somewhere")).ok()
    assert (await queue.config()).items() >= {
        "max_locks": 4,
        "max_deliveries": 2,
        "dead_letter_queue": "somewhere",
    }.items()
    (await queue.configure(dead_letter_queue=None)).ok()
    assert (await queue.configure()).ok() == await queue.config() == (await queue.stats())["config"]
    assert (await queue.config())["dead_letter_queue"] is None
    assert (await queue.stored())["config"] == {"max_locks": 4, "max_deliveries": 2}


@on_every_stack
async def test_a_configuration_that_is_refused_changes_nothing(server: Server) -> None:
    queue = server.queue()
    before = await queue.config()
    for changes in (
        {"max_locks": 0},
        {"max_locks": "2"},
        {"max_locks": True},
        {"max_locks": 2.0},
        {"max_locks": None},
        {"max_deliveries": -1},
        {"dead_letter_queue": "a/b"},
        {"dead_letter_queue": ".hidden"},
        {"dead_letter_queue": "a" * 256},
        {"dead_letter_queue": 7},
        {"max_lokcs": 2},
        {"max_locks": 3, "max_deliveries": 0},
    ):
        (await queue.configure(**changes)).refused(400, "INVALID_REQUEST")
    assert await queue.config() == before


@on_every_stack
async def test_queues_are_listed_in_pages(server: Server) -> None:
    queues = [server.queue(f"{number:02}") for number in range(25)]
    for queue in queues:
        await queue.push(queue.name)
    taken = await queues[3].lock()
    found = await listed(server, limit=7, count=25)
    assert [entry["queue"] for entry in found] == [queue.name for queue in queues]
    assert found[4] == {"queue": queues[4].name, "count": 1, "locked": 0, "dead_letters": 0}
    assert found[3] == {"queue": queues[3].name, "count": 0, "locked": 1, "dead_letters": 0}
    (await queues[3].acknowledge(taken["lock_id"])).ok()
    assert [entry["queue"] for entry in await listed(server, limit=100, count=25)] == [queue.name for queue in queues]


@on_every_stack
async def test_looking_at_a_queue_does_not_make_it_one(server: Server) -> None:
    queue = server.queue("looked-at")
    await queue.stats()
    await queue.peek()
    (await queue.pop()).ok()
    (await queue.purge()).ok()
    marker = server.queue("marker")
    await marker.push(1)
    assert [entry["queue"] for entry in await listed(server, limit=50, count=1)] == [marker.name]


async def listed(server: Server, *, limit: int, count: int) -> list[Any]:
    """The queues of this test as the list shows them, once there are so many: a push does not wait for it."""

    async def enough() -> list[Any]:
        found = await _pages(server, limit)
        return found if len(found) >= count else []

    return await eventually(enough)


async def _pages(server: Server, limit: int) -> list[Any]:
    found: list[Any] = []
    # Names of this test begin with its own, and a page begins after its cursor.
    query: dict[str, Any] = {"limit": limit, "cursor": server.name}
    while True:
        page = (await server.request("GET", "/queues", query=query)).ok()
        assert len(page["queues"]) <= limit
        own = [entry for entry in page["queues"] if entry["queue"].startswith(f"{server.name}-")]
        found += own
        if "next_cursor" not in page or len(own) < len(page["queues"]):
            return found
        assert len(own) == limit
        query["cursor"] = page["next_cursor"]
