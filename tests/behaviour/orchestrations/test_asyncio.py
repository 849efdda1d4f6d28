"""asyncio in orchestrations: what is left unfinished is cleaned up, and a replay in another process does the same."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import psutil
import pytest

from tests.behaviour.stacks import ALL, KILLED, on_every_stack, on_stacks
from tests.support.runs import Run, delivered
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.rest import Server


async def resumed_elsewhere(server: Server, run: Run) -> None:
    """The instance goes on in another process, which replays its history."""
    await run.waits_for("EventSubscribed")
    await server.stack.kill_app()
    await server.stack.start_app()
    delivered(await run.raise_event("go"))


@on_stacks(*ALL, part=KILLED)
async def test_it_makes_no_difference_when_a_lost_generator_is_collected(server: Server) -> None:
    run = await Run(server).begin("losing_a_generator")
    await resumed_elsewhere(server, run)
    assert await run.output() == "done"
    assert run.effects() == ["lost"]
    # It is closed at the end, and not when the collector of the first process found it.
    assert (await run.types())[-4:] == [
        "EventRaised",
        "ActivityScheduled",
        "ActivityCompleted",
        "OrchestrationCompleted",
    ]


@on_every_stack
async def test_generators_are_closed_at_the_end(server: Server) -> None:
    run = await Run(server).begin("leaving_generators")
    assert await run.output() == "done"
    assert sorted(run.effects()) == ["first", "second"]
    # In the order in which they began.
    scheduled = [event["input"] for event in await run.history() if event["type"] == "ActivityScheduled"]
    assert scheduled == ["second", "first"]


@on_stacks(*ALL, part=KILLED)
async def test_tasks_made_by_their_class_are_known_and_cancelled_at_the_end(server: Server) -> None:
    run = await Run(server).begin("leaving_tasks")
    await resumed_elsewhere(server, run)
    assert await run.output() == [True, [f"Task-{number}" for number in range(2, 6)]]
    assert sorted(run.effects()) == [f"task {number}" for number in range(4)]


@pytest.mark.parametrize("how", ["thread", "path", "asyncio"])
@on_every_stack
async def test_threads_are_refused_where_they_are_called(server: Server, how: str) -> None:
    run = await Run(server).begin("reaching_out", how)
    error = await run.error()
    assert error["type"] == "NotInOrchestrations"
    assert "Do it in an activity" in error["message"]
    assert not (server.stack.folder / f"touched-{run.id}").exists()


@on_stacks(*ALL, part=KILLED)
async def test_its_loop_stays_as_it_is(server: Server) -> None:
    run = await Run(server).begin("meddling")
    await resumed_elsewhere(server, run)
    assert await run.output() == ["close", "stop", -3, -2, -1, "<Task"]


@on_stacks(*ALL, part=KILLED)
async def test_a_process_that_is_stopped_in_a_step_goes_on(server: Server) -> None:
    run = Run(server)
    # The step runs in this call.
    starting = server.begin(run.start("interrupted"))
    await eventually((server.stack.folder / f"in-the-step-{run.id}").exists)
    [app] = [process for process in server.stack.processes if process.name == "app"]
    app.send_signal(signal.SIGSTOP)
    await eventually(lambda: psutil.Process(app.pid).status() == psutil.STATUS_STOPPED)
    # For longer than a step may run.
    await server.stack.pass_time(3)
    app.send_signal(signal.SIGCONT)
    assert (await starting).status == 202
    assert await run.output() == "done"
