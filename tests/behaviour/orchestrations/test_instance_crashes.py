"""``kill -9`` of what instances run on: they go on where they were, and every effect counts once."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from typing import TYPE_CHECKING

from tests.behaviour.orchestrations.test_instances import listed
from tests.behaviour.stacks import ALL, DAPR, KILLED, on_stacks
from tests.support.runs import Run, check_history
from tests.support.stacks.base import CallFailed
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.support.rest import Server

INSTANCES = 100
#: Of activities, by each.
CALLS = 3


async def storm(server: Server, *blows: tuple[Callable[[], Awaitable[None]], Callable[[], Awaitable[None]]]) -> None:
    runs = [Run(server, f"{number:03}") for number in range(INSTANCES)]

    def effects() -> Counter[str]:
        return Counter(
            line["key"] for line in server.stack.effects() if line["instance_id"].startswith(f"{server.name}-")
        )

    starting = [server.begin(_insist(run, number)) for number, run in enumerate(runs)]
    for number, (kill, restart) in enumerate(blows, 1):
        enough = number * INSTANCES * CALLS // (len(blows) + 2)

        async def in_the_middle(enough: int = enough) -> bool:
            return len(effects()) >= enough

        await eventually(in_the_middle, within=60)
        assert len(effects()) < INSTANCES * CALLS, "it was over before it began"
        await kill()
        await restart()
    await asyncio.gather(*starting)
    for number, run in enumerate(runs):
        assert await run.output() == CALLS * number
    for run in runs[:10]:
        check_history(await run.history())
    assert len(effects()) == INSTANCES * CALLS

    async def is_listed() -> bool:
        return {entry["status"] for entry in (await listed(server)).values()} == {"COMPLETED"}

    await eventually(is_listed)
    assert {run.id for run in runs} <= (await listed(server)).keys()


async def _insist(run: Run, number: int) -> None:
    async def started() -> bool:
        return (await run.start("steps", number)).status in (200, 202)

    await eventually(started, within=60)


@on_stacks(*ALL, part=KILLED)
async def test_a_hundred_instances_outlive_what_they_run_on(server: Server) -> None:
    stack = server.stack
    app = (stack.kill_app, stack.start_app)
    await storm(server, *([app, (stack.kill_daprd, stack.start_daprd)] if stack.name in DAPR else [app]))


@on_stacks(*ALL, part=KILLED)
async def test_the_list_is_right_after_a_crash(server: Server) -> None:
    runs = [Run(server, str(number)) for number in range(20)]
    starts = [server.begin(run.start("waiting")) for run in runs]
    await asyncio.wait(starts, return_when=asyncio.FIRST_COMPLETED)
    await server.stack.kill_app()
    await asyncio.gather(*starts, return_exceptions=True)
    await server.stack.start_app()
    there = {run.id for run in runs if await run.is_found()}
    assert there >= {run.id for run, start in zip(runs, starts, strict=True) if start.exception() is None}

    async def right() -> bool:
        return (await listed(server, status="RUNNING")).keys() == there

    await eventually(right)


@on_stacks(*ALL, part=KILLED)
async def test_a_timer_that_falls_due_while_nobody_is_there(server: Server) -> None:
    run = await Run(server).begin("napping", 0.5)
    await server.stack.kill_app()
    await server.stack.start_app()
    assert await run.output() >= 0.5
    assert (await run.types()).count("TimerFired") == 1


@on_stacks(*ALL, part=KILLED)
async def test_an_activity_that_kills_its_worker_each_time(server: Server) -> None:
    run, letters = Run(server), server.queue()
    letters.name = "deadly"
    keeper = server.begin(_restart_whenever_it_dies(server))
    # It may die before the answer is sent.
    with contextlib.suppress(CallFailed):
        await run.begin("calling", "kill_the_worker")
    error = await run.error()
    assert error["type"] == "ActivityFailed"
    failed = next(event for event in await run.history() if event["type"] == "ActivityFailed")
    assert failed["error"]["kind"] == "poison"

    async def buried() -> bool:
        stats = await letters.stats()
        # A worker that died before the instance had recorded the first push was sent the activity twice. The second
        # item may kill the worker between its report of the first one and the dead letter: then there is none.
        pushed_again = stats["counters"]["pushed"] > 1
        return (stats["count"], stats["locked"]) == (0, 0) and (pushed_again or stats["dead_letters"] > 0)

    await eventually(buried, within=60)
    keeper.cancel()
    for letter in await letters.dead_letters():
        assert (letter["item"]["instance_id"], letter["original_queue"]) == (run.id, "deadly")
        assert letter["idempotency_key"] == f"{run.id}:1:2"
    # What was to be sent is sent once more when the process has died, so there may be two of it.
    assert 2 <= len(run.effects()) <= 4


async def _restart_whenever_it_dies(server: Server) -> None:
    while True:
        await server.stack.app_died(within=90)
        await server.stack.start_app()
