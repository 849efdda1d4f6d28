"""Activities: where they run, how they fail, how often they are tried."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.behaviour.stacks import on_every_stack
from tests.support.runs import Run, accepted
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.rest import Server


@on_every_stack
async def test_sync_ones_run_in_threads(server: Server) -> None:
    assert (await (await Run(server).begin("calling", "thread_name")).output()).startswith("activity")


@on_every_stack
async def test_it_is_tried_again_after_longer_and_longer(server: Server) -> None:
    run = await Run(server).begin("trying", "succeed_at_last")
    assert await run.output() == 4
    events = await run.history()
    attempts = [event["attempt"] for event in events if event["type"] == "ActivityScheduled"]
    assert attempts == [1, 2, 3, 4]
    timers = [event for event in events if event["type"] == "TimerCreated"]
    delays = [(_moment(timer["fire_at"]) - _moment(timer["timestamp"])).total_seconds() for timer in timers]
    assert delays == pytest.approx([0.1, 0.2, 0.4], abs=0.002)
    assert [event["type"] for event in events[1:6]] == [
        "ActivityScheduled",
        "ActivityFailed",
        "TimerCreated",
        "TimerFired",
        "ActivityScheduled",
    ]


@pytest.mark.parametrize(
    ("activity", "runs", "failure"),
    [
        ("fail", 4, {"type": "ValueError", "kind": "error", "reason": "it went wrong"}),
        ("refuse", 1, {"type": "NonRetryable", "kind": "error", "reason": "never"}),
        ("take_too_long", 4, {"type": "TimeoutError", "kind": "timeout"}),
    ],
)
@on_every_stack
async def test_it_fails_for_good(server: Server, activity: str, runs: int, failure: dict[str, Any]) -> None:
    run = await Run(server).begin("trying", activity)
    output = await run.output()
    assert output | failure == output
    assert output["activity"] == activity
    assert len(run.effects()) == runs
    assert (await run.types()).count("ActivityFailed") == runs


@on_every_stack
async def test_a_failure_that_is_not_caught_fails_the_orchestration(server: Server) -> None:
    run = await Run(server).begin("calling", "fail")
    error = await run.error()
    assert error["type"] == "ActivityFailed"
    assert "fail" in error["message"]
    assert "it went wrong" in error["message"]
    assert (await run.types())[-2:] == ["ActivityFailed", "OrchestrationFailed"]


@on_every_stack
async def test_a_result_that_is_no_json_is_a_failure(server: Server) -> None:
    run = await Run(server).begin("calling", "give_no_json")
    error = await run.error()
    assert error["type"] == "ActivityFailed"
    assert "JSON" in error["message"]


@on_every_stack
async def test_queues_do_not_wait_for_each_other(server: Server) -> None:
    """A long activity of one queue, and others that have nothing to do, leave the rest as quick as they are."""
    slow = await Run(server, "slow").begin("calling", "linger")

    async def began() -> bool:
        return slow.effects() == ["began"]

    await eventually(began)
    for number in range(5):
        run = await Run(server, str(number)).begin("calling", "thread_name")
        assert await run.output(within=8)
    (await slow.delete(force=True)).ok()


@on_every_stack
async def test_one_that_nobody_waits_for_is_stopped(server: Server) -> None:
    run = await Run(server).begin("calling", "linger")

    async def seen(effects: list[str]) -> bool:
        return run.effects() == effects

    await eventually(lambda: seen(["began"]))
    accepted(await run.tell("cancel"))
    assert (await run.ended())["status"] == "CANCELLED"
    await eventually(lambda: seen(["began", "ended"]))

    async def queue_is_empty() -> bool:
        stats = (await server.request("GET", "/queue/slow")).ok()
        return (stats["count"], stats["locked"], stats["dead_letters"]) == (0, 0, 0)

    await eventually(queue_is_empty)


@on_every_stack
async def test_a_lock_is_extended_while_the_activity_runs(server: Server) -> None:
    """The lock lasts three seconds; no other worker gets the activity, however long it runs."""
    run = await Run(server).begin("calling", "linger")
    began = _moment((await run.status())["created_at"])

    async def extended() -> bool:
        locks = (await server.request("GET", "/queue/slow/in-flight")).ok()["locks"]
        return any(
            lock["items"][0]["instance_id"] == run.id and _moment(lock["expires_at"]) - began > timedelta(seconds=7)
            for lock in locks
        )

    await eventually(extended)
    assert run.effects() == ["began"]
    (await run.delete(force=True)).ok()


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)
