"""Dead letters are redriven and deleted by id, by reason, by error, by time, and all of these together."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.behaviour.queues.test_redrive import letters_of, rejected
from tests.behaviour.stacks import on_every_stack

if TYPE_CHECKING:
    from tests.support.rest import Answer, Queue, Server

WAYS = {"redrive": "redriven", "dead-letters/delete": "deleted"}
both_ways = pytest.mark.parametrize("way", WAYS)


async def fail(queue: Queue, error: str, *items: Any) -> None:
    """Items that end as dead letters, after their only delivery."""
    (await queue.push_many(*items)).ok()
    (await queue.abandon((await queue.lock(count=len(items)))["lock_id"], error=error)).ok()


async def select(queue: Queue, way: str, **selected: Any) -> int:
    answer = (await queue.send(way, selected)).ok()
    assert answer["success"] is True
    assert "more" not in answer
    count: int = answer[WAYS[way]]
    return count


async def left(queue: Queue) -> list[Any]:
    return [letter["item"] for letter in await queue.dead_letters()]


@both_ways
@on_every_stack
async def test_dead_letters_are_selected_by_reason_and_error(server: Server, way: str) -> None:
    queue = server.queue(way.partition("/")[0])
    (await queue.configure(max_deliveries=1)).ok()
    await fail(queue, "TimeoutError: no answer", "slow 1", "slow 2")
    await fail(queue, "ValueError: not an order", "wrong")
    await rejected(queue, "rejected")
    await letters_of(queue, 4)
    assert await select(queue, way, filter={"error_contains": "NotThere"}) == 0
    assert await select(queue, way, filter={"reason": "max_del"}) == 0
    assert await select(queue, way, filter={"reason": "rejected", "error_contains": "Timeout"}) == 0
    assert await select(queue, way, filter={"error_contains": "Timeout"}, max=1) == 1
    assert await left(queue) == ["slow 2", "wrong", "rejected"]
    assert await select(queue, way, filter={"reason": "rejected"}) == 1
    assert await left(queue) == ["slow 2", "wrong"]
    assert await select(queue, way, filter={"reason": "max_deliveries", "error_contains": "not an"}) == 1
    assert await left(queue) == ["slow 2"]
    assert await select(queue, way) == 1
    assert await left(queue) == []
    # Nothing is left: a caller that goes on by cursor has an end.
    done = (await queue.send("redrive", {"filter": {}, "cursor": "0-0-0-0"})).ok()
    assert done == {"success": True, "redriven": 0}
    came_back = sorted(map(str, await queue.drain()))
    assert came_back == (["rejected", "slow 1", "slow 2", "wrong"] if way == "redrive" else [])


@both_ways
@on_every_stack
async def test_dead_letters_are_selected_by_time_and_id(server: Server, way: str) -> None:
    queue = server.queue(way.partition("/")[0])
    letters = await rejected(queue, "a", "b", "c", "d")
    moment = datetime.fromisoformat(letters[0]["dead_lettered_at"])
    assert await select(queue, way, filter={"before": moment.isoformat()}) == 0
    ids = [letter["id"] for letter in letters]
    # Without a zone it is UTC.
    later = (moment + timedelta(seconds=60)).isoformat().removesuffix("+00:00")
    assert await select(queue, way, ids=[ids[1], ids[1], "0-0-77-0"], filter={"before": later}) == 1
    assert await select(queue, way, ids=ids, filter={"before": moment.isoformat()}) == 0
    assert await select(queue, way, filter={"before": later}, max=2) == 2
    assert await left(queue) == ["d"]


@on_every_stack
async def test_deleted_dead_letters_leave_nothing_behind(server: Server) -> None:
    queue, other = server.queue(), server.queue("other")
    (await other.configure(dead_letter_queue=f"{queue.name}-deadletter")).ok()
    await rejected(queue, *range(250))
    await rejected(other, "theirs")
    assert await select(queue, "dead-letters/delete") == 250
    assert await left(queue) == []
    assert await left(other) == ["theirs"]
    shared = server.queue("deadletter")
    stats = await shared.stats()
    assert (stats["count"], stats["counters"]["purged"]) == (1, 250)
    # Called on the dead-letter queue itself, all of its dead letters are meant.
    assert await select(shared, "dead-letters/delete") == 1
    assert not any(key.startswith("segment-") for key in await shared.stored())


@on_every_stack
async def test_selections_that_are_wrong(server: Server) -> None:
    queue = server.queue()
    await rejected(queue, "a")

    async def send(way: str, body: Any) -> Answer:
        return await queue.send(way, body)

    wrong: list[tuple[str, dict[str, Any]]] = [
        ("filter.before", {"filter": {"before": "yesterday"}}),
        ("filter.before", {"filter": {"before": 1700000000}}),
        ("filter.reason", {"filter": {"reason": 1}}),
        ("filter.error_contains", {"filter": {"error_contains": ""}}),
        ("filter.unknown", {"filter": {"unknown": 1}}),
        ("filter", {"filter": []}),
        ("ids", {"ids": []}),
        ("max", {"max": 0}),
        ("cursor", {"cursor": "x"}),
        ("cursor", {"ids": ["0-0-0-0"], "cursor": "0-0-0"}),
        ("original_queue", {"original_queue": "other"}),
    ]
    for way in WAYS:
        for field, body in wrong:
            assert (await send(way, body)).refused(400, "INVALID_REQUEST")["message"].startswith(field)
    # A deletion without a body is more likely a mistake than a wish.
    (await send("dead-letters/delete", b"")).refused(400, "INVALID_REQUEST")
    assert await left(queue) == ["a"]
