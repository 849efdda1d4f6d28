"""Time limits of BLOCKED and of crashed instances: their reminder alone ends them."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from holdfast import App, Context
from tests.support.simulated import on_simulated_host
from tests.unit.orchestration.redeployment import Stage


def an_app() -> App:
    app = App()

    @app.orchestration(timeout_seconds=100)
    async def limited(ctx: Context) -> Any:
        return await ctx.call("work")

    @app.orchestration
    async def parent(ctx: Context) -> Any:
        return await ctx.sub("limited", instance_id="child")

    return app


def without_limited() -> App:
    app = App()
    app.registry.add_orchestration(an_app().registry.orchestration("parent"))
    return app


on_stage = on_simulated_host(partial(Stage, an_app))


async def ended(stage: Stage, instance_id: str) -> dict[str, Any]:
    status: dict[str, Any] = await stage.ask(instance_id, "Status")
    assert status["ended_at"] is not None, status
    return status


@on_stage
async def test_a_blocked_one_fails_at_the_limit_and_its_parent_goes_on(stage: Stage) -> None:
    await stage.begin("parent", "parent")
    await stage.deploy(without_limited())
    assert await stage.status("child") == "BLOCKED"
    await asyncio.sleep(101)
    assert (await ended(stage, "child"))["error"]["kind"] == "timeout"
    assert await stage.types("child") == ["OrchestrationStarted", "ActivityScheduled", "OrchestrationFailed"]
    # Its code is back, and it stays as it is; its parent, which needs that code too, has the message.
    await stage.deploy()
    assert await stage.status("child") == "FAILED"
    error = (await ended(stage, "parent"))["error"]
    assert error["type"] == "SubOrchestrationFailed"
    assert "timeout_seconds are over" in error["message"]


@on_stage
async def test_one_that_is_suspended_while_it_is_blocked_fails_at_the_limit(stage: Stage) -> None:
    await stage.begin("i", "limited")
    await stage.deploy(App())
    await stage.recorded("i", "Suspend")
    await asyncio.sleep(101)
    assert (await ended(stage, "i"))["status"] == "FAILED"


@on_stage
async def test_a_result_that_arrived_while_it_was_blocked_counts_when_its_code_is_back_in_time(stage: Stage) -> None:
    await stage.begin("i", "limited")
    [item] = await stage.take()
    await stage.deploy(App())
    await stage.outcome(item, "7")
    await stage.deploy()
    assert (await ended(stage, "i"))["output"] == 7


@on_stage
async def test_a_limit_that_passes_while_no_process_runs_is_noticed_by_the_next(stage: Stage) -> None:
    await stage.begin("i", "limited")
    storage = stage.host.storage
    await stage.host.stop()
    await asyncio.sleep(1000)
    assert storage.rows
    stage.host = type(stage.host)(storage=storage)
    await stage.start()
    await asyncio.sleep(5)
    assert (await ended(stage, "i"))["error"]["kind"] == "timeout"
