"""Dead letters: what is known of each, looked at page by page, and sent back to where they came from."""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tests.behaviour.clock import expired
from tests.behaviour.queues.test_dead_letters import dead_letters_of
from tests.behaviour.queues.test_partitions import PARTITIONS, one_in_each, partitioned
from tests.behaviour.stacks import ALL, KILLED, on_every_stack, on_stacks
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.rest import Queue, Server

FIELDS = {
    *("id", "item", "reason", "attempts", "last_error", "original_queue", "original_partition", "original_id"),
    *("tenant_id", "idempotency_key", "dead_lettered_at"),
}
BEHALF = {"tenant_id": "acme"}


async def letters_of(queue: Queue, count: int) -> list[Any]:
    """All of them, once there are so many."""

    async def there() -> Any:
        letters = await queue.dead_letters()
        return letters if len(letters) >= count else None

    found: list[Any] = await eventually(there)
    assert len(found) == count
    return found


async def rejected(queue: Queue, *items: Any) -> list[Any]:
    """These items as dead letters, in the order of their rejection."""
    before = len(await queue.dead_letters())
    for first in range(0, len(items), 100):
        some = items[first : first + 100]
        await queue.push_many(*some)
        (await queue.dead_letter((await queue.lock(count=len(some)))["lock_id"])).ok()
    return (await letters_of(queue, before + len(items)))[before:]


@on_every_stack
async def test_a_dead_letter_says_where_it_came_from_and_why(server: Server) -> None:
    queue = await partitioned(server, max_deliveries=2)
    await one_in_each(queue)
    (await queue.purge()).ok()
    before = time.time()
    entry = {"item": {"n": 1}, "priority": 3, "idempotency_key": "order-1"} | BEHALF
    pushed = (await queue.send("push", entry)).ok()["ids"]
    for attempt in (1, 2):
        (await queue.abandon((await queue.lock())["lock_id"], error=f"no luck: {attempt}")).ok()
    [letter] = await letters_of(queue, 1)
    assert letter.keys() == FIELDS
    moment = datetime.fromisoformat(letter.pop("dead_lettered_at"))
    assert before - 0.01 <= moment.timestamp() <= time.time()
    letter_id = letter.pop("id")
    assert letter == {
        "item": {"n": 1},
        "reason": "max_deliveries",
        "attempts": 2,
        "last_error": "no luck: 2",
        "original_queue": queue.name,
        "original_partition": int(pushed[0].split("-")[0]),
        "original_id": pushed[0],
        "tenant_id": "acme",
        "idempotency_key": "order-1",
    }
    [message] = (await dead_letters_of(queue).lock())["messages"]
    assert message["id"] == letter_id
    del letter["item"]
    assert message["dead_letter"].items() >= letter.items()


@on_every_stack
async def test_the_reason_of_a_dead_letter(server: Server) -> None:
    queue = server.queue()
    (await queue.configure(max_deliveries=2, max_locks=5)).ok()
    await queue.push_many("abandoned", "late", "rejected", "explained")
    (await queue.abandon((await queue.lock(count=2))["lock_id"])).ok()
    (await queue.abandon((await queue.lock())["lock_id"], error="twice")).ok()
    late = await queue.lock(ttl_seconds=1)
    (await queue.dead_letter((await queue.lock())["lock_id"])).ok()
    (await queue.dead_letter((await queue.lock())["lock_id"], reason="not an order")).ok()
    await expired(late)
    (await queue.acknowledge(late["lock_id"])).refused(410, "LOCK_EXPIRED")
    letters = await letters_of(queue, 4)
    assert {letter["item"]: (letter["reason"], letter["attempts"], letter["last_error"]) for letter in letters} == {
        "abandoned": ("max_deliveries", 2, "twice"),
        "late": ("max_deliveries", 2, None),
        "rejected": ("rejected", 1, None),
        "explained": ("not an order", 1, None),
    }


@on_every_stack
async def test_dead_letters_are_shown_page_by_page(server: Server) -> None:
    queue = server.queue()
    letters = await rejected(queue, *range(25))
    assert [letter["item"] for letter in letters] == list(range(25))
    page = (await queue.get("/dead-letters", limit=10)).ok()
    assert [letter["item"] for letter in page["dead_letters"]] == list(range(10))
    page = (await queue.get("/dead-letters", limit=10, cursor=page["next_cursor"])).ok()
    # A dead letter that goes does not invalidate the cursors of its neighbours.
    (await queue.redrive(ids=[letters[19]["id"], letters[20]["id"]])).ok()
    page = (await queue.get("/dead-letters", limit=10, cursor=page["next_cursor"])).ok()
    assert [letter["item"] for letter in page["dead_letters"]] == [21, 22, 23, 24]
    for limit in (1, 7, 23, 100):
        assert len(await queue.dead_letters(limit)) == 23
    assert (await queue.stats())["dead_letters"] == 23


@on_every_stack
async def test_queues_that_share_a_dead_letter_queue_see_their_own(server: Server) -> None:
    shared, first, second = server.queue("shared"), server.queue("first"), server.queue("second")
    for queue in (first, second):
        (await queue.configure(dead_letter_queue=shared.name)).ok()
    for number in range(3):
        await rejected(first, f"first {number}")
        await rejected(second, f"second {number}")
    assert [letter["item"] for letter in await first.dead_letters(2)] == [f"first {number}" for number in range(3)]
    everything = await shared.dead_letters(4)
    assert len(everything) == 6
    assert {letter["original_queue"] for letter in everything} == {first.name, second.name}
    theirs = next(letter["id"] for letter in everything if letter["original_queue"] == second.name)
    assert (await first.redrive(ids=[theirs])).ok()["redriven"] == 0
    assert (await first.redrive()).ok()["redriven"] == 3
    assert await first.drain() == [f"first {number}" for number in range(3)]
    assert (await second.stats())["count"] == 0
    # Asked of the dead-letter queue itself, all go, each to its own.
    await rejected(first, "again")
    assert (await shared.redrive()).ok()["redriven"] == 4
    assert await first.drain() == ["again"]
    assert await second.drain() == [f"second {number}" for number in range(3)]
    assert await shared.dead_letters() == []


@on_every_stack
async def test_redriven_items_start_afresh_where_they_came_from(server: Server) -> None:
    queue = await partitioned(server, max_deliveries=2, max_locks=10)
    await one_in_each(queue, 2)
    (await queue.send("push", {"item": "key", "priority": 9, "idempotency_key": "k", "dedup_id": "d"} | BEHALF)).ok()
    count = 2 * PARTITIONS + 1
    first = [await given_back(queue, "first life") for _ in range(2)]
    homes = {str(item): message["partition"] for item, message in first[0]}
    assert len(homes) == count
    await letters_of(queue, count)
    assert (await queue.redrive()).ok() == {"success": True, "redriven": count}
    assert await queue.dead_letters() == []
    assert (await queue.stats())["dead_letters"] == 0
    for attempt in (1, 2):
        delivered = await given_back(queue, "second life")
        assert {str(item): message["partition"] for item, message in delivered} == homes
        for item, message in delivered:
            assert message["delivery_count"] == attempt
            assert message.get("last_error") == (None if attempt == 1 else "second life")
            assert "dead_letter" not in message
            if item == "key":
                assert (message["priority"], message["idempotency_key"], message["tenant_id"]) == (9, "k", "acme")
    letters = await letters_of(queue, count)
    assert {(letter["attempts"], letter["last_error"]) for letter in letters} == {(2, "second life")}


async def given_back(queue: Queue, error: str) -> list[tuple[Any, Any]]:
    """All that waits, delivered once and abandoned; with what was known of each."""
    locks = []
    while (taken := (await queue.pop(require_ack=True, count=5)).ok())["count"]:
        locks.append(taken)
    for taken in locks:
        (await queue.abandon(taken["lock_id"], error=error)).ok()
    return [pair for taken in locks for pair in zip(taken["items"], taken["messages"], strict=True)]


@on_every_stack
async def test_some_dead_letters_can_be_redriven(server: Server) -> None:
    queue = server.queue()
    letters = await rejected(queue, *range(10))
    ids = [letter["id"] for letter in letters]
    answer = (await queue.redrive(ids=[ids[7], ids[2], "unknown", ids[2], "0-0-77-0", "9-0-0-0"])).ok()
    assert answer["redriven"] == 2
    assert sorted(await queue.drain()) == [2, 7]
    assert (await queue.redrive(ids=[ids[7], ids[2]])).ok()["redriven"] == 0
    assert (await queue.redrive(max=3)).ok()["redriven"] == 3
    assert await queue.drain() == [0, 1, 3]
    assert (await queue.redrive(ids=ids, max=2)).ok()["redriven"] == 2
    assert await queue.drain() == [4, 5]
    assert (await queue.redrive(max=100)).ok()["redriven"] == 3
    assert (await queue.redrive()).ok()["redriven"] == 0
    assert await queue.drain() == [6, 8, 9]
    assert (await queue.stats())["dead_letters"] == 0


@on_every_stack
async def test_a_body_is_not_needed_to_redrive_all(server: Server) -> None:
    queue = server.queue()
    await rejected(queue, "a", "b")
    answer = await server.request("POST", f"/queue/{queue.name}/redrive")
    assert answer.ok()["redriven"] == 2
    assert await queue.drain() == ["a", "b"]


@on_every_stack
async def test_dead_letters_that_somebody_holds_are_not_redriven(server: Server) -> None:
    queue = server.queue()
    letters = await rejected(queue, *range(4))
    held = await dead_letters_of(queue).lock(count=2)
    assert (await queue.redrive(ids=[letters[1]["id"]])).ok()["redriven"] == 0
    assert (await queue.redrive()).ok()["redriven"] == 2
    assert await queue.drain() == [2, 3]
    (await dead_letters_of(queue).abandon(held["lock_id"])).ok()
    assert (await queue.redrive()).ok()["redriven"] == 2
    assert await queue.drain() == [0, 1]


@on_every_stack
async def test_many_dead_letters_are_redriven_by_one_call(server: Server) -> None:
    queue = server.queue()
    await rejected(queue, *range(330))
    assert (await queue.redrive(max=120)).ok() == {"success": True, "redriven": 120}
    assert await queue.drain() == list(range(120))
    assert (await queue.redrive()).ok() == {"success": True, "redriven": 210}
    assert await queue.drain() == list(range(120, 330))


@on_every_stack
async def test_what_was_pushed_into_a_dead_letter_queue_is_no_dead_letter(server: Server) -> None:
    queue = server.queue()
    dead = dead_letters_of(queue)
    (await dead.push("a guest")).ok()
    await rejected(queue, "a letter")
    assert [letter["item"] for letter in await dead.dead_letters()] == ["a letter"]
    assert (await dead.redrive()).ok()["redriven"] == 1
    assert await dead.drain() == ["a guest"]
    assert await queue.drain() == ["a letter"]


@on_every_stack
async def test_a_dead_letter_queue_has_none_of_its_own(server: Server) -> None:
    queue = server.queue()
    dead = dead_letters_of(queue)
    (await dead.configure(max_deliveries=1, expired_to_dead_letters=True, capacity=2)).ok()
    # More than it takes from others: what is sent to it has no other place to be.
    await rejected(queue, *range(5))
    for attempt in (1, 2):
        taken = await dead.lock(count=5)
        assert {message["delivery_count"] for message in taken["messages"]} == {attempt}
        (await dead.abandon(taken["lock_id"])).ok()
    (await dead.dead_letter((await dead.lock())["lock_id"])).refused(400, "INVALID_REQUEST")
    assert (await dead.stats())["dead_letters"] == 0
    assert (await dead_letters_of(dead).stats())["count"] == 0


@on_stacks(*ALL, part=KILLED)
async def test_dead_letters_are_in_one_place_however_often_the_process_dies(server: Server) -> None:
    queue = await partitioned(server, max_locks=50)
    count = 120
    for first in range(0, count, 30):
        (await queue.push_many(*range(first, first + 30))).ok()

    async def everything() -> list[Any]:
        places = [*await queue.drain(), *(letter["item"] for letter in await queue.dead_letters())]
        return sorted(places)

    locks = [await queue.lock(count=10, ttl_seconds=300) for _ in range(count // 10)]
    for lock in locks[:6]:
        (await queue.dead_letter(lock["lock_id"])).ok()
    tries = [server.begin(queue.dead_letter(lock["lock_id"])) for lock in locks[6:]]
    await server.stack.kill_app()
    for attempt in tries:
        await eventually(_ended(attempt))
    await server.stack.start_app()
    # Transfers under way arrive; calls without an answer may have moved nothing.
    for lock in locks[6:]:
        answer = await queue.dead_letter(lock["lock_id"])
        assert answer.status in (200, 400, 404), answer.text
    await letters_of(queue, count)
    redriving = server.begin(queue.redrive(max=80))

    async def begun() -> bool:
        return int((await queue.stats())["count"]) > 0 or redriving.done()

    await eventually(begun)
    await server.stack.kill_app()
    await eventually(_ended(redriving))
    await server.stack.start_app()

    async def settled() -> bool:
        stats = await queue.stats()
        return int(stats["count"]) + int(stats["dead_letters"]) == count

    await eventually(settled)
    assert await everything() == list(range(count))


def _ended(task: Any) -> Any:
    async def ended() -> bool:
        return bool(task.done())

    return ended
