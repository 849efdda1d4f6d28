"""Heartbeats of activities: how often they are sent, what of them is kept, and what they refuse."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

from holdfast import App, Context, Retry, activity_context
from holdfast.errors import TooLarge, Unavailable
from holdfast.runtime.simulated import VirtualTimeLoop
from holdfast.testing import TestEnvironment
from tests.unit.worker.desk import Desk, working

app = App()
refused: list[Exception] = []


@app.activity
async def busy() -> None:
    """Reports a thousand times a second."""
    for number in range(10_000):
        activity_context().heartbeat(number)
        await asyncio.sleep(0.001)
    await asyncio.sleep(5)


@app.activity
async def stay() -> None:
    activity_context().heartbeat("here")
    await asyncio.sleep(3600)


@app.activity
async def resume(step: int = 1) -> Any:
    context = activity_context()
    begin = context.heartbeat_details or 0
    context.heartbeat(begin + step)
    if context.attempt < 3:
        raise ValueError("again")
    return context.heartbeat_details


@app.activity
async def report_nonsense() -> None:
    for details in ("x" * 2047, object(), float("nan")):
        try:
            activity_context().heartbeat(details)
        except (TooLarge, TypeError) as error:
            refused.append(error)


@app.orchestration
async def persistent(ctx: Context) -> Any:
    return await ctx.call(resume, 2, retry=Retry(max_attempts=3))


def test_many_heartbeats_are_sent_once_a_second_and_the_last_one_is_saved() -> None:
    async def run() -> None:
        desk = Desk("default")
        desk.push("activities", "busy", activity="busy")
        async with working(desk, app.registry):
            await asyncio.sleep(14)
        assert len(desk.beats["busy"]) <= 12
        times = [at for at, _ in desk.beats["busy"]]
        assert max(later - earlier for earlier, later in pairwise(times)) < 2
        assert desk.beats["busy"][-1][1] == "9999"

    VirtualTimeLoop.run(run())


def test_a_heartbeat_that_is_not_saved_is_sent_again() -> None:
    async def run() -> None:
        desk = Desk("default")
        desk.failures["heartbeat"] = [Unavailable("It is away.") for _ in range(3)]
        desk.push("activities", "stay", activity="stay")
        async with working(desk, app.registry):
            await asyncio.sleep(10)
            assert [details for _, details in desk.beats["stay"]] == ['"here"']

    VirtualTimeLoop.run(run())


def test_a_worker_that_is_stopped_saves_the_last_heartbeat() -> None:
    async def run() -> None:
        desk = Desk("default")
        desk.push("activities", "busy", activity="busy")
        async with working(desk, app.registry):
            await asyncio.sleep(3.5)
        assert int(desk.beats["busy"][-1][1] or 0) >= 3400
        assert [job.name for job in desk.returned] == ["busy"]

    VirtualTimeLoop.run(run())


def test_an_activity_that_is_not_awaited_any_more_is_cancelled_at_its_next_heartbeat() -> None:
    async def run() -> None:
        desk = Desk("default")
        desk.push("activities", "busy", activity="busy")
        async with working(desk, app.registry):
            await asyncio.sleep(1)
            desk.unwanted.add("busy")
            await asyncio.sleep(1.5)
            assert desk.off == {"busy"}

    VirtualTimeLoop.run(run())


def test_a_failure_reports_the_last_details_and_a_poisonous_activity_those_that_were_saved() -> None:
    async def run() -> None:
        desk = Desk("default")
        desk.push("activities", "failing", activity="resume", heartbeat_details="5")
        desk.beats["poison"].append((0.0, "7"))
        desk.push("activities", "poison", activity="resume", deliveries=6)
        async with working(desk, app.registry):
            failure = await desk.told["failing"]
            poison = await desk.told["poison"]
        assert (failure["error"]["type"], failure["heartbeat_details"]) == ("ValueError", "6")
        assert (poison["error"]["kind"], poison["heartbeat_details"]) == ("poison", "7")

    VirtualTimeLoop.run(run())


def test_details_that_are_too_large_or_no_json_are_refused_in_the_activity() -> None:
    async def run() -> None:
        desk = Desk("default")
        desk.push("activities", "nonsense", activity="report_nonsense")
        async with working(desk, app.registry):
            assert await desk.told["nonsense"] == {"result": "null"}
        assert desk.beats["nonsense"] == []

    VirtualTimeLoop.run(run())
    assert [type(error) for error in refused] == [TooLarge, TypeError, TypeError]
    assert "may have 2048 bytes of JSON; these have 2049" in str(refused[0])


async def test_attempts_in_a_test_environment_find_the_details() -> None:
    with TestEnvironment(app) as environment:
        assert await environment.run(persistent) == 4
