"""Mailboxes that the code no longer declares: the instance is BLOCKED, whatever its code does with the error."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from holdfast import App, Context
from tests.support.simulated import on_simulated_host
from tests.unit.orchestration.redeployment import Stage


def an_app(*mailboxes: str) -> App:
    app = App()

    @app.orchestration(mailboxes=mailboxes)
    async def in_a_task(ctx: Context) -> list[Any]:
        found = []

        async def read() -> None:
            while True:
                found.append(await ctx.receive("box"))

        reader = asyncio.create_task(read())
        await ctx.event("stop")
        reader.cancel()
        return found

    @app.orchestration(mailboxes=mailboxes)
    async def gathered(ctx: Context) -> list[Any]:
        [found, _] = await asyncio.gather(ctx.receive("box"), ctx.event("stop"), return_exceptions=True)
        return [found]

    @app.orchestration(mailboxes=mailboxes)
    async def caught(ctx: Context) -> list[Any]:
        try:
            return [await ctx.receive("box")]
        except Exception:
            await ctx.event("stop")
            return []

    @app.orchestration(mailboxes=mailboxes)
    async def later(ctx: Context) -> list[Any]:
        await ctx.event("go")
        try:
            return [await ctx.receive("box")]
        except Exception:
            return []

    @app.orchestration(mailboxes=mailboxes)
    async def not_read(ctx: Context) -> Any:
        return await ctx.event("go")

    return app


on_stage = on_simulated_host(partial(Stage, partial(an_app, "box")))


async def is_blocked(stage: Stage, instance_id: str = "i") -> dict[str, Any]:
    reason = await stage.reason(instance_id)
    assert (reason["kind"], reason["expected"], reason["found"]) == (
        "undeclared_mailbox",
        "the mailbox box",
        "no mailbox box",
    )
    return reason


@pytest.mark.parametrize("name", ["in_a_task", "gathered", "caught"])
def test_it_is_blocked_whatever_holds_the_error_and_its_mail_is_kept(name: str) -> None:
    async def body(stage: Stage) -> None:
        await stage.begin("i", name)
        await stage.deploy(an_app())
        assert 'ctx.receive("box")' in (await is_blocked(stage))["line"]
        await stage.recorded("i", "RaiseEvent", name="box", data=1)
        await stage.deploy()
        await stage.ask("i", "RaiseEvent", name="stop")
        assert (await stage.ask("i", "Status"))["output"] == [1]

    on_stage(body)()


@on_stage
async def test_mail_for_code_that_has_not_read_any_yet_is_kept(stage: Stage) -> None:
    await stage.begin("i", "later")
    await stage.deploy(an_app())
    assert await stage.status("i") == "RUNNING"
    await stage.recorded("i", "RaiseEvent", name="box", data=1)
    await is_blocked(stage)
    await stage.deploy()
    await stage.recorded("i", "RaiseEvent", name="go")
    assert (await stage.ask("i", "Status"))["output"] == [1]


@on_stage
async def test_code_that_comes_to_its_mailbox_later_is_blocked_there(stage: Stage) -> None:
    await stage.begin("i", "later")
    await stage.deploy(an_app())
    await stage.recorded("i", "RaiseEvent", name="go")
    assert 'await ctx.receive("box")' in (await is_blocked(stage))["line"]
    assert (await stage.types("i"))[-1] == "EventSubscribed"
    await stage.deploy()
    await stage.recorded("i", "RaiseEvent", name="box", data=1)
    assert (await stage.ask("i", "Status"))["output"] == [1]


@on_stage
async def test_mail_that_came_during_a_suspension_is_not_lost_with_its_mailbox(stage: Stage) -> None:
    await stage.begin("i", "later")
    await stage.recorded("i", "Suspend")
    await stage.recorded("i", "RaiseEvent", name="box", data=1)
    await stage.deploy(an_app())
    await is_blocked(stage)
    await stage.deploy()
    await stage.recorded("i", "Resume")
    await stage.recorded("i", "RaiseEvent", name="go")
    assert (await stage.ask("i", "Status"))["output"] == [1]


@on_stage
async def test_a_mailbox_that_nothing_uses_may_go(stage: Stage) -> None:
    await stage.begin("i", "not_read")
    await stage.deploy(an_app())
    await stage.recorded("i", "RaiseEvent", name="go", data="gone")
    assert (await stage.ask("i", "Status"))["output"] == "gone"


@on_stage
async def test_code_that_never_had_its_mailbox_finds_out_by_itself_again_and_again(stage: Stage) -> None:
    await stage.deploy(an_app("another"))
    await stage.begin("i", "caught")
    await stage.deploy(an_app("another"))
    assert await stage.status("i") == "RUNNING"
    await stage.recorded("i", "RaiseEvent", name="stop")
    assert (await stage.ask("i", "Status"))["output"] == []
