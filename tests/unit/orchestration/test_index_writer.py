"""The updates that instances send to their index, and how often they send them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from holdfast import App, Context
from holdfast.kinds import INSTANCE_INDEX_TYPE, ORCHESTRATION_TYPE
from holdfast.orchestration.actor.actor import orchestration_actor
from holdfast.orchestration.index.instance_index import InstanceIndexActor
from holdfast.orchestration.index.tenant_index import TenantIndexActor
from holdfast.orchestration.recovery.rescuer import RescuerActor
from holdfast.runtime.serialization import load
from holdfast.runtime.simulated import VirtualTimeLoop
from tests.support.index_contents import check_stored_index, entries_in_index
from tests.support.simulated import InstanceStage, on_simulated_host

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dapr.actor import Actor

app = App()


@app.orchestration
async def quick(ctx: Context) -> str:
    return "done"


@app.orchestration
async def sleeps(ctx: Context) -> None:
    await asyncio.sleep(24 * 3600)


@app.orchestration
async def waits(ctx: Context) -> Any:
    return await ctx.event("go")


class Stage(InstanceStage):
    def __init__(self) -> None:
        super().__init__(idle_timeout=3600)

    def actors(self) -> Iterable[type[Actor]]:
        return (InstanceIndexActor, TenantIndexActor, RescuerActor, orchestration_actor(app.registry))

    async def listed(self) -> dict[str, str]:
        entries = await entries_in_index(self.host.client)
        assert check_stored_index(self.host.storage.rows) == len(entries)
        return {name: entry.status for name, entry in entries.items()}

    async def names(self) -> dict[str, str]:
        return {name: entry.name for name, entry in (await entries_in_index(self.host.client)).items()}

    async def replace(self, instance_id: str, name: str) -> None:
        """Deletes an instance and starts another of its id in one turn."""
        calls = [("Delete", {"force": True}), ("Start", {"name": name})]
        batch = {"calls": [{"method": method, "data": data} for method, data in calls]}
        await self.ask(instance_id, "Batch", **batch)

    def notes(self) -> float:
        """Turns of the index so far."""
        name = "holdfast_turn_duration_seconds_count"
        return self.host.client.metrics.registry.get_sample_value(name, {"actor_type": INSTANCE_INDEX_TYPE}) or 0.0

    def saved(self, instance_id: str) -> Any:
        row = self.host.storage.rows.get(f"holdfast||{ORCHESTRATION_TYPE}||{instance_id}||instance")
        return None if row is None else load(row[0])


on_stage = on_simulated_host(Stage)


@on_stage
async def test_the_first_is_listed_at_once_and_the_others_together(stage: Stage) -> None:
    names = [f"i-{number}" for number in range(200)]
    await stage.ask(names[0], "Start", name="waits")
    await asyncio.sleep(0.2)
    assert await stage.listed() == {names[0]: "RUNNING"}
    before = stage.notes()
    await asyncio.gather(*(stage.ask(name, "Start", name="waits") for name in names[1:]))
    await asyncio.gather(*(stage.ask(name, "RaiseEvent", name="go") for name in names))
    await asyncio.sleep(5)
    noted = stage.notes() - before
    assert await stage.listed() == dict.fromkeys(names, "COMPLETED")
    # Two or three a shard, however many instances, and however often each has changed.
    assert noted <= 60


@on_stage
async def test_what_a_crash_kept_from_the_index_its_reminder_tells(stage: Stage) -> None:
    await stage.ask("i", "Start", name="waits")
    await asyncio.sleep(0.2)
    # The process ends right after the instance, before the index is updated.
    await stage.ask("i", "RaiseEvent", name="go")
    stage.host = await stage.host.restarted()
    assert await stage.listed() == {"i": "RUNNING"}
    # A status call in between leaves the update to the instance's reminder.
    assert (await stage.ask("i", "Status"))["status"] == "COMPLETED"
    await asyncio.sleep(30)
    assert await stage.listed() == {"i": "COMPLETED"}
    assert stage.saved("i")["indexed_as"].startswith("COMPLETED ")


@on_stage
async def test_nothing_is_left_of_a_deleted_one(stage: Stage) -> None:
    await stage.ask("i", "Start", name="waits")
    await asyncio.sleep(2)
    assert await stage.listed() == {"i": "RUNNING"}
    await stage.ask("i", "Delete", force=True)
    await asyncio.sleep(60)
    assert await stage.listed() == {}
    assert not [key for key in stage.host.storage.rows if f"{ORCHESTRATION_TYPE}||i||" in key]


@on_stage
async def test_one_that_ended_and_left_memory_is_deleted_from_the_list_too(stage: Stage) -> None:
    await stage.ask("i", "Start", name="quick")
    await asyncio.sleep(30)
    assert await stage.listed() == {"i": "COMPLETED"}
    stage.host = await stage.host.restarted()
    await stage.ask("i", "Delete")
    await asyncio.sleep(60)
    assert await stage.listed() == {}


@on_stage
async def test_one_that_is_deleted_before_the_index_knows_it_is_not_listed(stage: Stage) -> None:
    for number in range(40):
        await stage.ask(f"i-{number}", "Start", name="waits")
        await stage.ask(f"i-{number}", "Delete", force=True)
    await asyncio.sleep(60)
    assert await stage.listed() == {}


@on_stage
async def test_whoever_looks_does_not_put_the_listing_off(stage: Stage) -> None:
    # The index hears nothing: the process ends too early for that.
    await stage.ask("i", "Start", name="sleeps")
    stage.host = await stage.host.restarted()
    assert (await stage.ask("i", "Status"))["status"] == "RUNNING"
    await asyncio.sleep(60)
    assert await stage.listed() == {"i": "RUNNING"}


@on_stage
async def test_one_that_takes_the_id_of_another_in_one_turn_is_listed_under_its_own_name(stage: Stage) -> None:
    await stage.ask("i", "Start", name="waits")
    await asyncio.sleep(2)
    await stage.replace("i", "sleeps")
    await asyncio.sleep(10)
    assert await stage.names() == {"i": "sleeps"}


@on_stage
async def test_one_that_takes_the_id_of_another_is_listed_although_the_clock_was_put_back(stage: Stage) -> None:
    await stage.ask("i", "Start", name="waits")
    await asyncio.sleep(2)
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    loop.step_wall_clock(-3600)
    await stage.replace("i", "sleeps")
    await stage.ask("i", "Delete", force=True)
    await stage.ask("i", "Start", name="waits")
    await stage.replace("i", "sleeps")
    await asyncio.sleep(10)
    assert await stage.names() == {"i": "sleeps"}


@on_stage
async def test_one_that_takes_the_id_of_another_is_listed_after_a_crash_before_the_index_was_told(stage: Stage) -> None:
    for name in ("in-one-turn", "in-two"):
        await stage.ask(name, "Start", name="waits")
    await asyncio.sleep(2)
    await stage.replace("in-one-turn", "sleeps")
    await stage.ask("in-two", "Delete", force=True)
    await stage.ask("in-two", "Start", name="sleeps")
    stage.host = await stage.host.restarted()
    await asyncio.sleep(60)
    assert await stage.names() == {"in-one-turn": "sleeps", "in-two": "sleeps"}
