"""Mailboxes with a declared type: what does not fit is refused when it is raised."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest
from pydantic import BaseModel

from holdfast import App, Context
from holdfast.orchestration.boxes import Boxes
from tests.support.simulated import on_simulated_host
from tests.unit.orchestration.redeployment import Stage


class Decision(BaseModel):
    approved: bool


class Stricter(BaseModel):
    approved: bool
    reason: str


def an_app(declared: Any) -> App:
    app = App()

    @app.orchestration(mailboxes=declared)
    async def deciding(ctx: Context) -> list[Any]:
        await ctx.event("go")
        first = await ctx.receive("decisions")
        second: Decision = await ctx.receive("decisions", Decision)
        return [type(first).__name__, second.approved]

    return app


on_stage = on_simulated_host(partial(Stage, partial(an_app, {"decisions": Decision})))


async def decide(stage: Stage, data: Any, event_id: str | None = None) -> Any:
    return await stage.ask("i", "RaiseEvent", name="decisions", data=data, event_id=event_id)


async def is_refused(stage: Stage) -> None:
    answer = await decide(stage, {"approved": "perhaps"}, event_id="wrong")
    assert (answer["success"], answer["error_code"]) == (False, "INVALID_REQUEST")
    assert "the mailbox decisions: approved:" in answer["message"]


@on_stage
async def test_mail_of_the_wrong_shape_is_refused_and_of_the_right_shape_has_the_type(stage: Stage) -> None:
    await stage.begin("i", "deciding")
    await is_refused(stage)
    # Refused, it does not count as received.
    assert (await decide(stage, {"approved": True}, event_id="wrong"))["delivered"]
    await decide(stage, {"approved": False})
    await stage.ask("i", "RaiseEvent", name="go")
    assert (await stage.ask("i", "Status"))["output"] == ["Decision", False]


@on_stage
async def test_it_is_refused_while_suspended_and_while_blocked(stage: Stage) -> None:
    await stage.begin("i", "deciding")
    await stage.ask("i", "Suspend")
    await is_refused(stage)
    await stage.ask("i", "Resume")

    departed = App()

    @departed.orchestration(mailboxes={"decisions": Decision})
    async def deciding(ctx: Context) -> list[Any]:
        await ctx.call("another")
        return []

    await stage.deploy(departed)
    assert await stage.status("i") == "BLOCKED"
    await is_refused(stage)
    assert (await decide(stage, {"approved": True}))["delivered"]
    await stage.deploy()
    await decide(stage, {"approved": False})
    await stage.ask("i", "RaiseEvent", name="go")
    assert (await stage.ask("i", "Status"))["output"] == ["Decision", False]


@on_stage
async def test_mail_that_no_longer_fits_its_mailbox_blocks_the_instance(stage: Stage) -> None:
    await stage.begin("i", "deciding")
    await decide(stage, {"approved": True})
    await decide(stage, {"approved": True})
    await stage.deploy(an_app({"decisions": Stricter}))
    assert await stage.status("i") == "RUNNING"
    answer = await stage.ask("i", "RaiseEvent", name="go")
    assert answer["outcome"] == "recorded"
    reason = await stage.reason("i")
    assert reason["kind"] == "unfit_value"
    assert "reason: Field required" in reason["found"]
    assert "test_typed_mailboxes.py" in reason["line"]
    await stage.deploy()
    assert (await stage.ask("i", "Status"))["output"] == ["Decision", True]


@on_stage
async def test_mail_for_a_missing_orchestration_is_checked_when_its_code_is_back(stage: Stage) -> None:
    await stage.begin("i", "deciding")
    await stage.deploy(App())
    assert (await decide(stage, "anything"))["delivered"]
    assert (await stage.ask("i", "RaiseEvent", name="unheard-of"))["delivered"] is False
    assert (await stage.ask("i", "RaiseEvent", name="go"))["delivered"] is False
    await stage.deploy()
    for approved in (True, False):
        await decide(stage, {"approved": approved})
    assert (await stage.ask("i", "Status"))["output"] == ["Decision", False]


@on_stage
async def test_an_event_is_delivered_when_something_waits_for_it(stage: Stage) -> None:
    await stage.begin("i", "deciding")
    assert (await stage.ask("i", "RaiseEvent", name="stop"))["delivered"] is False
    assert (await decide(stage, {"approved": True}, event_id="1"))["delivered"]
    assert (await decide(stage, {"approved": True}, event_id="1"))["delivered"]
    await stage.ask("i", "Suspend")
    assert (await stage.ask("i", "RaiseEvent", name="go"))["delivered"]
    assert (await stage.ask("i", "RaiseEvent", name="go"))["delivered"] is False
    await stage.ask("i", "Resume")
    await decide(stage, {"approved": True})
    await asyncio.sleep(1)
    late = await stage.ask("i", "RaiseEvent", name="go")
    assert (late["success"], late["error_code"], "delivered" in late) == (False, "CONFLICT", False)


def test_wrong_declarations_are_refused_where_they_are_made() -> None:
    for wrong in ("letters", ["a b"], {"": int}, ["x" * 256]):
        with pytest.raises((TypeError, ValueError)):
            Boxes(wrong)
