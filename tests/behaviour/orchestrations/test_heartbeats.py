"""Heartbeats: their details are saved for the next run, and their answer tells of a cancellation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.behaviour.stacks import ALL, KILLED, on_every_stack, on_stacks
from tests.support.runs import Run, accepted
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.rest import Server

DETAILS = '{"copied":12345678901234567890}'


@on_every_stack
async def test_the_next_attempt_finds_what_the_failed_one_reported(server: Server) -> None:
    run = await Run(server).begin("trying", "copy")
    assert await run.output() == {"copied": 2}
    events = await run.history()
    assert [(event["type"], event["heartbeat_details"]) for event in events if "heartbeat_details" in event] == [
        ("ActivityFailed", {"copied": 2}),
        ("ActivityScheduled", {"copied": 2}),
    ]


@on_stacks(*ALL, part=KILLED)
async def test_a_report_outlives_the_process(server: Server) -> None:
    run = await Run(server).begin("calling", "copy_and_stay")
    place = b'{"execution_id": 1, "scheduled_seq": 2}'

    async def saved() -> bool:
        path = f"/orchestrations/{run.id}/awaited"
        return (await server.request("POST", path, place)).ok().get("heartbeat_details") == DETAILS

    await eventually(saved)
    await server.stack.kill_app()
    await server.stack.start_app()
    assert await run.output() == {"copied": 12345678901234567890}
    assert run.effects() == [None, {"copied": 12345678901234567890}]


@pytest.mark.parametrize("activity", ["beat", "beat_in_thread"])
@on_every_stack
async def test_a_report_hears_at_once_that_it_is_cancelled(server: Server, activity: str) -> None:
    """The lock is renewed every 100 seconds, which is when an activity without reports would hear of it."""
    run = await Run(server).begin("calling", activity)

    async def seen(effects: list[str]) -> bool:
        return run.effects() == effects

    await eventually(lambda: seen(["began"]))
    accepted(await run.tell("cancel"))
    await eventually(lambda: seen(["began", "ended"]))
