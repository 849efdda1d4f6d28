"""Requests to suspend a BLOCKED instance: when its code fits again, it is SUSPENDED before its code runs."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast import App, Context
from tests.support.simulated import on_simulated_host
from tests.unit.orchestration.redeployment import Stage

if TYPE_CHECKING:
    import pytest

LETTERS = 1000


def an_app() -> App:
    app = App()

    @app.orchestration
    async def caller(ctx: Context) -> Any:
        found = await ctx.call("work")
        await ctx.call("more work")
        return found

    @app.orchestration
    async def short(ctx: Context) -> Any:
        return await ctx.event("go")

    @app.orchestration(mailboxes=["letters"])
    async def reader(ctx: Context) -> list[Any]:
        return [await ctx.receive("letters") for _ in range(LETTERS + 1)]

    return app


on_stage = on_simulated_host(partial(Stage, an_app))


@on_stage
async def test_what_came_before_it_is_recorded_and_runs_no_code(stage: Stage) -> None:
    await stage.begin("i", "caller")
    [item] = await stage.take()
    await stage.deploy(App())
    await stage.outcome(item, "1")
    await stage.recorded("i", "Suspend", reason="maintenance")
    await stage.deploy()
    assert await stage.status("i") == "SUSPENDED"
    events = (await stage.ask("i", "History"))["events"]
    assert [event["type"] for event in events[2:]] == ["OrchestrationSuspended", "ActivityCompleted"]
    assert events[2]["reason"] == "maintenance"
    await stage.recorded("i", "Resume")
    await asyncio.sleep(2)
    await stage.outcome((await stage.take())[0], "2")
    assert (await stage.ask("i", "Status"))["output"] == 1


def test_it_is_not_dropped_when_a_message_before_it_would_end_the_instance(caplog: pytest.LogCaptureFixture) -> None:
    async def body(stage: Stage) -> None:
        await stage.begin("i", "short")
        await stage.deploy(App())
        await stage.recorded("i", "RaiseEvent", name="go", data=1)
        await stage.recorded("i", "Suspend")
        await stage.deploy()
        assert await stage.status("i") == "SUSPENDED"
        await stage.deploy()
        assert await stage.status("i") == "SUSPENDED"
        await stage.recorded("i", "Resume")
        assert (await stage.ask("i", "Status"))["output"] == 1
        assert "dropped" not in caplog.text

    on_stage(body)()


def test_a_resume_that_comes_after_it_cancels_it(caplog: pytest.LogCaptureFixture) -> None:
    async def body(stage: Stage) -> None:
        await stage.begin("i", "short")
        await stage.deploy(App())
        await stage.recorded("i", "RaiseEvent", name="go", data=1)
        await stage.recorded("i", "Suspend")
        await stage.recorded("i", "Resume")
        await stage.deploy()
        assert (await stage.ask("i", "Status"))["output"] == 1
        assert "dropped" not in caplog.text

    on_stage(body)()


@on_stage
async def test_it_overrules_a_resume_that_came_before_it(stage: Stage) -> None:
    await stage.begin("i", "caller")
    [item] = await stage.take()
    await stage.recorded("i", "Suspend")
    await stage.deploy(App())
    await stage.outcome(item, "1")
    await stage.recorded("i", "Resume")
    await stage.recorded("i", "Suspend")
    await stage.deploy()
    assert await stage.status("i") == "SUSPENDED"
    assert (await stage.types("i"))[2:] == ["OrchestrationSuspended", "ActivityCompleted"]
    await stage.recorded("i", "Resume")
    assert await stage.status("i") == "RUNNING"


@on_stage
async def test_a_second_one_of_a_suspended_instance_leaves_it_suspended(stage: Stage) -> None:
    await stage.begin("i", "short")
    await stage.recorded("i", "Suspend")
    await stage.deploy(App())
    await stage.recorded("i", "Suspend")
    await stage.deploy()
    assert await stage.status("i") == "SUSPENDED"


@on_stage
async def test_a_resume_while_many_messages_are_delivered_comes_after_all_of_them(stage: Stage) -> None:
    await stage.begin("i", "reader")
    await stage.deploy(App())
    for number in range(LETTERS):
        await stage.recorded("i", "RaiseEvent", name="letters", data=number)
    await stage.recorded("i", "Suspend")
    await stage.recorded("i", "RaiseEvent", name="letters", data=LETTERS)
    await stage.deploy(check=False)
    # One turn delivers only some of them.
    await asyncio.gather(stage.ask("i", "Check"), stage.recorded("i", "Resume"))
    await asyncio.sleep(5)
    assert (await stage.ask("i", "Status"))["output"] == list(range(LETTERS + 1))
    assert (await stage.types("i"))[1] == "OrchestrationSuspended"
    last = (await stage.ask("i", "History", cursor=LETTERS))["events"]
    assert [event["type"] for event in last[-3:]] == ["EventRaised", "OrchestrationResumed", "OrchestrationCompleted"]
