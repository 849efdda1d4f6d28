"""SIGTERM: what a server gives back, and whom it answers, before it ends."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from holdfast import Client
from tests.behaviour.queues.test_long_polls import waiting
from tests.behaviour.stacks import ALL, KILLED, on_stacks
from tests.support.runs import Run
from tests.support.stacks.base import CallFailed
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.rest import Queue, Server


@on_stacks(*ALL, part=KILLED)
async def test_activities_are_given_back_uncounted(server: Server) -> None:
    """Its lock lasts for minutes, and one delivery is allowed: it begins again at once, and is not poison."""
    run = await Run(server).begin("calling", "stay")

    async def held() -> dict[str, tuple[str, Any]]:
        """The items under locks: by which lock, and what is known of each."""
        locks = (await server.request("GET", "/queue/held/in-flight")).ok()["locks"]
        return {message["id"]: (lock["lock_id_prefix"], message) for lock in locks for message in lock["messages"]}

    [(item_id, (lock_id, _))] = (await eventually(held)).items()
    for _ in range(3):
        await eventually(lambda: _began(run))
        try:
            assert await server.stack.stop_app() == 0
        finally:
            await server.stack.start_app()

        async def taken_again(before: str = lock_id) -> Any:
            found = (await held()).get(item_id)
            return found if found is not None and found[0] != before else None

        lock_id, message = await eventually(taken_again)
        assert (message["delivery_count"], message["last_error"]) == (1, "The worker was stopped.")
    assert (await run.status())["status"] == "RUNNING"
    # The restarts did not have it sent again: it is the only one.
    assert list(await held()) == [item_id]
    assert (await server.request("GET", "/queue/held")).ok()["counters"]["pushed"] == 1
    (await run.delete(force=True)).ok()


async def _began(run: Run) -> bool:
    return bool(run.effects())


@on_stacks(*ALL, part=KILLED)
async def test_pops_that_wait_are_answered_and_further_ones_are_refused(server: Server) -> None:
    """A consumer asks again at once, over the connection it has. That does not hold up the stop."""
    queue = server.queue()
    [poll] = await waiting(queue)
    asking = asyncio.create_task(_ask_until_refused(queue, poll))
    async with Client(server.url) as client:
        # Its connection waits for the next request.
        assert (await client.queue(queue.name).stats()).count == 0
        consuming = asyncio.create_task(client.queue(queue.name).consume(_take))
        try:
            assert await server.stack.stop_app() == 0
        finally:
            await server.stack.start_app()
            consuming.cancel()
            await asyncio.gather(consuming, return_exceptions=True)
    assert await asking == 1


async def _ask_until_refused(queue: Queue, poll: asyncio.Task[Any]) -> int:
    """How many pops were answered with nothing before one was refused, or the connection."""
    answered = 0
    try:
        answer = await poll
        while answer.status == 200:
            answered += 1
            answer = await queue.pop(wait_seconds=60)
    except CallFailed:
        return answered
    answer.refused(503, "UNAVAILABLE")
    return answered


async def _take(message: object) -> None: ...
