"""An orchestration with ``timeout_seconds``, on every stack."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.behaviour.stacks import on_every_stack
from tests.support.runs import Run, accepted

if TYPE_CHECKING:
    from tests.support.rest import Server


@on_every_stack
async def test_it_cleans_up_and_fails_and_its_child_is_cancelled(server: Server) -> None:
    run = await Run(server).begin("in_a_hurry", "waiting")
    status = await run.ended()
    assert (status["status"], status["custom_status"]) == ("FAILED", 42)
    assert (status["error"]["type"], status["error"]["kind"]) == ("TimeoutError", "timeout")
    events = {event["type"]: event for event in await run.history()}
    assert events["CancelRequested"]["timed_out"] is True
    assert events["OrchestrationStarted"]["deadline"] <= events["CancelRequested"]["timestamp"]
    assert (await run.child.ended())["status"] == "CANCELLED"


@on_every_stack
async def test_one_that_ends_in_time_is_not_touched(server: Server) -> None:
    run = await Run(server).begin("in_a_hurry", "echo")
    assert await run.output() is None
    assert "CancelRequested" not in await run.types()


@on_every_stack
async def test_a_suspended_one_fails_too(server: Server) -> None:
    run = await Run(server).begin("in_a_hurry", "waiting")
    accepted(await run.tell("suspend"))
    assert (await run.error())["kind"] == "timeout"
