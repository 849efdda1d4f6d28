"""Acknowledged delivery over REST: every status and every edge case."""

from __future__ import annotations

import asyncio
import re
import time
from typing import TYPE_CHECKING, Any

from tests.behaviour.clock import expired
from tests.behaviour.stacks import on_every_stack
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.rest import Answer, Server

#: What curl sends of itself when it is given a body with -d and no header.
CURL = {"User-Agent": "curl/8.5.0", "Accept": "*/*", "Content-Type": "application/x-www-form-urlencoded"}


async def curl(server: Server, path: str, data: bytes | None = None) -> Answer:
    headers = CURL if data is not None else {name: CURL[name] for name in ("User-Agent", "Accept")}
    return await server.request("POST", path, data, headers=headers)


# The table of statuses


@on_every_stack
async def test_a_pop_without_acknowledgement_is_200_and_final(server: Server) -> None:
    queue = server.queue()
    await queue.push({"id": 1})
    answer = (await queue.pop()).ok()
    assert (answer["items"], answer["count"]) == ([{"id": 1}], 1)
    assert not {"locked", "lock_id", "lock_expires_at"} & answer.keys()
    assert (await queue.pop()).ok() == {"items": [], "count": 0, "messages": []}
    assert "_active_lock" not in (await queue.stored())["metadata"]


@on_every_stack
async def test_a_pop_with_acknowledgement_is_200_with_a_lock(server: Server) -> None:
    queue = server.queue()
    await queue.push({"id": 1})
    before = time.time()
    taken = (await queue.pop(require_ack=True)).ok()
    assert (taken["items"], taken["count"], taken["locked"]) == ([{"id": 1}], 1, True)
    assert re.fullmatch(r"[A-Za-z0-9_-]{11}", taken["lock_id"])
    assert before + 30 <= taken["lock_expires_at"] <= time.time() + 30


@on_every_stack
async def test_a_pop_of_a_locked_queue_is_423(server: Server) -> None:
    queue = server.queue()
    await queue.push_many(1, 2)
    taken = await queue.lock()
    for require_ack in (True, False):
        body = (await queue.pop(require_ack=require_ack)).refused(423, "QUEUE_LOCKED")
        assert body["lock_expires_at"] == taken["lock_expires_at"]
        assert "lock_id" not in body
    assert (await queue.stats())["count"] == 1


@on_every_stack
async def test_an_acknowledge_is_200_and_the_items_are_gone(server: Server) -> None:
    queue = server.queue()
    await queue.push_many(1, 2, 3)
    taken = await queue.lock(count=2)
    answer = (await queue.acknowledge(taken["lock_id"])).ok()
    assert (answer["success"], answer["items_acknowledged"]) == (True, 2)
    assert isinstance(answer["message"], str)
    assert await queue.drain() == [3]


@on_every_stack
async def test_an_acknowledge_that_comes_too_late_is_410(server: Server) -> None:
    queue = server.queue()
    await queue.push("kept")
    taken = await queue.lock(ttl_seconds=1)
    await expired(taken)
    (await queue.acknowledge(taken["lock_id"])).refused(410, "LOCK_EXPIRED")
    assert await queue.drain() == ["kept"]


@on_every_stack
async def test_an_acknowledge_without_any_lock_is_404(server: Server) -> None:
    queue = server.queue()
    (await queue.acknowledge("abc123def45")).refused(404, "LOCK_NOT_FOUND")
    await queue.push(1)
    (await queue.acknowledge("abc123def45")).refused(404, "LOCK_NOT_FOUND")


@on_every_stack
async def test_an_acknowledge_with_another_lock_id_is_400_and_the_lock_stays(server: Server) -> None:
    queue = server.queue()
    await queue.push("held")
    taken = await queue.lock()
    (await queue.acknowledge("abc123def45")).refused(400, "INVALID_LOCK_ID")
    (await queue.pop()).refused(423, "QUEUE_LOCKED")
    (await queue.acknowledge(taken["lock_id"])).ok()


@on_every_stack
async def test_an_acknowledge_without_a_lock_id_is_400(server: Server) -> None:
    queue = server.queue()
    await queue.push("held")
    taken = await queue.lock()
    for body in ({}, {"lock_id": None}, {"lock_id": ""}):
        (await queue.send("acknowledge", body)).refused(400, "INVALID_REQUEST")
    assert [lock["count"] for lock in await queue.in_flight()] == [1]
    (await queue.acknowledge(taken["lock_id"])).ok()


# The examples, as curl sends them


@on_every_stack
async def test_example_of_the_basic_flow(server: Server) -> None:
    path = f"/queue/{server.name}"
    json_type = CURL | {"Content-Type": "application/json"}
    pushed = b'{"item": {"task_id": 123, "action": "send_email"}}'
    (await server.request("POST", f"{path}/push", pushed, headers=json_type)).ok()
    taken = (await curl(server, f"{path}/pop?require_ack=true")).ok()
    assert taken["items"] == [{"task_id": 123, "action": "send_email"}]
    lock = b'{"lock_id": "%s"}' % taken["lock_id"].encode()
    answer = (await server.request("POST", f"{path}/acknowledge", lock, headers=json_type)).ok()
    assert (answer["success"], answer["items_acknowledged"]) == (True, 1)


@on_every_stack
async def test_example_of_a_lock_that_prevents_a_second_pop(server: Server) -> None:
    path = f"/queue/{server.name}"
    await server.queue().push_many(1, 2)
    taken = (await curl(server, f"{path}/pop?require_ack=true")).ok()
    assert taken["locked"] is True
    body = (await curl(server, f"{path}/pop")).refused(423, "QUEUE_LOCKED")
    assert body["lock_expires_at"] == taken["lock_expires_at"]


@on_every_stack
async def test_example_of_an_expiration(server: Server) -> None:
    path = f"/queue/{server.name}"
    await server.queue().push("again")
    taken = (await curl(server, f"{path}/pop?require_ack=true&ttl_seconds=1")).ok()
    await expired(taken)
    lock = b'{"lock_id": "%s"}' % taken["lock_id"].encode()
    (await curl(server, f"{path}/acknowledge", lock)).refused(410, "LOCK_EXPIRED")
    assert (await curl(server, f"{path}/pop?require_ack=true")).ok()["items"] == ["again"]


@on_every_stack
async def test_example_of_a_pop_as_it_always_was(server: Server) -> None:
    path = f"/queue/{server.name}"
    await server.queue().push_many(1, 2)
    assert (await curl(server, f"{path}/pop")).ok()["items"] == [1]
    assert await server.queue().in_flight() == []
    assert (await curl(server, f"{path}/pop")).ok()["items"] == [2]


@on_every_stack
async def test_a_body_is_json_whatever_its_type_says(server: Server) -> None:
    queue = server.queue()
    for content_type in ("application/x-www-form-urlencoded", "text/plain", "application/json; charset=utf-8", "x"):
        headers = {"Content-Type": content_type}
        body = f'{{"item": "{content_type}"}}'.encode()
        (await server.request("POST", f"/queue/{queue.name}/push", body, headers=headers)).ok()
    (await server.request("POST", f"/queue/{queue.name}/push", b' {"item": "none"}\n')).ok()
    assert (await queue.drain())[-1] == "none"


# The edge cases


@on_every_stack
async def test_a_refused_pop_takes_nothing(server: Server) -> None:
    queue = server.queue()
    await queue.push_many(1, 2, 3)
    taken = await queue.lock()
    for _ in range(3):
        (await queue.pop(require_ack=True, count=10)).refused(423, "QUEUE_LOCKED")
        (await queue.pop(count=10)).refused(423, "QUEUE_LOCKED")
    (await queue.acknowledge(taken["lock_id"])).ok()
    assert await queue.drain() == [2, 3]


@on_every_stack
async def test_items_of_an_expired_lock_are_back_in_their_own_priorities(server: Server) -> None:
    queue = server.queue()
    for item, priority in (("b1", 1), ("a1", 0), ("a2", 0), ("c1", 2), ("b2", 1)):
        (await queue.push(item, priority=priority)).ok()
    taken = await queue.lock(count=4, ttl_seconds=1)
    assert taken["items"] == ["a1", "a2", "b1", "b2"]
    await queue.push("a3", priority=0)
    await queue.push("b3", priority=1)
    await expired(taken)
    (await queue.acknowledge(taken["lock_id"])).refused(410, "LOCK_EXPIRED")
    assert (await queue.stats())["priorities"] == {"0": 3, "1": 3, "2": 1}
    assert await queue.drain() == ["a1", "a2", "a3", "b1", "b2", "b3", "c1"]


@on_every_stack
async def test_a_wrong_lock_id_leaves_the_lock_for_the_right_one(server: Server) -> None:
    queue = server.queue()
    await queue.push_many(1, 2)
    taken = await queue.lock(count=2)
    wrong = taken["lock_id"][:-1] + ("A" if taken["lock_id"][-1] != "A" else "B")
    for call in (queue.acknowledge, queue.abandon, queue.extend, queue.dead_letter):
        (await call(wrong)).refused(400, "INVALID_LOCK_ID")
    assert (await queue.acknowledge(taken["lock_id"])).ok()["items_acknowledged"] == 2


@on_every_stack
async def test_an_empty_queue_gives_no_lock(server: Server) -> None:
    queue = server.queue()
    assert (await queue.pop(require_ack=True)).ok() == {"items": [], "count": 0, "messages": []}
    assert await queue.in_flight() == []
    await queue.push(1)
    assert (await queue.pop()).ok()["items"] == [1]
    assert (await queue.pop(require_ack=True)).ok()["count"] == 0


@on_every_stack
async def test_the_next_pop_takes_what_expired_first(server: Server) -> None:
    queue = server.queue()
    await queue.push_many("a", "b", "c")
    taken = await queue.lock(count=2, ttl_seconds=1)
    await expired(taken)
    again = await queue.lock(count=3)
    assert again["items"] == ["a", "b", "c"]
    assert [message["delivery_count"] for message in again["messages"]] == [2, 2, 1]
    assert again["lock_id"] != taken["lock_id"]


@on_every_stack
async def test_a_plain_pop_takes_what_expired_too(server: Server) -> None:
    queue = server.queue()
    await queue.push_many("a", "b")
    await expired(await queue.lock(ttl_seconds=1))
    assert (await queue.pop(count=2)).ok()["items"] == ["a", "b"]


@on_every_stack
async def test_a_lock_survives_the_deactivation_of_its_actor(server: Server) -> None:
    queue = server.queue()
    await queue.push_many({"id": 1}, {"id": 2})
    taken = await queue.lock(ttl_seconds=120)
    # Reminders keep queues of other tests active. When most of the queues used later are inactive, so is this one.
    later = [server.queue(f"later-{number}") for number in range(40)]
    for other in later:
        await other.push(1)
    active = await _active_queues(server)
    assert active > len(later)

    async def idle() -> bool:
        return await _active_queues(server) < active - len(later) // 2

    await eventually(idle, within=30)
    body = (await queue.pop()).refused(423, "QUEUE_LOCKED")
    assert body["lock_expires_at"] == taken["lock_expires_at"]
    (await queue.acknowledge("abc123def45")).refused(400, "INVALID_LOCK_ID")
    assert (await queue.acknowledge(taken["lock_id"])).ok()["items_acknowledged"] == 1
    assert await queue.drain() == [{"id": 2}]


@on_every_stack
async def test_locks_survive_the_death_of_the_process(server: Server) -> None:
    held, expiring, over = (server.queue(name) for name in ("held", "expiring", "over"))
    for queue in (held, expiring, over):
        await queue.push_many("a", "b", "c")
    before = await over.lock(ttl_seconds=1)
    await expired(before)
    assert await over.drain() == ["a", "b", "c"]
    taken, late = await held.lock(count=2, ttl_seconds=300), await expiring.lock(ttl_seconds=1)
    await server.stack.kill_app()
    await expired(late)
    await server.stack.start_app()
    (await held.pop()).refused(423, "QUEUE_LOCKED")
    (await held.acknowledge("abc123def45")).refused(400, "INVALID_LOCK_ID")
    assert (await held.acknowledge(taken["lock_id"])).ok()["items_acknowledged"] == 2
    assert await held.drain() == ["c"]
    (await expiring.acknowledge(late["lock_id"])).refused(410, "LOCK_EXPIRED")
    assert await expiring.drain() == ["a", "b", "c"]
    (await over.acknowledge(before["lock_id"])).refused(410, "LOCK_EXPIRED")


@on_every_stack
async def test_all_items_of_a_lock_are_acknowledged_together(server: Server) -> None:
    queue = server.queue()
    for number in range(10):
        await queue.push(number, priority=number % 3)
    taken = await queue.lock(count=10)
    assert taken["items"] == [0, 3, 6, 9, 1, 4, 7, 2, 5, 8]
    assert (await queue.acknowledge(taken["lock_id"])).ok()["items_acknowledged"] == 10
    assert (await queue.stats())["count"] == 0


@on_every_stack
async def test_a_time_to_live_is_taken_as_1_to_300_seconds(server: Server) -> None:
    for asked, given in ((-5, 1), (0, 1), (1, 1), (300, 300), (301, 300), (10**30, 300), (-(10**30), 1)):
        queue = server.queue(str(asked))
        await queue.push(1)
        before = time.time()
        taken = await queue.lock(ttl_seconds=asked)
        assert before + given <= taken["lock_expires_at"] <= time.time() + given


@on_every_stack
async def test_only_one_of_many_at_once_gets_the_lock(server: Server) -> None:
    queue = server.queue()
    await queue.push_many(*range(20))
    answers = await asyncio.gather(*(queue.pop(require_ack=True) for _ in range(20)))
    assert sorted(answer.status for answer in answers) == [200] + [423] * 19


# What lies in the store


@on_every_stack
async def test_the_lock_lies_in_the_metadata_as_it_is_drawn(server: Server) -> None:
    queue = server.queue()
    for number, priority in ((1, 0), (2, 1), (3, 0), (4, 1), (5, 1)):
        await queue.push({"id": number}, priority=priority)
    taken = await queue.lock(count=3, ttl_seconds=60)
    metadata = (await queue.stored())["metadata"]
    assert metadata["1"] == 2
    assert metadata.get("0", 0) == 0
    lock = metadata["_active_lock"]
    assert lock["lock_id"] == taken["lock_id"]
    assert [_drawn(entry) for entry in lock["items_with_priority"]] == [
        {"item": {"id": 1}, "priority": 0},
        {"item": {"id": 3}, "priority": 0},
        {"item": {"id": 2}, "priority": 1},
    ]
    assert lock["expires_at"] == taken["lock_expires_at"]
    assert abs(lock["expires_at"] - lock["created_at"] - 60) < 0.001
    (await queue.acknowledge(taken["lock_id"])).ok()
    assert "_active_lock" not in (await queue.stored())["metadata"]


@on_every_stack
async def test_a_lock_expires_in_time_though_nobody_calls(server: Server) -> None:
    queue = server.queue()
    await queue.push_many("a", "b")
    await queue.push("c", priority=1)
    taken = await queue.lock(count=3, ttl_seconds=3)
    assert await queue.locked_in_store()

    async def given_back() -> bool:
        return not await queue.locked_in_store()

    await eventually(given_back, within=10)
    assert time.time() >= taken["lock_expires_at"]
    metadata = (await queue.stored())["metadata"]
    assert (metadata["0"], metadata["1"]) == (2, 1)


def _drawn(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: entry[key] for key in ("item", "priority")}


async def _active_queues(server: Server) -> int:
    status = (await server.request("GET", "/status")).ok()
    counts = {actor["type"]: actor["active"] for actor in status["actors"]}
    return int(counts.get("PushPopActor", 0))
