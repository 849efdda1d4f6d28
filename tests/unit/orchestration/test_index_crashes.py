"""The index has what the instances have, whenever the process ends."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import App, Context
from holdfast.errors import Unavailable
from holdfast.orchestration.actor.actor import orchestration_actor
from holdfast.orchestration.index.finder import counts
from holdfast.orchestration.index.instance_index import InstanceIndexActor
from holdfast.orchestration.index.tenant_index import TenantIndexActor
from holdfast.orchestration.recovery.rescuer import RescuerActor
from holdfast.runtime.simulated import SimulatedHost, VirtualTimeLoop
from tests.support.index_contents import check_stored_index, entries_in_index
from tests.support.simulated import InstanceStage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dapr.actor import Actor

app = App()


@app.orchestration
async def quick(ctx: Context) -> str:
    return "done"


@app.orchestration
async def tagging(ctx: Context) -> None:
    while (tags := await ctx.event("tags")) is not None:
        ctx.set_tags(tags)
    ctx.continue_as_new(None, version="2")


@app.orchestration(name="tagging", version="2")
async def tagging_later(ctx: Context) -> None:
    await ctx.event("never")


class Host(SimulatedHost):
    """Ends before or after one of the saves of all processes."""

    saves = 0
    ends_at = 0
    ends_after = False

    async def _before(self, what: str) -> None:
        if what == "save":
            Host.saves += 1
            if not Host.ends_after:
                await self._end()
        await super()._before(what)

    async def _after(self, what: str) -> None:
        if what == "save" and Host.ends_after:
            await self._end()
        await super()._after(what)

    async def _end(self) -> None:
        if Host.saves == Host.ends_at:
            await self._die()


class Stage(InstanceStage):
    def __init__(self) -> None:
        super().__init__()
        self.host = Host(idle_timeout=3600)

    def actors(self) -> Iterable[type[Actor]]:
        return (InstanceIndexActor, TenantIndexActor, RescuerActor, orchestration_actor(app.registry))

    async def surely(self, instance_id: str, method: str, **data: Any) -> Any:
        """Asks until there is an answer, of this process or of the next."""
        while True:
            if self.host.crashed.is_set():
                await self.restart()
                check_stored_index(self.host.storage.rows)
            try:
                return await self.ask(instance_id, method, **data)
            except Unavailable:
                await asyncio.sleep(0.1)

    async def lives(self) -> None:
        """Starts, tags, ends, deletes and replaces instances."""
        await self.surely("tagged", "Start", name="tagging", version="1", tags={"a": "1"})
        await self.surely("quick", "Start", name="quick")
        await asyncio.sleep(1.5)
        await self.surely("tagged", "RaiseEvent", name="tags", data={"a": "2", "b": "1"}, event_id="1")
        await self.surely("deleted", "Start", name="tagging", version="1")
        await self.surely("replaced", "Start", name="tagging", version="1", seed="before", tags={"a": "1"})
        await self.surely("cancelled", "Start", name="tagging", version="1")
        await asyncio.sleep(0.5)
        await self.surely("cancelled", "Cancel")
        for name in ("deleted", "replaced"):
            await self.surely(name, "Delete", force=True)
        await self.surely("replaced", "Start", name="quick", seed="after")
        await self.surely("tagged", "RaiseEvent", name="tags", data={"a": None}, event_id="2")
        await self.surely("tagged", "RaiseEvent", name="tags", data=None, event_id="3")
        await asyncio.sleep(60)
        await self.surely("tagged", "Status")


async def _run(ends_at: int, *, after: bool) -> int:
    Host.saves, Host.ends_at, Host.ends_after = 0, ends_at, after
    async with Stage() as stage:
        await stage.lives()
        saves = Host.saves
        await asyncio.sleep(60)
        entries = await entries_in_index(stage.host.client)
        assert sorted(entries) == ["cancelled", "quick", "replaced", "tagged"]
        for name, entry in entries.items():
            status = await stage.ask(name, "Status")
            found = (entry.name, entry.version, entry.status, entry.tags, entry.ended_at is not None)
            expected = (
                *(status[field] for field in ("name", "version", "status", "tags")),
                status["ended_at"] is not None,
            )
            assert found == expected, (ends_at, name)
        assert entries["tagged"].version == "2"
        assert entries["tagged"].tags == {"b": "1"}
        assert check_stored_index(stage.host.storage.rows) == len(entries)
        assert await counts(stage.host.client, "default") == {
            "quick": {"COMPLETED": 2},
            "tagging": {"CANCELLED": 1, "RUNNING": 1},
        }
        return saves


@pytest.mark.parametrize("after", [False, True], ids=["before a save", "after a save"])
def test_the_index_is_right_whichever_save_the_process_ends_at(after: bool) -> None:
    saves = VirtualTimeLoop.run(_run(0, after=after))
    assert saves > 20
    for ends_at in range(1, saves + 1):
        VirtualTimeLoop.run(_run(ends_at, after=after))
