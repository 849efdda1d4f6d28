"""Orchestrations on a host whose clock was a day ahead for one turn."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from holdfast import App, Context
from holdfast.kinds import ORCHESTRATION_TYPE
from holdfast.orchestration.actor.actor import orchestration_actor
from holdfast.orchestration.index.instance_index import InstanceIndexActor
from holdfast.orchestration.index.tenant_index import TenantIndexActor
from holdfast.orchestration.recovery.rescuer import RescuerActor
from holdfast.runtime.serialization import dump, load
from holdfast.runtime.simulated import SimulatedHost, VirtualTimeLoop
from tests.support.simulated import staged

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

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


class Stage:
    def __init__(self) -> None:
        self.host = SimulatedHost()

    async def start(self) -> None:
        for actor_class in (InstanceIndexActor, TenantIndexActor, RescuerActor, orchestration_actor(app.registry)):
            await self.host.register(actor_class)
        await self.host.start()

    async def ask(self, method: str, **data: Any) -> Any:
        return load(await self.host.client.invoke_method(ORCHESTRATION_TYPE, "i", method, dump(data or None)))

    def step_clock(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)
        loop.step_wall_clock(seconds)


def on_stage(body: Callable[[Stage], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    return staged(Stage, body)


async def _in_which_the_clock_jumps(stage: Stage, *, restarts: bool) -> None:
    await stage.ask("Start", name="sleeper")
    # Far enough for the history, but not for the long timer.
    stage.step_clock(DAY / 4)
    await stage.ask("RaiseEvent", name="mail")
    stage.step_clock(-DAY / 4)
    if restarts:
        stage.host = await stage.host.restarted()
    await stage.ask("RaiseEvent", name="go")
    if restarts:
        stage.host = await stage.host.restarted()
    await asyncio.sleep(59)
    assert (await stage.ask("Status"))["custom_status"] is None
    await asyncio.sleep(3)
    assert (await stage.ask("Status"))["custom_status"] == "slept"
    await asyncio.sleep(DAY / 2 - 120)
    assert (await stage.ask("Status"))["status"] == "RUNNING"
    await asyncio.sleep(120)
    assert (await stage.ask("Status"))["output"] == "long"


@on_stage
async def test_a_sleep_takes_as_long_as_it_says_after_the_clock_was_ahead(stage: Stage) -> None:
    await _in_which_the_clock_jumps(stage, restarts=False)


@on_stage
async def test_a_sleep_takes_as_long_as_it_says_over_restarts_too(stage: Stage) -> None:
    await _in_which_the_clock_jumps(stage, restarts=True)
