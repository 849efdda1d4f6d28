"""Items that cannot be delivered become dead letters, with their reason and history."""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tests.behaviour.clock import expired
from tests.behaviour.stacks import on_every_stack
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.rest import Queue, Server


async def arrived(queue: Queue, count: int) -> Any:
    """The dead letters, once there are so many: they travel after the call that sent them."""

    async def there() -> Any:
        seen = await queue.peek(count=100)
        return seen if seen["count"] >= count else None

    return await eventually(there)


def dead_letters_of(queue: Queue) -> Queue:
    return type(queue)(queue.server, f"{queue.name}-deadletter")


@on_every_stack
async def test_an_item_is_delivered_exactly_max_deliveries_times(server: Server) -> None:
    queue = server.queue()
    (await queue.configure(max_deliveries=3)).ok()
    [item_id] = (await queue.push({"poison": True}, priority=4)).ok()["ids"]
    await queue.push("next", priority=4)
    for attempt in (1, 2, 3):
        taken = await queue.lock()
        assert [(m["id"], m["delivery_count"]) for m in taken["messages"]] == [(item_id, attempt)]
        answer = (await queue.abandon(taken["lock_id"], error=f"attempt {attempt}")).ok()
        assert (answer["items_acknowledged"], answer.get("dead_lettered")) == (1, 1 if attempt == 3 else None)
    # When the answer is there, so is the dead letter.
    assert (await queue.stats())["dead_letters"] == 1
    assert (await queue.pop()).ok()["items"] == ["next"]
    dead = await arrived(dead_letters_of(queue), 1)
    assert dead["items"] == [{"poison": True}]
    [message] = dead["messages"]
    letter = message["dead_letter"]
    assert letter["original_queue"] == queue.name
    assert letter["original_partition"] == 0
    assert letter["original_id"] == item_id
    assert letter["attempts"] == 3
    assert letter["last_error"] == "attempt 3"
    assert message["priority"] == 4


@on_every_stack
async def test_what_is_given_back_uncounted_uses_up_no_delivery(server: Server) -> None:
    queue = server.queue()
    (await queue.configure(max_deliveries=2)).ok()
    await queue.push_many("first", "second")
    for uncounted in (True, True, False, True, True):
        taken = await queue.lock(count=2)
        answer = (await queue.abandon(taken["lock_id"], error="not tried", uncounted=uncounted)).ok()
        assert (answer["items_acknowledged"], answer.get("dead_lettered")) == (2, None)
    waiting = await queue.peek(count=2)
    assert waiting["items"] == ["first", "second"]
    assert [(message["delivery_count"], message["last_error"]) for message in waiting["messages"]] == [
        (1, "not tried"),
        (1, "not tried"),
    ]
    taken = await queue.lock(count=2)
    assert (await queue.abandon(taken["lock_id"])).ok()["dead_lettered"] == 2


@on_every_stack
async def test_deliveries_that_expired_count_too(server: Server) -> None:
    queue = server.queue()
    (await queue.configure(max_deliveries=1)).ok()
    await queue.push_many("a", "b")
    taken = await queue.lock(count=2, ttl_seconds=1)
    await expired(taken)
    (await queue.acknowledge(taken["lock_id"])).refused(410, "LOCK_EXPIRED")
    assert (await queue.pop()).ok()["items"] == []
    assert (await arrived(dead_letters_of(queue), 2))["items"] == ["a", "b"]


@on_every_stack
async def test_ten_deliveries_are_the_most_by_default(server: Server) -> None:
    queue = server.queue()
    await queue.push("stubborn")
    for attempt in range(1, 11):
        taken = await queue.lock()
        assert taken["messages"][0]["delivery_count"] == attempt
        (await queue.abandon(taken["lock_id"])).ok()
    assert (await queue.pop(require_ack=True)).ok()["count"] == 0
    assert (await arrived(dead_letters_of(queue), 1))["items"] == ["stubborn"]


@on_every_stack
async def test_a_lock_can_be_dead_lettered_with_a_reason(server: Server) -> None:
    queue = server.queue()
    pushed = (await queue.send("push", {"item": {"n": 1}, "idempotency_key": "order-1"})).ok()
    await queue.push({"n": 2}, priority=1)
    before = time.time()
    taken = await queue.lock(count=2)
    answer = (await queue.dead_letter(taken["lock_id"], reason="not an order")).ok()
    assert (answer["success"], answer["items_acknowledged"]) == (True, 2)
    assert (await queue.pop()).ok()["items"] == []
    dead = await arrived(dead_letters_of(queue), 2)
    assert dead["items"] == [{"n": 1}, {"n": 2}]
    message = dead["messages"][0]
    assert message["idempotency_key"] == "order-1"
    assert message["dead_letter"]["reason"] == "not an order"
    assert message["dead_letter"]["attempts"] == 1
    assert message["dead_letter"]["original_id"] == pushed["ids"][0]
    moment = datetime.fromisoformat(message["dead_letter"]["dead_lettered_at"])
    assert before - 1 <= moment.timestamp() <= time.time() + 1
    stats = await queue.stats()
    assert (stats["count"], stats["locked"], stats["dead_letters"]) == (0, 0, 2)
    assert stats["counters"]["dead_lettered"] == 2


@on_every_stack
async def test_dead_letters_go_where_the_configuration_says(server: Server) -> None:
    queue, elsewhere = server.queue(), server.queue("elsewhere")
    (await queue.configure(dead_letter_queue=elsewhere.name)).ok()
    await queue.push("a")
    (await queue.dead_letter((await queue.lock())["lock_id"])).ok()
    assert (await arrived(elsewhere, 1))["items"] == ["a"]
    assert (await queue.stats())["dead_letters"] == 1
    assert (await dead_letters_of(queue).stats())["count"] == 0


@on_every_stack
async def test_a_dead_letter_queue_is_a_queue_like_others(server: Server) -> None:
    queue = server.queue()
    (await queue.configure(max_deliveries=1)).ok()
    await queue.push({"exactly": [1.0, "2024-01-01"]})
    (await queue.abandon((await queue.lock())["lock_id"])).ok()
    dead = dead_letters_of(queue)
    await arrived(dead, 1)
    (await dead.configure(max_deliveries=1)).ok()
    for attempt in (1, 2, 3):
        taken = await dead.lock()
        assert taken["items"] == [{"exactly": [1.0, "2024-01-01"]}]
        # It has no dead letters of its own: what is in it stays, however often it is given back.
        assert taken["messages"][0]["delivery_count"] == attempt
        (await dead.abandon(taken["lock_id"])).ok()
    taken = await dead.lock()
    (await dead.dead_letter(taken["lock_id"])).refused(400, "INVALID_REQUEST")
    assert (await dead.acknowledge(taken["lock_id"])).ok()["items_acknowledged"] == 1
    assert (await queue.stats())["dead_letters"] == 0
