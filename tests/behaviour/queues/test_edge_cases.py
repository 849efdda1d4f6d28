"""Edge cases of queues that callers could expect to end one way or another, and how they do end."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from tests.behaviour.clock import expired, past
from tests.behaviour.stacks import on_every_stack
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.rest import Queue, Server

# Items that come back


@on_every_stack
async def test_abandoned_items_go_to_the_front_of_their_priority_in_their_order(server: Server) -> None:
    queue = server.queue()
    await queue.push_many("b1", "b2", "b3", priority=5)
    await queue.push_many("a1", "a2", "a3", priority=2)
    taken = await queue.lock(count=5)
    assert taken["items"] == ["a1", "a2", "a3", "b1", "b2"]
    await queue.push("a4", priority=2)
    await queue.push("first", priority=0)
    assert (await queue.abandon(taken["lock_id"])).ok()["items_acknowledged"] == 5
    assert await queue.drain() == ["first", "a1", "a2", "a3", "a4", "b1", "b2", "b3"]


@on_every_stack
async def test_items_of_several_locks_come_back_in_the_order_they_were_pushed(server: Server) -> None:
    queue = server.queue()
    (await queue.configure(max_locks=3)).ok()
    await queue.push_many(*range(9))
    first, second, third = [await queue.lock(count=2) for _ in range(3)]
    # Given back in another order than taken, and one of them not at all.
    (await queue.abandon(third["lock_id"])).ok()
    (await queue.abandon(first["lock_id"])).ok()
    assert (await queue.peek(count=10))["items"] == [0, 1, 4, 5, 6, 7, 8]
    (await queue.abandon(second["lock_id"])).ok()
    assert await queue.drain() == list(range(9))


@on_every_stack
async def test_items_of_several_expired_locks_come_back_in_the_order_they_were_pushed(server: Server) -> None:
    queue = server.queue()
    (await queue.configure(max_locks=3)).ok()
    await queue.push_many(*range(7))
    locks = [await queue.lock(count=2, ttl_seconds=1) for _ in range(3)]
    for lock in locks:
        await expired(lock)
    assert await queue.drain() == list(range(7))


@on_every_stack
async def test_an_abandon_can_say_why(server: Server) -> None:
    queue = server.queue()
    await queue.push("poor thing")
    for number in (1, 2):
        taken = await queue.lock()
        [message] = taken["messages"]
        assert message["delivery_count"] == number
        assert message.get("last_error") == (None if number == 1 else "no luck: 1")
        (await queue.abandon(taken["lock_id"], error=f"no luck: {number}")).ok()
    [message] = (await queue.peek())["messages"]
    assert message["last_error"] == "no luck: 2"


# While a queue is locked


@on_every_stack
async def test_a_locked_queue_is_locked_even_when_nothing_else_is_in_it(server: Server) -> None:
    queue = server.queue()
    await queue.push("only")
    taken = await queue.lock()
    assert (await queue.stats())["count"] == 0
    for require_ack in (True, False):
        body = (await queue.pop(require_ack=require_ack)).refused(423, "QUEUE_LOCKED")
        assert body["lock_expires_at"] == taken["lock_expires_at"]


@on_every_stack
async def test_pushes_go_on_while_a_queue_is_locked(server: Server) -> None:
    queue = server.queue()
    await queue.push(1)
    taken = await queue.lock()
    (await queue.push(2)).ok()
    (await queue.push(0, priority=0)).ok()
    assert (await queue.peek(count=5))["items"] == [2, 0]
    (await queue.acknowledge(taken["lock_id"])).ok()
    assert await queue.drain() == [2, 0]


@on_every_stack
async def test_with_several_locks_a_queue_is_locked_when_all_are_taken(server: Server) -> None:
    queue = server.queue()
    (await queue.configure(max_locks=2)).ok()
    await queue.push_many(1, 2, 3, 4, 5)
    early = await queue.lock(ttl_seconds=60)
    assert (await queue.pop()).ok()["items"] == [2]
    late = await queue.lock(ttl_seconds=120)
    assert (early["items"], late["items"]) == ([1], [3])
    for require_ack in (True, False):
        body = (await queue.pop(require_ack=require_ack)).refused(423, "QUEUE_LOCKED")
        assert body["lock_expires_at"] == early["lock_expires_at"]
    (await queue.acknowledge(early["lock_id"])).ok()
    assert (await queue.lock())["items"] == [4]
    (await queue.acknowledge(late["lock_id"])).ok()
    assert (await queue.pop()).ok()["items"] == [5]


@on_every_stack
async def test_no_item_is_in_two_locks(server: Server) -> None:
    queue = server.queue()
    (await queue.configure(max_locks=10)).ok()
    await queue.push_many(*range(50))
    locks = await asyncio.gather(*(queue.lock(count=7) for _ in range(10)), return_exceptions=True)
    taken: list[Any] = [item for lock in locks if isinstance(lock, dict) for item in lock["items"]]
    assert sorted(taken) == list(range(50))


@on_every_stack
async def test_fewer_locks_than_there_are_end_as_they_would(server: Server) -> None:
    queue = server.queue()
    (await queue.configure(max_locks=3)).ok()
    await queue.push_many(1, 2, 3, 4)
    locks = [await queue.lock() for _ in range(3)]
    (await queue.configure(max_locks=1)).ok()
    for lock in locks:
        (await queue.pop()).refused(423, "QUEUE_LOCKED")
        (await queue.acknowledge(lock["lock_id"])).ok()
    assert (await queue.pop()).ok()["items"] == [4]


# When a lock is over


@on_every_stack
async def test_a_late_answer_stays_410_whatever_happened_to_the_items_since(server: Server) -> None:
    queue = server.queue()
    await queue.push_many("a", "b")
    late = await queue.lock(ttl_seconds=1)
    await expired(late)
    again = await queue.lock()
    assert again["items"] == ["a"]
    for call in (queue.acknowledge, queue.abandon, queue.extend, queue.dead_letter):
        (await call(late["lock_id"])).refused(410, "LOCK_EXPIRED")
    assert (await queue.acknowledge(again["lock_id"])).ok()["items_acknowledged"] == 1
    (await queue.acknowledge(late["lock_id"])).refused(410, "LOCK_EXPIRED")
    assert await queue.drain() == ["b"]


@on_every_stack
async def test_a_lock_that_was_acknowledged_is_not_there_any_more(server: Server) -> None:
    queue = server.queue()
    await queue.push_many(1, 2)
    done = await queue.lock()
    (await queue.acknowledge(done["lock_id"])).ok()
    for call in (queue.acknowledge, queue.abandon, queue.extend, queue.dead_letter):
        (await call(done["lock_id"])).refused(404, "LOCK_NOT_FOUND")
    await queue.lock()
    for call in (queue.acknowledge, queue.abandon, queue.extend, queue.dead_letter):
        (await call(done["lock_id"])).refused(400, "INVALID_LOCK_ID")


@on_every_stack
async def test_the_order_of_the_checks(server: Server) -> None:
    queue = server.queue()
    await queue.push("a")
    taken = await queue.lock(ttl_seconds=1)
    (await queue.send("acknowledge", {})).refused(400, "INVALID_REQUEST")
    await expired(taken)
    # A missing id comes first; then what expired is given back, and there is no lock for an unknown id to differ from.
    (await queue.send("acknowledge", {})).refused(400, "INVALID_REQUEST")
    (await queue.acknowledge("abc123def45")).refused(404, "LOCK_NOT_FOUND")
    (await queue.acknowledge(taken["lock_id"])).refused(410, "LOCK_EXPIRED")
    again = await queue.lock()
    (await queue.acknowledge(taken["lock_id"])).refused(410, "LOCK_EXPIRED")
    (await queue.acknowledge("abc123def45")).refused(400, "INVALID_LOCK_ID")
    (await queue.acknowledge(again["lock_id"])).ok()


@on_every_stack
async def test_every_call_notices_that_a_lock_is_over(server: Server) -> None:
    """The reminder may be late: any call that comes first processes the expiry."""
    views: dict[str, Any] = {
        "stats": lambda queue: _expect(queue, count=1, locked=0),
        "peek": lambda queue: _peeks(queue, ["a"]),
        "in-flight": lambda queue: _in_flight(queue, []),
        "pop": lambda queue: _pops(queue, ["a"]),
        "purge": lambda queue: _purges(queue, 1),
    }
    queues = {name: server.queue(name) for name in views}
    last = 0.0
    for queue in queues.values():
        await queue.push("a")
        last = (await queue.lock(ttl_seconds=1))["lock_expires_at"]
    await past(last)
    for name, look in views.items():
        await look(queues[name])


async def _expect(queue: Queue, **values: Any) -> None:
    stats = await queue.stats()
    assert {name: stats[name] for name in values} == values


async def _peeks(queue: Queue, items: list[Any]) -> None:
    assert (await queue.peek(count=9))["items"] == items


async def _in_flight(queue: Queue, locks: list[Any]) -> None:
    assert await queue.in_flight() == locks


async def _pops(queue: Queue, items: list[Any]) -> None:
    assert (await queue.pop(count=9)).ok()["items"] == items


async def _purges(queue: Queue, count: int) -> None:
    assert (await queue.purge()).ok()["purged"] == count


# Locks that last longer


@on_every_stack
async def test_an_extension_adds_to_what_is_left(server: Server) -> None:
    queue = server.queue()
    await queue.push("a")
    taken = await queue.lock(ttl_seconds=20)
    extended = (await queue.extend(taken["lock_id"], additional_ttl_seconds=15)).ok()
    assert abs(extended["lock_expires_at"] - taken["lock_expires_at"] - 15) < 0.001
    by_default = (await queue.extend(taken["lock_id"])).ok()
    assert abs(by_default["lock_expires_at"] - taken["lock_expires_at"] - 45) < 0.001
    body = (await queue.pop()).refused(423, "QUEUE_LOCKED")
    assert body["lock_expires_at"] == by_default["lock_expires_at"]
    assert (await queue.stored())["metadata"]["_active_lock"]["expires_at"] == by_default["lock_expires_at"]


@on_every_stack
async def test_a_lock_never_lasts_longer_than_300_seconds_from_now(server: Server) -> None:
    queue = server.queue()
    await queue.push("a")
    taken = await queue.lock(ttl_seconds=290)
    for additional in (200, 10**6, 10**30, 10**400):
        before = time.time()
        extended = (await queue.extend(taken["lock_id"], additional_ttl_seconds=additional)).ok()
        assert before + 300 <= extended["lock_expires_at"] <= time.time() + 300


@on_every_stack
async def test_an_extended_lock_does_not_end_when_it_first_would_have(server: Server) -> None:
    queue = server.queue()
    await queue.push("a")
    taken = await queue.lock(ttl_seconds=3)
    extended = (await queue.extend(taken["lock_id"], additional_ttl_seconds=3)).ok()
    await past(taken["lock_expires_at"] + 1)
    (await queue.pop()).refused(423, "QUEUE_LOCKED")
    assert await queue.locked_in_store()
    await past(extended["lock_expires_at"])

    async def given_back() -> bool:
        return not await queue.locked_in_store()

    await eventually(given_back)


# Bulk pushes


@on_every_stack
async def test_a_bulk_push_keeps_its_order_and_gives_an_id_for_each(server: Server) -> None:
    queue = server.queue()
    entries = [{"item": number, "priority": number % 3} for number in range(300)]
    pushed = (await queue.send("push", {"items": entries})).ok()
    assert (pushed["success"], pushed["count"]) == (True, 300)
    assert len(set(pushed["ids"])) == 300
    taken = (await queue.pop(count=100)).ok()
    assert taken["items"] == list(range(0, 300, 3))
    assert [message["id"] for message in taken["messages"]] == pushed["ids"][0::3]
    assert await queue.drain() == [*range(1, 300, 3), *range(2, 300, 3)]


@on_every_stack
async def test_a_bulk_push_of_1000_is_the_most(server: Server) -> None:
    queue = server.queue()
    assert (await queue.push_many(*range(1000))).ok()["count"] == 1000
    (await queue.push_many(*range(1001))).refused(400, "INVALID_REQUEST")
    (await queue.push_many()).refused(400, "INVALID_REQUEST")
    assert (await queue.stats())["count"] == 1000
    assert await queue.drain() == list(range(1000))


@on_every_stack
async def test_a_bulk_push_is_all_or_nothing(server: Server) -> None:
    queue = server.queue()
    bad: list[Any] = [{"priority": 1}, {"item": 1, "priority": -1}, {"item": 1, "priority": "0"}, {"itme": 1}, 7, None]
    for entry in bad:
        body = {"items": [{"item": "good"}, entry, {"item": "good"}]}
        (await queue.send("push", body)).refused(400, "INVALID_REQUEST")
    assert await queue.drain() == []


@on_every_stack
async def test_any_json_value_is_an_item_and_a_missing_one_is_not(server: Server) -> None:
    queue = server.queue()
    values: list[Any] = [None, False, True, 0, "", [], {}, {"item": None}, [None], 0.5, "null"]
    for value in values:
        (await queue.push(value)).ok()
    (await queue.send("push", {})).refused(400, "INVALID_REQUEST")
    (await queue.send("push", {"priority": 1})).refused(400, "INVALID_REQUEST")
    assert await queue.drain() == values


@on_every_stack
async def test_priorities_go_lowest_first_and_inside_each_first_in_first_out(server: Server) -> None:
    queue = server.queue()
    highest = 2**31 - 1
    for item, priority in (("z", highest), ("m1", 10), ("a1", 0), ("m2", 10), ("k", 9), ("a2", 0)):
        (await queue.push(item, priority=priority)).ok()
    assert (await queue.stats())["priorities"] == {"0": 2, "9": 1, "10": 2, str(highest): 1}
    assert await queue.drain() == ["a1", "a2", "k", "m1", "m2", "z"]
