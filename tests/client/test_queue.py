"""Putting in, taking out, looking, keeping."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import Client, errors
from tests.support.proxy import unavailable
from tests.support.server import Server
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.client import Queue
    from tests.support.proxy import FaultyProxy


@pytest.mark.parametrize(
    "item",
    [None, True, 0, -1.5, 2**70, "", "2024-01-01", "\u2028 \U0001f600 \x00", [], {}, {"a": [{"b": None}]}],
    ids=repr,
)
async def test_an_item_comes_out_as_it_went_in(queue: Queue, item: Any) -> None:
    await queue.push(item)
    [message] = await queue.pop()
    assert message.item == item
    assert type(message.item) is type(item)


async def test_a_message_says_what_is_known_of_the_item(queue: Queue) -> None:
    pushed = await queue.push({"n": 1}, priority=3, idempotency_key="k-1", tenant_id="acme")
    [message] = await queue.pop()
    assert (message.id, message.priority, message.delivery_count) == (pushed, 3, 1)
    assert (message.idempotency_key, message.tenant_id) == ("k-1", "acme")
    assert (message.last_error, message.dead_letter) == (None, None)
    assert abs(datetime.now(UTC) - message.enqueued_at) < timedelta(minutes=1)


async def test_lowest_priority_first_and_first_in_first_out(queue: Queue) -> None:
    await queue.push_many(["c", "d"], priority=5)
    await queue.push_many(["a", "b"])
    assert [message.item for message in await queue.pop(count=10)] == ["a", "b", "c", "d"]


async def test_many_items_travel_in_requests_of_a_thousand(proxy: FaultyProxy, disturbed: Queue) -> None:
    ids = await disturbed.push_many(range(2001))
    assert proxy.times("/push") == 3
    assert len(set(ids)) == 2001
    assert [message.item for message in await disturbed.peek(100)] == list(range(100))
    assert (await disturbed.stats()).count == 2001


async def test_large_items_travel_in_requests_of_a_few_mebibytes(proxy: FaultyProxy, disturbed: Queue) -> None:
    await disturbed.push_many(f"{number}" + "x" * 900_000 for number in range(9))
    assert proxy.times("/push") == 3
    assert (await disturbed.stats()).count == 9


async def test_what_went_before_a_failure_is_stored_and_named(proxy: FaultyProxy, disturbed: Queue) -> None:
    async def passed(crossing: Any) -> Any:
        return await crossing.pass_on()

    proxy.on("/push", passed, unavailable)
    with pytest.raises(errors.Unavailable) as failure:
        await disturbed.push_many(range(2500))
    assert len(failure.value.details["pushed"]) == 1000
    assert (await disturbed.stats()).count == 1000


async def test_nothing_to_push_is_nothing_pushed(queue: Queue) -> None:
    assert await queue.push_many([]) == []


@pytest.mark.parametrize(
    "item", [object(), float("nan"), [None, {"a": -float("inf")}], "\ud800"], ids=["object", "nan", "inf", "surrogate"]
)
async def test_what_is_not_json_is_refused_before_it_is_sent(
    proxy: FaultyProxy, disturbed: Queue, item: object
) -> None:
    with pytest.raises(errors.InvalidRequest, match="cannot be written as JSON"):
        await disturbed.push(item)
    with pytest.raises(errors.InvalidRequest, match="cannot be written as JSON"):
        await disturbed.push_many([1, item])
    assert proxy.seen == []


async def test_what_only_looks_like_no_number_is_pushed(queue: Queue) -> None:
    items = [[None, "NaN"], {"Infinity": None}, "null"]
    await queue.push_many(items)
    assert [message.item for message in await queue.pop(count=3)] == items


async def test_an_empty_queue_gives_nothing(queue: Queue) -> None:
    assert await queue.pop() == []
    assert await queue.peek() == []


async def test_a_pop_that_waits_gets_what_is_pushed_meanwhile(
    proxy: FaultyProxy, disturbed: Queue, queue: Queue
) -> None:
    waiting = asyncio.create_task(disturbed.pop(wait_seconds=60))

    async def polls() -> bool:
        return len(proxy.running) == 1

    await eventually(polls, what="the pop waits at the server")
    await queue.push("late")
    async with asyncio.timeout(20):
        [message] = await waiting
    assert message.item == "late"


async def test_looking_takes_nothing(queue: Queue) -> None:
    await queue.push_many(["a", "b"])
    [message] = await queue.peek()
    assert (message.item, message.delivery_count) == ("a", 0)
    assert (await queue.stats()).count == 2


async def test_stats_and_in_flight(queue: Queue) -> None:
    await queue.push("a")
    await queue.push("b", priority=2)
    async with queue.lock() as batch:
        stats = await queue.stats()
        assert (stats.queue, stats.count, stats.locked, stats.delayed) == (queue.name, 1, 1, 0)
        assert stats.priorities == {2: 1}
        assert stats.counters["pushed"] == 2
        assert stats.config["max_locks"] == 1
        assert stats.oldest_age_seconds is not None
        [lock] = await queue.in_flight()
        assert lock.count == 1
        assert batch.lock_id is not None
        assert batch.lock_id.startswith(lock.lock_id_prefix)
        assert [message.item for message in lock.messages] == ["a"]
        assert lock.expires_at > datetime.now(UTC)
        [shown] = stats.locks
        assert (shown.lock_id_prefix, shown.expires_at) == (lock.lock_id_prefix, lock.expires_at)
    assert await queue.in_flight() == []


async def test_purge_removes_what_waits_and_not_what_is_locked(queue: Queue) -> None:
    await queue.push_many(range(5))
    async with queue.lock(count=2):
        assert await queue.purge() == 3
        assert (await queue.stats()).locked == 2


async def test_configuration(queue: Queue) -> None:
    assert (await queue.config())["max_locks"] == 1
    changed = await queue.set_config(max_locks=4)
    assert changed["max_locks"] == 4
    assert await queue.config() == changed
    with pytest.raises(errors.InvalidRequest, match="max_locks"):
        await queue.set_config(max_locks=0)


async def test_queues_are_listed_page_by_page(client: Client, name: str) -> None:
    mine = [f"{name}-{letter}" for letter in "abcde"]
    for one in mine:
        await client.queue(one).push(1)

    async def listed() -> bool:
        found = {queue.queue: queue.count async for queue in client.queues(page_size=2)}
        return all(found.get(one) == 1 for one in mine)

    await eventually(listed, what="all five are in the list")


@pytest.mark.parametrize("bad", ["", "a/b", "..", ".hidden", "a b", "x" * 256, "ä"])
async def test_a_name_that_cannot_be_one_is_refused_at_once(client: Client, bad: str) -> None:
    with pytest.raises(errors.InvalidRequest):
        client.queue(bad)


@pytest.mark.parametrize("bad", ["", "127.0.0.1:8080", "ftp://host", "http://", "http://host:port"])
def test_a_url_that_cannot_be_one_is_refused_at_once(bad: str) -> None:
    with pytest.raises(errors.SettingsError):
        Client(bad)


async def test_a_client_that_is_not_open_says_so(server: Server) -> None:
    with pytest.raises(RuntimeError, match="async with"):
        await Client(server.url).queue("q").stats()


async def test_a_server_may_lie_below_a_path(server: Server, name: str) -> None:
    async with Client(server.url + "/elsewhere/") as client:
        with pytest.raises(errors.NotFound):
            await client.queue(name).stats()


async def test_refusals_are_errors_with_their_codes(queue: Queue) -> None:
    await queue.push_many([1, 2])
    async with queue.lock() as batch:
        with pytest.raises(errors.QueueLocked) as locked:
            await queue.pop()
        assert locked.value.error_code == "QUEUE_LOCKED"
        assert locked.value.details["lock_expires_at"] > 0
        with pytest.raises(errors.InvalidLockId):
            await queue.acknowledge("another")
    with pytest.raises(errors.LockNotFound):
        await queue.acknowledge(str(batch.lock_id))
    with pytest.raises(errors.InvalidRequest):
        await queue.push(1, priority=-1)
    with pytest.raises(errors.TooLarge):
        await queue.push("x" * 2_000_000)


async def test_a_token_is_sent_where_it_is_asked_for(tmp_path: Path) -> None:
    async with Server(tmp_path, "--token", "a-secret-0123456789") as guarded:
        async with Client(guarded.url) as stranger:
            with pytest.raises(errors.Unauthorized):
                await stranger.queue("q").push(1)
        async with Client(guarded.url, token="a-secret-0123456789") as friend:
            await friend.queue("q").push(1)
            assert (await friend.queue("q").stats()).count == 1


async def test_a_queue_is_deleted(client: Client, queue: Queue) -> None:
    await queue.set_config(max_locks=3)
    await queue.push_many([1, 2])
    with pytest.raises(errors.Conflict):
        await queue.delete()
    assert await queue.delete(force=True) == 2
    assert (await queue.config())["max_locks"] == 1
    assert queue.name not in [listed.queue async for listed in client.queues()]
    assert await queue.delete() == 0


async def test_dead_letters_are_redriven_and_deleted_by_filter(queue: Queue) -> None:
    await queue.set_config(max_deliveries=1, max_locks=10)
    for error in ("TimeoutError: x", "ValueError: y", "ValueError: z"):
        await queue.push(error)
        with pytest.raises(RuntimeError):
            async with queue.lock():
                raise RuntimeError(error)

    async def all_there() -> bool:
        return len([letter async for letter in queue.dead_letters()]) == 3

    await eventually(all_there)
    now = datetime.now(UTC)
    assert await queue.redrive(reason="max_deliveries", error_contains="Timeout") == 1
    assert await queue.delete_dead_letters(before=now - timedelta(days=1)) == 0
    assert await queue.delete_dead_letters(error_contains="ValueError", limit=1) == 1
    assert [letter.item async for letter in queue.dead_letters()] == ["ValueError: z"]
    assert await queue.delete_dead_letters() == 1
