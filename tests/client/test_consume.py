"""Handlers are given one message each, and stop in order."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import Client, errors
from tests.support.proxy import unavailable
from tests.support.server import Server
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from holdfast.client import Message, Queue
    from tests.support.proxy import FaultyProxy


@asynccontextmanager
async def consuming(queue: Queue, handler: Any, **options: Any) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(queue.consume(handler, **options))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait({task}, timeout=30)
        assert task.done()


async def drained(queue: Queue) -> None:
    async def is_empty() -> bool:
        stats = await queue.stats()
        return (stats.count, stats.locked) == (0, 0)

    await eventually(is_empty, what="the queue is empty and nothing is locked")


async def test_one_lock_means_one_at_a_time_in_their_order(queue: Queue) -> None:
    await queue.push_many(range(30))
    seen: list[int] = []
    running = 0

    async def handler(message: Message) -> None:
        nonlocal running
        running += 1
        assert running == 1
        await asyncio.sleep(0)
        seen.append(message.item)
        running -= 1

    async with consuming(queue, handler, concurrency=8):
        await drained(queue)
    assert seen == list(range(30))


class Crowd:
    """Handlers of which none passes before so many are there."""

    def __init__(self, size: int) -> None:
        self._together = asyncio.Barrier(size)
        self._running = 0
        #: How many there were at once.
        self.most = 0

    async def handle(self, message: Message) -> None:
        self._running += 1
        self.most = max(self.most, self._running)
        await self._together.wait()
        self._running -= 1


async def test_as_many_at_once_as_there_are_locks(queue: Queue) -> None:
    await queue.set_config(max_locks=5)
    await queue.push_many(range(15))
    crowd = Crowd(5)
    async with consuming(queue, crowd.handle, concurrency=8):
        await drained(queue)
    assert crowd.most == 5
    assert (await queue.stats()).counters["acknowledged"] == 15


async def test_no_more_at_once_than_was_asked_for(queue: Queue) -> None:
    await queue.set_config(max_locks=50)
    await queue.push_many(range(12))
    crowd = Crowd(3)
    async with consuming(queue, crowd.handle, concurrency=3):
        await drained(queue)
    assert crowd.most == 3


async def test_two_consumers_share_one_queue_without_sharing_a_message(client: Client, queue: Queue) -> None:
    await queue.set_config(max_locks=6)
    await queue.push_many(range(60))
    seen: list[int] = []

    async def handler(message: Message) -> None:
        seen.append(message.item)

    async with consuming(queue, handler, concurrency=4), consuming(client.queue(queue.name), handler, concurrency=4):
        await drained(queue)
    assert sorted(seen) == list(range(60))


async def test_what_is_pushed_later_is_handled_too(queue: Queue) -> None:
    seen: asyncio.Queue[str] = asyncio.Queue()

    async def handler(message: Message) -> None:
        seen.put_nowait(message.item)

    async with consuming(queue, handler), asyncio.timeout(20):
        for item in ("a", "b", "c"):
            await queue.push(item)
            assert await seen.get() == item


async def test_however_many_are_idle_one_waits_at_the_server(proxy: FaultyProxy, disturbed: Queue) -> None:
    async def handler(message: Message) -> None:
        pass

    async with consuming(disturbed, handler, concurrency=50):
        await disturbed.push_many(range(20))
        await drained(disturbed)
        pop = f"/queue/{disturbed.name}/pop"

        async def settled() -> bool:
            return proxy.running.count(pop) == 1

        await eventually(settled, what="one request waits")


@pytest.mark.parametrize("locks", [1, 4])
async def test_a_failed_handler_gives_back_its_own_message_with_its_error(queue: Queue, locks: int) -> None:
    await queue.set_config(max_locks=locks)
    await queue.push_many(["bad", "good", "good", "good"])
    errors_seen: list[tuple[int, str | None]] = []

    async def handler(message: Message) -> None:
        if message.item == "bad":
            errors_seen.append((message.delivery_count, message.last_error))
            if message.delivery_count < 3:
                raise ValueError(f"attempt {message.delivery_count}")
        else:
            assert message.delivery_count == 1

    async with consuming(queue, handler, concurrency=4):
        await drained(queue)
    assert errors_seen == [(1, None), (2, "ValueError: attempt 1"), (3, "ValueError: attempt 2")]
    assert (await queue.stats()).counters["acknowledged"] == 4


async def test_a_message_that_never_succeeds_becomes_a_dead_letter(client: Client, queue: Queue) -> None:
    await queue.set_config(max_deliveries=3)
    await queue.push_many(["poison", "fine"])

    async def handler(message: Message) -> None:
        if message.item == "poison":
            raise RuntimeError("no")

    async with consuming(queue, handler):
        [letter] = await client.queue(f"{queue.name}-deadletter").pop(wait_seconds=20)
        await drained(queue)
    assert letter.dead_letter is not None
    assert (letter.item, letter.dead_letter["attempts"]) == ("poison", 3)
    assert letter.dead_letter["last_error"] == "RuntimeError: no"


async def test_a_handler_that_is_cancelled_from_inside_has_failed_and_the_next_runs(queue: Queue) -> None:
    await queue.push_many(["odd", "fine"])

    async def handler(message: Message) -> None:
        if message.item == "odd" and message.delivery_count == 1:
            raise asyncio.CancelledError

    async with consuming(queue, handler, concurrency=1) as task:
        await drained(queue)
        assert not task.done()


async def test_on_cancellation_running_handlers_finish_and_nothing_more_is_taken(queue: Queue) -> None:
    await queue.set_config(max_locks=2)
    await queue.push_many(range(10))
    started = asyncio.Semaphore(0)
    finish = asyncio.Event()
    seen: list[int] = []

    async def handler(message: Message) -> None:
        started.release()
        await finish.wait()
        seen.append(message.item)

    task = asyncio.create_task(queue.consume(handler, concurrency=2, grace_seconds=30))
    await started.acquire()
    await started.acquire()
    task.cancel()
    finish.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert sorted(seen) == [0, 1]
    stats = await queue.stats()
    assert (stats.count, stats.locked, stats.counters["acknowledged"]) == (8, 0, 2)


async def test_what_does_not_finish_in_its_time_of_grace_is_given_back(queue: Queue) -> None:
    await queue.push("a")
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def handler(message: Message) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    task = asyncio.create_task(queue.consume(handler, grace_seconds=0.2))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cancelled.is_set()
    [message] = await queue.pop()
    assert (message.delivery_count, message.last_error) == (2, "cancelled")


async def test_a_second_cancellation_ends_the_grace(queue: Queue) -> None:
    await queue.push("a")
    started = asyncio.Event()

    async def handler(message: Message) -> None:
        started.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(queue.consume(handler, grace_seconds=600))
    await started.wait()
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    task.cancel()
    async with asyncio.timeout(20):
        await asyncio.wait({task})
    assert task.cancelled()
    assert (await queue.stats()).count == 1


async def test_a_handler_may_take_longer_than_its_lock_was_made_for(queue: Queue) -> None:
    await queue.push("a")
    done = asyncio.Event()

    async def handler(message: Message) -> None:
        [taken] = await queue.in_flight()

        async def extended() -> bool:
            [lock] = await queue.in_flight()
            return (lock.expires_at - taken.expires_at).total_seconds() >= 2

        await eventually(extended, what="the lock outlives itself")
        done.set()

    async with consuming(queue, handler, ttl_seconds=1):
        await done.wait()
        await drained(queue)
    assert (await queue.stats()).counters["expired"] == 0


async def test_a_handler_whose_lock_is_lost_is_cancelled_and_the_message_comes_again(
    proxy: FaultyProxy, disturbed: Queue, queue: Queue
) -> None:
    proxy.on("/extend-lock", *[unavailable] * 100)
    await queue.push("a")
    ended: list[str] = []

    async def handler(message: Message) -> None:
        if message.delivery_count == 1:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                ended.append("cancelled")
                raise
        ended.append(f"delivery {message.delivery_count}")

    async with consuming(disturbed, handler, ttl_seconds=1):
        await drained(queue)
    assert ended == ["cancelled", "delivery 2"]


async def test_consuming_goes_on_when_the_server_is_back(tmp_path: Path) -> None:
    seen: asyncio.Queue[str] = asyncio.Queue()

    async def handler(message: Message) -> None:
        seen.put_nowait(message.item)

    async with Server(tmp_path) as server, Client(server.url) as client:
        queue = client.queue("orders")
        async with consuming(queue, handler) as task, asyncio.timeout(60):
            await queue.push("before")
            assert await seen.get() == "before"
            await drained(queue)
            await server.kill()
            await server.start()
            await queue.push("after")
            assert await seen.get() == "after"
            assert not task.done()


async def test_what_trying_again_does_not_help_against_ends_it(tmp_path: Path) -> None:
    async def handler(message: Message) -> None:
        raise AssertionError("a message was handled although the client has no token")

    async with Server(tmp_path, "--token", "a-secret-0123456789") as guarded, Client(guarded.url) as stranger:
        with pytest.raises(errors.Unauthorized):
            await stranger.queue("q").consume(handler)


@pytest.mark.parametrize("wrong", [{"concurrency": 0}, {"wait_seconds": 0}])
async def test_limits_that_make_no_sense_are_refused(queue: Queue, wrong: dict[str, Any]) -> None:
    async def handler(message: Message) -> None: ...

    with pytest.raises(ValueError, match="at least 1"):
        await queue.consume(handler, **wrong)


async def test_a_message_that_failed_comes_back_later_and_later(queue: Queue) -> None:
    await queue.set_config(max_locks=4)
    await queue.push_many(["bad", "good"])
    times: list[float] = []
    good = asyncio.Event()

    async def handler(message: Message) -> None:
        if message.item == "good":
            good.set()
            return
        times.append(asyncio.get_running_loop().time())
        if message.delivery_count < 3:
            raise ValueError("not yet")

    async with consuming(queue, handler, retry_delay_seconds=0.4, retry_delay_max_seconds=0.6):
        await asyncio.wait_for(good.wait(), 20)
        await drained(queue)
    assert times[1] - times[0] >= 0.4
    assert times[2] - times[1] >= 0.6


async def test_the_back_off_of_the_queue_takes_the_place_of_the_consumers(queue: Queue) -> None:
    await queue.set_config(retry_delay_seconds=3600)
    await queue.push("bad")

    async def handler(message: Message) -> None:
        raise ValueError("not yet")

    async def delayed() -> bool:
        return (await queue.stats()).delayed == 1

    async with consuming(queue, handler):
        await eventually(delayed)


async def test_more_handlers_than_locks_are_logged_once(queue: Queue, caplog: pytest.LogCaptureFixture) -> None:
    await queue.push_many(range(3))

    async def handler(message: Message) -> None:
        pass

    async with consuming(queue, handler, concurrency=8):
        await drained(queue)
    said = [record.getMessage() for record in caplog.records if "max_locks" in record.getMessage()]
    assert len(said) == 1
    assert "at most 1 of 8 handlers" in said[0]
    caplog.clear()
    await queue.set_config(max_locks=4, partitions=2)
    await queue.push(1)
    async with consuming(queue, handler, concurrency=8):
        await drained(queue)
    assert "max_locks" not in caplog.text
