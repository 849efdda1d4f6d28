"""Activities and sub-orchestrations that are no longer declared: their caller is BLOCKED, and names its own line."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from holdfast import App, Context
from tests.support.simulated import on_simulated_host
from tests.unit.orchestration.redeployment import Stage


def an_app(*, declared: bool = True, name: str | None = None) -> App:
    app = App()

    async def offspring(ctx: Context) -> Any:
        return await ctx.event("enough")

    async def job() -> None: ...

    if declared:
        app.orchestration(name=name)(offspring)
        app.activity(name=name)(job)

    @app.orchestration
    async def child_caught(ctx: Context) -> Any:
        try:
            return await ctx.sub(offspring, instance_id="the-child")
        except Exception:
            return "caught"

    @app.orchestration
    async def child_cleaned_up(ctx: Context) -> Any:
        try:
            return await ctx.sub(offspring, instance_id="the-child")
        finally:
            await ctx.call("clean_up")

    @app.orchestration
    async def child_in_a_task(ctx: Context) -> Any:
        child = asyncio.create_task(ctx.sub(offspring, instance_id="the-child"))
        await ctx.event("go")
        return await child

    @app.orchestration
    async def child_by_name_cleaned_up(ctx: Context) -> Any:
        try:
            return await ctx.sub(name or "offspring", instance_id="the-child")
        finally:
            await ctx.call("clean_up")

    @app.orchestration
    async def activity_caught(ctx: Context) -> Any:
        try:
            return await ctx.call(job)
        except Exception:
            return "caught"

    @app.orchestration
    async def activity_cleaned_up(ctx: Context) -> Any:
        try:
            return await ctx.call(job)
        finally:
            await ctx.call("clean_up")

    @app.orchestration
    async def never_had_it(ctx: Context) -> Any:
        async def undeclared() -> None: ...

        try:
            return await ctx.call(undeclared)
        except TypeError as error:
            return [str(error), await ctx.call("something else")]

    return app


on_stage = on_simulated_host(partial(Stage, an_app))


CALLERS = [
    "child_caught",
    "child_cleaned_up",
    "child_in_a_task",
    "child_by_name_cleaned_up",
    "activity_caught",
    "activity_cleaned_up",
]


@pytest.mark.parametrize("name", [None, "another_name"])
@pytest.mark.parametrize("caller", CALLERS)
def test_the_missing_definition_and_the_call_are_named(caller: str, name: str | None) -> None:
    async def body(stage: Stage) -> None:
        await stage.begin("i", caller)
        await stage.deploy(an_app(declared=False, name=name))
        reason = await stage.reason("i")
        event, missing, function, call = (
            ("SubOrchestrationScheduled", "missing_child", "offspring", "ctx.sub(")
            if caller.startswith("child")
            else ("ActivityScheduled", "missing_activity", "job", "ctx.call(job")
        )
        place = 3 if caller == "child_in_a_task" else 2
        assert (reason["kind"], reason["expected"]) == (missing, f"event {place}, {event} ({name or function})")
        assert call in reason["line"]
        assert "0x" not in str(reason)
        assert "declare" in reason["message"]
        await stage.deploy()
        assert await stage.status("i") == "RUNNING"

    on_simulated_host(partial(Stage, partial(an_app, name=name)))(body)()


@on_stage
async def test_code_whose_function_was_never_declared_finds_out_by_itself_again_and_again(stage: Stage) -> None:
    await stage.begin("i", "never_had_it")
    [item] = await stage.take()
    await stage.deploy()
    assert await stage.status("i") == "RUNNING"
    await stage.outcome(item, "1")
    output = (await stage.ask("i", "Status"))["output"]
    assert output == ["undeclared is not an activity: declare it with @app.activity.", 1]
