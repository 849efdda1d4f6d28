"""A lock is kept while the block runs, and answered for however the block ends."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import Client, errors
from tests.support.proxy import lose_answer, unavailable
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from holdfast.client import Queue
    from tests.support.proxy import FaultyProxy, ProxiedRequest


async def given_back(queue: Queue) -> None:
    async def is_back() -> bool:
        stats = await queue.stats()
        return (stats.count, stats.locked) == (1, 0)

    await eventually(is_back, what="the item is back", within=10)


async def test_leaving_the_block_acknowledges(queue: Queue) -> None:
    await queue.push_many(["a", "b", "c"])
    async with queue.lock(count=2) as batch:
        assert [message.item for message in batch] == ["a", "b"]
        assert len(batch) == 2
        assert batch[1].delivery_count == 1
    stats = await queue.stats()
    assert (stats.count, stats.locked, stats.counters["acknowledged"]) == (1, 0, 2)


async def test_an_empty_queue_gives_a_batch_that_is_false(queue: Queue) -> None:
    async with queue.lock() as batch:
        assert not batch
        assert batch.lock_id is None
        await batch.extend(10)
        await batch.acknowledge()


async def test_an_error_gives_back_and_passes_on(queue: Queue) -> None:
    await queue.push("a")
    with pytest.raises(ZeroDivisionError):
        async with queue.lock():
            _ = 1 / 0
    [message] = await queue.pop()
    assert (message.item, message.delivery_count) == ("a", 2)
    assert message.last_error == "ZeroDivisionError: division by zero"


async def test_an_error_with_a_long_story_gives_back_too(queue: Queue) -> None:
    await queue.push("a")
    with pytest.raises(ValueError, match="x"):
        async with queue.lock():
            raise ValueError("x" * 100_000)
    [message] = await queue.pop()
    assert message.last_error is not None
    assert message.last_error.startswith("ValueError: xxx")


async def test_a_cancellation_gives_back_and_passes_on(queue: Queue) -> None:
    await queue.push("a")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5), queue.lock():
            await asyncio.Event().wait()
    [message] = await queue.pop()
    assert (message.delivery_count, message.last_error) == (2, "cancelled")


@pytest.mark.parametrize("wait_seconds", [0, 20], ids=["at once", "long poll"])
async def test_a_cancellation_gives_back_what_an_answer_on_its_way_holds(
    proxy: FaultyProxy, disturbed: Queue, queue: Queue, wait_seconds: float
) -> None:
    locked = asyncio.Event()

    async def hold_the_answer(crossing: ProxiedRequest) -> Any:
        await crossing.pass_on()
        locked.set()
        return await asyncio.Event().wait()

    proxy.on("/pop", hold_the_answer)
    await queue.push("a")

    async def body() -> None:
        async with disturbed.lock(wait_seconds=wait_seconds):
            raise AssertionError

    task = asyncio.create_task(body())
    await locked.wait()
    assert (await queue.stats()).locked == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    [message] = await queue.pop()
    assert (message.item, message.delivery_count) == ("a", 1)


async def test_a_cancellation_ends_a_pop_whose_items_cannot_be_given_back(proxy: FaultyProxy, disturbed: Queue) -> None:
    asked = asyncio.Event()

    async def never_answer(crossing: ProxiedRequest) -> Any:
        asked.set()
        return await asyncio.Event().wait()

    proxy.on("/pop", never_answer)
    proxy.on("/abandon", *[unavailable] * 10)

    async def body() -> None:
        async with disturbed.lock(wait_seconds=20):
            raise AssertionError

    task = asyncio.create_task(body())
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert proxy.times("/abandon") > 0


async def test_a_second_cancellation_does_not_stop_the_giving_back(
    proxy: FaultyProxy, disturbed: Queue, queue: Queue
) -> None:
    abandoning, go_on = asyncio.Event(), asyncio.Event()

    async def slow(crossing: ProxiedRequest) -> Any:
        abandoning.set()
        await go_on.wait()
        return await crossing.pass_on()

    proxy.on("/abandon", slow)
    await queue.push("a")
    taken = asyncio.Event()

    async def body() -> None:
        async with disturbed.lock():
            taken.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(body())
    await taken.wait()
    task.cancel()
    await abandoning.wait()
    task.cancel()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await queue.stats()).count == 1


async def test_a_cancellation_while_it_acknowledges_does_not_undo_that(
    proxy: FaultyProxy, disturbed: Queue, queue: Queue
) -> None:
    acknowledging, go_on = asyncio.Event(), asyncio.Event()

    async def slow(crossing: ProxiedRequest) -> Any:
        acknowledging.set()
        await go_on.wait()
        return await crossing.pass_on()

    proxy.on("/acknowledge", slow)
    await queue.push("a")

    async def body() -> None:
        async with disturbed.lock():
            pass

    task = asyncio.create_task(body())
    await acknowledging.wait()
    task.cancel()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    stats = await queue.stats()
    assert (stats.count, stats.locked, stats.counters["acknowledged"]) == (0, 0, 1)


async def test_the_lock_is_extended_while_the_block_runs(queue: Queue) -> None:
    await queue.push("a")
    async with queue.lock(ttl_seconds=1) as batch:
        [taken] = await queue.in_flight()

        async def outlived_itself_twice() -> bool:
            locks = await queue.in_flight()
            assert locks, "the lock expired"
            return (locks[0].expires_at - taken.expires_at).total_seconds() >= 2

        await eventually(outlived_itself_twice, what="the lock lasts longer than it was made for")
        assert not batch.lost.is_set()
    stats = await queue.stats()
    assert (stats.counters["acknowledged"], stats.counters["expired"]) == (1, 0)


async def test_a_lock_that_is_lost_is_told_to_the_block_and_raised_at_its_end(
    proxy: FaultyProxy, disturbed: Queue, queue: Queue
) -> None:
    await queue.push("a")
    proxy.on("/extend-lock", *[unavailable] * 100)

    async def body() -> None:
        async with disturbed.lock(ttl_seconds=5) as batch:
            async with asyncio.timeout(20):
                await batch.lost.wait()
            # In time to stop before another consumer can get the items.
            assert batch.seconds_left > 0
            await given_back(queue)

    with pytest.raises(errors.LockExpired):
        await body()
    [message] = await queue.pop()
    assert message.delivery_count == 2


async def test_a_lock_that_the_server_no_longer_knows_is_lost_at_once(queue: Queue) -> None:
    await queue.push("a")

    async def body() -> None:
        async with queue.lock() as batch:
            await queue.abandon(str(batch.lock_id))
            with pytest.raises(errors.LockExpired):
                await batch.extend(10)
            assert batch.lost.is_set()

    with pytest.raises(errors.LockExpired):
        await body()


async def test_an_error_of_the_block_is_not_hidden_by_a_lost_lock(queue: Queue) -> None:
    await queue.push("a")

    async def body() -> None:
        async with queue.lock() as batch:
            await queue.acknowledge(str(batch.lock_id))
            raise KeyError("mine")

    with pytest.raises(KeyError):
        await body()


async def test_explicit_answers_are_given_once(queue: Queue) -> None:
    await queue.push_many(["a", "b", "c"])
    async with queue.lock() as batch:
        await batch.acknowledge()
        await batch.abandon("too late to count")
    async with queue.lock() as batch:
        await batch.abandon("not today")
    [message] = await queue.peek()
    assert (message.item, message.last_error) == ("b", "not today")
    async with queue.lock() as batch:
        await batch.dead_letter("unreadable")
    stats = await queue.stats()
    assert (stats.count, stats.locked, stats.counters["acknowledged"]) == (1, 0, 1)


async def test_a_dead_letter_keeps_its_reason(client: Client, queue: Queue) -> None:
    await queue.push("a")
    async with queue.lock() as batch:
        await batch.dead_letter("unreadable")
    [message] = await client.queue(f"{queue.name}-deadletter").pop(wait_seconds=20)
    assert message.item == "a"
    assert message.dead_letter is not None
    assert message.dead_letter["reason"] == "unreadable"


async def test_an_explicit_extension_counts(queue: Queue) -> None:
    await queue.push("a")
    async with queue.lock(ttl_seconds=30) as batch:
        await batch.extend(100)
        assert 120 < batch.seconds_left <= 130


async def test_locks_by_their_ids(queue: Queue) -> None:
    await queue.set_config(max_locks=3)
    await queue.push_many(["a", "b", "c"])
    async with queue.lock() as first, queue.lock() as second, queue.lock() as third:
        assert await queue.acknowledge(str(first.lock_id)) == 1
        assert await queue.dead_letter(str(second.lock_id), "no") == 1
        before = first.seconds_left
        assert await queue.extend(str(third.lock_id), 60) > before
        assert await queue.abandon(str(third.lock_id), "later") == 1
        for batch in (first, second, third):
            with pytest.raises(errors.LockExpired):
                await batch.acknowledge()


async def test_a_taking_that_is_cancelled_while_it_waits_leaves_no_lock(
    proxy: FaultyProxy, disturbed: Queue, queue: Queue
) -> None:
    async def body() -> None:
        async with disturbed.lock(wait_seconds=60):
            raise AssertionError("there was something to take")

    task = asyncio.create_task(body())

    async def polls() -> bool:
        return proxy.running == [f"/queue/{queue.name}/pop"]

    await eventually(polls, what="the lock waits at the server")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    async def left() -> bool:
        return proxy.running == []

    await eventually(left, what="the request has ended")
    await queue.push("a")
    async with queue.lock(wait_seconds=10) as batch:
        assert [message.item for message in batch] == ["a"]


async def test_what_was_taken_for_a_caller_that_is_cancelled_is_given_back(
    proxy: FaultyProxy, disturbed: Queue, queue: Queue
) -> None:
    taken, go_on = asyncio.Event(), asyncio.Event()

    async def slow(crossing: ProxiedRequest) -> Any:
        answer = await crossing.pass_on()
        taken.set()
        await go_on.wait()
        return answer

    proxy.on("/pop", slow)
    await queue.push("a")

    async def body() -> None:
        async with disturbed.lock(ttl_seconds=300):
            raise AssertionError("it was cancelled before")

    task = asyncio.create_task(body())
    await taken.wait()
    task.cancel()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    await given_back(queue)


async def test_an_acknowledgement_whose_answer_is_lost_counts(
    proxy: FaultyProxy, disturbed: Queue, queue: Queue
) -> None:
    proxy.on("/acknowledge", lose_answer)
    await queue.push("a")
    async with disturbed.lock():
        pass
    assert proxy.times("/acknowledge") == 2
    stats = await queue.stats()
    assert (stats.count, stats.locked, stats.counters["acknowledged"]) == (0, 0, 1)


async def test_so_does_one_while_somebody_else_holds_a_lock(proxy: FaultyProxy, disturbed: Queue, queue: Queue) -> None:
    proxy.on("/acknowledge", lose_answer)
    await queue.set_config(max_locks=2)
    await queue.push_many(["a", "b"])
    async with queue.lock():
        async with disturbed.lock() as batch:
            assert batch[0].item == "b"
        assert (await queue.stats()).counters["acknowledged"] == 1


async def test_an_acknowledgement_is_tried_for_as_long_as_the_lock_lasts(proxy: FaultyProxy, queue: Queue) -> None:
    proxy.on("/acknowledge", *[unavailable] * 3)
    await queue.push("a")
    async with Client(proxy.url, retries=0) as impatient, impatient.queue(queue.name).lock():
        pass
    assert proxy.times("/acknowledge") == 4
    assert (await queue.stats()).counters["acknowledged"] == 1
