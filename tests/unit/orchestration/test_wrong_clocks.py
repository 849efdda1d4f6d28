"""Orchestrations on a host whose clock was a day ahead for one turn."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from holdfast import App, Context
from holdfast.orchestration.actor.actor import orchestration_actor
from holdfast.orchestration.index.instance_index import InstanceIndexActor
from holdfast.orchestration.index.tenant_index import TenantIndexActor
from holdfast.orchestration.recovery.rescuer import RescuerActor
from holdfast.runtime.simulated import VirtualTimeLoop
from tests.support.simulated import InstanceStage, on_simulated_host

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dapr.actor import Actor

DAY = 86400.0
app = App()


@app.orchestration(mailboxes=["mail"])
async def sleeper(ctx: Context) -> str:
    long = asyncio.create_task(asyncio.sleep(DAY / 2, "long"))
    await ctx.receive("mail")
    await ctx.event("go")
    await asyncio.sleep(60)
    ctx.set_status("slept")
    return await long


class Stage(InstanceStage):
    def actors(self) -> Iterable[type[Actor]]:
        return (InstanceIndexActor, TenantIndexActor, RescuerActor, orchestration_actor(app.registry))

    async def tell(self, method: str, **data: Any) -> Any:
        return await self.ask("i", method, **data)

    def step_clock(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)
        loop.step_wall_clock(seconds)


on_stage = on_simulated_host(Stage)


async def _in_which_the_clock_jumps(stage: Stage, *, restarts: bool) -> None:
    await stage.tell("Start", name="sleeper")
    # Far enough for the history, but not for the long timer.
    stage.step_clock(DAY / 4)
    await stage.tell("RaiseEvent", name="mail")
    stage.step_clock(-DAY / 4)
    if restarts:
        stage.host = await stage.host.restarted()
    await stage.tell("RaiseEvent", name="go")
    if restarts:
        stage.host = await stage.host.restarted()
    await asyncio.sleep(59)
    assert (await stage.tell("Status"))["custom_status"] is None
    await asyncio.sleep(3)
    assert (await stage.tell("Status"))["custom_status"] == "slept"
    await asyncio.sleep(DAY / 2 - 120)
    assert (await stage.tell("Status"))["status"] == "RUNNING"
    await asyncio.sleep(120)
    assert (await stage.tell("Status"))["output"] == "long"


@on_stage
async def test_a_sleep_takes_as_long_as_it_says_after_the_clock_was_ahead(stage: Stage) -> None:
    await _in_which_the_clock_jumps(stage, restarts=False)


@on_stage
async def test_a_sleep_takes_as_long_as_it_says_over_restarts_too(stage: Stage) -> None:
    await _in_which_the_clock_jumps(stage, restarts=True)
