"""A rerun is there completely or not at all, whichever save the process ends at, and runs nothing twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import App, Context
from holdfast.errors import Unavailable
from holdfast.gateway.orchestration_reruns import Reruns, Wanted
from holdfast.gateway.quotas.creations import InstanceCreations
from holdfast.gateway.quotas.quotas import NO_QUOTAS
from holdfast.orchestration.actor.actor import orchestration_actor
from holdfast.runtime.simulated import VirtualTimeLoop
from holdfast.server import OWN_ACTORS
from holdfast.worker.local_source import LocalWorkSource
from holdfast.worker.worker import Worker
from tests.support.simulated import InstanceStage
from tests.unit.orchestration.test_index_crashes import Host

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dapr.actor import Actor

    from holdfast.gateway.orchestration_reruns import Answer

app = App()
ran: Counter[tuple[str, str]] = Counter()
mended = False


@app.activity
async def charge(instance: str) -> str:
    ran["charge", instance] += 1
    return "charged"


@app.activity
async def pack(instance: str) -> str:
    ran["pack", instance] += 1
    if not mended:
        raise ValueError("jammed")
    return "packed"


@app.orchestration(mailboxes=["letters"])
async def delivery(ctx: Context) -> list[Any]:
    """Its letter is left by its first execution."""
    if ctx.execution_id == 1:
        await ctx.event("go")
        ctx.continue_as_new()
    found = [await ctx.receive("letters"), await ctx.call(charge, ctx.instance_id)]
    return [*found, *await asyncio.gather(ctx.call(pack, ctx.instance_id), ctx.sub(resting))]


@app.orchestration
async def resting(ctx: Context) -> str:
    await asyncio.sleep(1)
    return "rested"


class Stage(InstanceStage):
    def __init__(self) -> None:
        super().__init__()
        self.host = Host(idle_timeout=3600)

    def actors(self) -> Iterable[type[Actor]]:
        return (*OWN_ACTORS, orchestration_actor(app.registry))

    async def surely_rerun(self) -> Answer:
        """Asks until there is an answer, of this process or of the next."""
        while True:
            if self.host.crashed.is_set():
                await self.restart()
            try:
                return await Reruns(self.host.client, InstanceCreations(self.host.client, NO_QUOTAS)).rerun(
                    "default", "source", Wanted(None, "again")
                )
            except Unavailable:
                await asyncio.sleep(0.1)

    async def ended(self, instance_id: str) -> Any:
        """Lets a worker run activities in each process until the instance has ended."""
        while True:
            if self.host.crashed.is_set():
                await self.restart()
            worker = asyncio.create_task(Worker(LocalWorkSource(self.host.client, alone=True), app.registry).run())
            try:
                while not self.host.crashed.is_set():
                    status = await self.ask(instance_id, "Status")
                    if status["ended_at"] is not None:
                        return status
                    await asyncio.sleep(0.5)
            except Unavailable:
                await asyncio.sleep(0.1)
            finally:
                worker.cancel()
                await asyncio.gather(worker, return_exceptions=True)


async def _run(ends_at: int, *, after: bool) -> int:
    global mended
    ran.clear()
    mended = False
    Host.saves = Host.ends_at = 0
    async with Stage() as stage:
        await stage.ask("source", "Start", name="delivery", seed="s")
        await stage.ask("source", "RaiseEvent", name="letters", data="letter")
        await stage.ask("source", "RaiseEvent", name="go")
        source = await stage.ended("source")
        assert source["status"] == "FAILED"
        history = await stage.ask("source", "History")
        await asyncio.sleep(60)
        mended = True
        Host.saves, Host.ends_at, Host.ends_after = 0, ends_at, after
        made = await stage.surely_rerun()
        assert made["instance_id"] == "again"
        assert made["created"] or ends_at
        status = await stage.ended("again")
        saves = Host.saves
        Host.ends_at = 0
        assert status["output"] == ["letter", "charged", "packed", "rested"], (ends_at, status)
        await asyncio.sleep(60)
        assert await stage.ask("source", "History") == history
        assert await stage.ask("source", "Status") == source | {"reruns": ["again"]}
        # The packing names the source, whose step it was. It ran once there, and here once, or after a crash also when
        # it is delivered or sent again.
        assert ran.pop(("pack", "source")) in ((2,) if ends_at == 0 else (2, 3, 4))
        assert ran == {("charge", "source"): 1}, ends_at
        return saves


@pytest.mark.parametrize("after", [False, True], ids=["before a save", "after a save"])
def test_a_rerun_survives_the_end_of_its_process_at_any_save(after: bool) -> None:
    saves = VirtualTimeLoop.run(_run(0, after=after))
    assert saves > 5
    for ends_at in range(1, saves + 1):
        VirtualTimeLoop.run(_run(ends_at, after=after))
