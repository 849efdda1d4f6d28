"""The ack table, row by row: the app crashes right before a save, or right after it and before the answer.

Calls without an answer are repeated; the history has each effect once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.behaviour import crash_points
from tests.behaviour.stacks import ALL, KILLED, on_stacks
from tests.support.runs import ACTOR_TYPE, Run, accepted, delivered
from tests.support.stacks.base import CallFailed
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from tests.support.rest import Answer, Server

BEFORE, AFTER = "before", "after"

around_the_save = pytest.mark.parametrize("when", [BEFORE, AFTER])


def crash_at(run: Run, event: str, when: str) -> None:
    """When the save of this instance's first event of that type comes."""
    crash_points.arm(run.server.stack.folder, ACTOR_TYPE, run.id, when, holding=f'"{event}"')


async def crash_and_restart(server: Server) -> None:
    await server.stack.app_died()
    await server.stack.start_app()


async def is_not_answered(call: Awaitable[Answer]) -> None:
    with pytest.raises(CallFailed):
        await call


async def is_empty(server: Server, queue: str) -> bool:
    stats: Any = (await server.request("GET", f"/queue/{queue}")).ok()
    return (stats["count"], stats["locked"], stats["delayed"]) == (0, 0, 0)


@around_the_save
@on_stacks(*ALL, part=KILLED)
async def test_start(server: Server, when: str) -> None:
    run = Run(server)
    crash_at(run, "OrchestrationStarted", when)
    await is_not_answered(run.start("countdown", 0))
    await crash_and_restart(server)
    assert await run.is_found() is (when == AFTER)
    again = await run.start("countdown", 0)
    assert (again.status, again.body["created"]) == ((202, True) if when == BEFORE else (200, False))
    assert await run.output() == {"execution_id": 1}
    assert await run.types() == [
        "OrchestrationStarted",
        "ActivityScheduled",
        "ActivityCompleted",
        "OrchestrationCompleted",
    ]
    assert len(run.effect_keys()) == 1


@around_the_save
@on_stacks(*ALL, part=KILLED)
async def test_completion_of_an_activity(server: Server, when: str) -> None:
    run = Run(server)
    crash_at(run, "ActivityCompleted", when)
    _release(run)
    await run.begin("calling", "hold")
    await crash_and_restart(server)
    assert await run.output() == "held"
    assert (await run.types()).count("ActivityCompleted") == 1
    await eventually(lambda: is_empty(server, "acked"))
    # What was not saved is done again, for the same key.
    _check_effects(run, at_least=2 if when == BEFORE else 1)


@around_the_save
@on_stacks(*ALL, part=KILLED)
async def test_worker_item(server: Server, when: str) -> None:
    """The instance knows of the completion; the item is on its way off the queue."""
    run = await Run(server).begin("calling", "hold")

    async def held() -> bool:
        return run.effects() == ["held"]

    await eventually(held)
    crash_points.arm(server.stack.folder, "PushPopActor", "acked", when, lacking='"_active_lock"')
    _release(run)
    await crash_and_restart(server)
    assert await run.output() == "held"
    assert (await run.types()).count("ActivityCompleted") == 1
    await eventually(lambda: is_empty(server, "acked"))
    _check_effects(run, at_least=1)


@around_the_save
@on_stacks(*ALL, part=KILLED)
async def test_timer(server: Server, when: str) -> None:
    run = Run(server)
    crash_at(run, "TimerFired", when)
    await run.begin("napping", 0.2)
    await crash_and_restart(server)
    assert await run.output() >= 0.2
    assert await run.types() == ["OrchestrationStarted", "TimerCreated", "TimerFired", "OrchestrationCompleted"]


@around_the_save
@on_stacks(*ALL, part=KILLED)
async def test_completion_of_a_child(server: Server, when: str) -> None:
    run = Run(server)
    crash_at(run, "SubOrchestrationCompleted", when)
    await run.begin("parent", "echo")
    await crash_and_restart(server)
    assert await run.output() is None
    expected = ["SubOrchestrationScheduled", "SubOrchestrationCompleted"]
    assert await run.types() == ["OrchestrationStarted", *expected, "OrchestrationCompleted"]
    assert await run.child.types() == ["OrchestrationStarted", "OrchestrationCompleted"]


@around_the_save
@on_stacks(*ALL, part=KILLED)
async def test_external_event(server: Server, when: str) -> None:
    run = await Run(server).begin("reading", 1)
    crash_at(run, "EventRaised", when)
    await is_not_answered(run.raise_event("letters", "a", event_id="first"))
    await crash_and_restart(server)
    assert (await run.types()).count("EventRaised") == (1 if when == AFTER else 0)
    delivered(await run.raise_event("letters", "a", event_id="first"))
    assert (await run.types()).count("EventRaised") == 1
    delivered(await run.raise_event("go"))
    assert await run.output() == ["a"]


@on_stacks(*ALL, part=KILLED)
async def test_what_changes_nothing_is_acknowledged_without_a_save(server: Server) -> None:
    """A crash is armed at the next save of any kind: the app goes on running, so there was no save."""
    run = await Run(server).begin("waiting")

    async def at_rest() -> bool:
        stored = await server.stack.stored(ACTOR_TYPE, run.id)
        return bool((stored["instance"]["indexed_as"] or "").startswith("RUNNING "))

    await eventually(at_rest)
    crash_points.arm(server.stack.folder, ACTOR_TYPE, run.id, BEFORE)
    answer = await run.start("waiting")
    assert (answer.status, answer.body["created"]) == (200, False)
    delivered(await run.raise_event("nobody-waits", 1), is_so=False)
    for execution_id, scheduled_seq in ((1, 2), (1, 99), (2, 2)):
        accepted(await run.tell("outcome", of="activity", execution_id=execution_id, scheduled_seq=scheduled_seq))
    accepted(await run.tell("resume"))
    assert (await run.status())["events"] == 2
    await is_not_answered(run.raise_event("go", 1))
    await crash_and_restart(server)
    delivered(await run.raise_event("go", 2))
    assert await run.output() == 2


def _check_effects(run: Run, at_least: int) -> None:
    [(key, times)] = run.effect_keys().items()
    assert key == f"{run.id}:1:2"
    # What was to be sent may be sent once more when the process has died.
    assert at_least <= times <= at_least + 1


def _release(run: Run) -> None:
    (run.server.stack.folder / f"released-{run.id}").touch()
