"""Retention: ended instances are deleted with all that belongs to them, and a store under steady load stays flat."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import App, Context
from holdfast.gateway.orchestration_reruns import Reruns, Wanted
from holdfast.gateway.quotas.creations import InstanceCreations
from holdfast.gateway.quotas.quotas import NO_QUOTAS
from holdfast.idempotency.interface import record_id
from holdfast.kinds import IDEMPOTENCY_TYPE, INSTANCE_INDEX_TYPE, ORCHESTRATION_TYPE
from holdfast.orchestration.actor.actor import orchestration_actor
from holdfast.orchestration.index.instance_index import SHARDS
from holdfast.runtime.simulated import Faults
from holdfast.server import OWN_ACTORS
from holdfast.worker.local_source import LocalWorkSource
from holdfast.worker.worker import Worker
from tests.support.simulated import InstanceStage, on_simulated_host

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from dapr.actor import Actor

HOUR = 3600.0
KEPT = 1800.0

app = App()


@app.activity(idempotent=True)
async def charge(number: int) -> int:
    return number


@app.activity
async def ship(number: int) -> int:
    if number % 7 == 0:
        raise ValueError("no room")
    return number


@app.orchestration
async def packing(ctx: Context, number: int) -> int:
    ctx.set_status("x" * 2000)
    return await ctx.call(ship, number)


@app.orchestration(mailboxes=["notes"])
async def delivery(ctx: Context, number: int) -> int:
    """A bit of everything, over two executions."""
    ctx.set_tags({"number": str(number)})
    if ctx.execution_id == 1:
        await asyncio.gather(ctx.call(charge, number), asyncio.sleep(5))
        ctx.continue_as_new(number)
    await ctx.receive("notes")
    await ctx.sub(packing, number + 1, detached=True)
    try:
        return await ctx.sub(packing, number)
    except Exception:
        return -1


@app.orchestration(retention_seconds=60)
async def short(ctx: Context) -> None:
    await ctx.call(charge, 1)


@app.orchestration(retention_seconds=1e9)
async def for_good(ctx: Context) -> None: ...


@app.orchestration
async def waiting(ctx: Context) -> Any:
    return await ctx.event("go")


#: How often the code of an instance began, by its id.
begun: Counter[str] = Counter()


@app.orchestration(retention_seconds=0.001)
async def fleeting(ctx: Context) -> str:
    if not ctx.is_replaying:
        begun[ctx.instance_id] += 1
    return "done"


@app.orchestration
async def parent_of_fleeting(ctx: Context) -> Any:
    detached = await ctx.sub(fleeting, instance_id="detached", detached=True)
    awaited = await ctx.sub(fleeting, instance_id="awaited")
    await ctx.event("go")
    return [detached, awaited]


@app.orchestration
async def parent_of_many_fleeting(ctx: Context, number: int) -> list[str]:
    """Their starts are together too large for the parent's head."""
    return await asyncio.gather(*(ctx.sub(fleeting, instance_id=f"child-{place}") for place in range(number)))


class Stage(InstanceStage):
    retention: float | None = KEPT

    def actors(self) -> Iterable[type[Actor]]:
        return (*OWN_ACTORS, orchestration_actor(app.registry, retention_seconds=self.retention))

    async def begin(self, instance_id: str, name: str, given: Any = None) -> None:
        assert (await self.ask(instance_id, "Start", name=name, input=given))["created"]

    async def exists(self, instance_id: str) -> bool:
        return (await self.ask(instance_id, "Status")).get("success", True) is not False

    async def status(self, instance_id: str) -> str:
        return str((await self.ask(instance_id, "Status"))["status"])

    def rows(self, of: str) -> list[str]:
        return [key for key in self.host.storage.rows if f"||{of}||" in key]

    async def listed(self) -> list[str]:
        names: list[str] = []
        for shard in range(SHARDS):
            answer = await self.invoke(INSTANCE_INDEX_TYPE, str(shard), "Find", {"limit": 1000})
            names += [entry[1] for entry in answer["entries"]]
        return names

    @asynccontextmanager
    async def worker(self) -> AsyncIterator[None]:
        working = asyncio.create_task(Worker(LocalWorkSource(self.host.client, alone=True), app.registry).run())
        try:
            yield
        finally:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)


class Keeping(Stage):
    retention = None


on_stage = on_simulated_host(Stage)


@on_stage
async def test_an_instance_is_deleted_when_the_time_is_over_and_nothing_of_it_is_left(stage: Stage) -> None:
    async with stage.worker():
        await stage.begin("i", "short")
        await asyncio.sleep(30)
        assert await stage.status("i") == "COMPLETED"
        assert await stage.listed() == ["i"]
        assert stage.rows(IDEMPOTENCY_TYPE) != []
        await asyncio.sleep(45)
        assert not await stage.exists("i")
        assert await stage.listed() == []
        assert stage.rows(ORCHESTRATION_TYPE) == []
        assert stage.rows(IDEMPOTENCY_TYPE) == []
        addresses = {address.actor_type for address, _ in stage.host.storage.reminders}
        assert addresses.isdisjoint({ORCHESTRATION_TYPE, IDEMPOTENCY_TYPE})
        # The id is free.
        await stage.begin("i", "waiting")


@on_stage
async def test_without_a_reminder_the_next_call_finds_it_deleted(stage: Stage) -> None:
    await stage.begin("i", "for_good")
    await stage.begin("j", "fleeting")
    stage.host.storage.scheduler_up = False
    await asyncio.sleep(10)
    assert not await stage.exists("j")
    assert await stage.exists("i")


@on_stage
async def test_only_ended_ones_are_deleted(stage: Stage) -> None:
    await stage.begin("i", "waiting")
    await asyncio.sleep(10 * KEPT)
    assert await stage.status("i") == "RUNNING"
    await stage.ask("i", "RaiseEvent", name="go", data=1)
    await asyncio.sleep(KEPT - 10)
    assert await stage.status("i") == "COMPLETED"
    await asyncio.sleep(20)
    assert not await stage.exists("i")


@on_stage
async def test_a_rerun_is_kept_from_its_own_end_on(stage: Stage) -> None:
    await stage.begin("i", "waiting")
    await stage.ask("i", "RaiseEvent", name="go", data=1)
    await asyncio.sleep(KEPT - 10)
    await Reruns(stage.host.client, InstanceCreations(stage.host.client, NO_QUOTAS)).rerun(
        "default", "i", Wanted(3, "again")
    )
    await stage.ask("again", "RaiseEvent", name="go", data=2)
    await asyncio.sleep(20)
    assert not await stage.exists("i")
    assert (await stage.ask("again", "Status"))["output"] == 2
    await asyncio.sleep(KEPT)
    assert not await stage.exists("again")


@on_simulated_host(Keeping)
async def test_without_a_retention_everything_is_kept(stage: Keeping) -> None:
    await stage.begin("i", "packing", 7)
    await stage.ask("i", "Cancel")
    await asyncio.sleep(48 * HOUR)
    assert await stage.status("i") == "CANCELLED"


@on_simulated_host(Keeping)
async def test_a_server_with_a_retention_deletes_what_ended_before_when_it_is_looked_at(stage: Keeping) -> None:
    await stage.begin("i", "waiting")
    await stage.ask("i", "RaiseEvent", name="go", data=1)
    await asyncio.sleep(2 * KEPT)
    stage.retention = KEPT
    storage = stage.host.storage
    await stage.host.stop()
    stage.host = type(stage.host)(storage=storage)
    await stage.start()
    assert not await stage.exists("i")


@on_stage
async def test_a_child_that_was_deleted_is_not_started_again_after_a_crash(stage: Stage) -> None:
    await stage.begin("parent", "parent_of_fleeting")
    await asyncio.sleep(60)
    assert not await stage.exists("detached")
    assert not await stage.exists("awaited")
    await stage.restart()
    await asyncio.sleep(60)
    await stage.ask("parent", "RaiseEvent", name="go", data=1)
    await asyncio.sleep(60)
    assert (await stage.ask("parent", "Status"))["output"] == ["detached", "done"]
    assert not await stage.exists("detached")


@pytest.mark.parametrize("saves_reminders", [False, True])
def test_children_that_were_deleted_are_not_started_again_with_a_slow_one(saves_reminders: bool) -> None:
    """The process ends while it is still starting the last of them, so their starts are still stored."""
    number = 40

    @on_simulated_host(lambda: Stage(saves_reminders=saves_reminders))
    async def test(stage: Stage) -> None:
        begun.clear()
        invoke = stage.host.client.invoke_method

        async def invoke_all_but_one(actor_type: str, actor_id: str, method: str, data: bytes = b"") -> bytes:
            if actor_id == f"child-{number - 1}":
                await asyncio.sleep(HOUR)
            return await invoke(actor_type, actor_id, method, data)

        stage.host.client.invoke_method = invoke_all_but_one  # type: ignore[method-assign]
        await stage.begin("parent", "parent_of_many_fleeting", number)
        await asyncio.sleep(30)
        assert len(begun) == number - 1
        assert not await stage.exists("child-0")
        await stage.restart()
        await asyncio.sleep(60)
        assert (await stage.ask("parent", "Status"))["output"] == ["done"] * number
        assert set(begun.values()) == {1}

    test()


@on_stage
async def test_a_child_waits_with_its_deletion_until_its_parent_has_heard_of_its_end(stage: Stage) -> None:
    await stage.begin("parent", "parent_of_fleeting")
    failing = stage.host.client.invoke_method

    async def refuse(actor_type: str, actor_id: str, method: str, data: bytes = b"") -> bytes:
        if actor_type == ORCHESTRATION_TYPE and actor_id == "parent":
            raise OSError("the parent is out of reach")
        return await failing(actor_type, actor_id, method, data)

    stage.host.client.invoke_method = refuse  # type: ignore[method-assign]
    await asyncio.sleep(HOUR)
    stage.host.client.invoke_method = failing  # type: ignore[method-assign]
    await asyncio.sleep(200)
    await stage.ask("parent", "RaiseEvent", name="go", data=1)
    assert (await stage.ask("parent", "Status"))["output"] == ["detached", "done"]
    assert not await stage.exists("awaited")


@on_stage
async def test_a_record_in_use_and_one_of_a_later_instance_are_kept(stage: Stage) -> None:
    record = record_id("default", "activity/i:1:2")
    for incarnation, owner in (("old", "a"), ("new", "b")):
        begin = {"key": "activity/i:1:2", "owner": owner, "incarnation": incarnation, "lease_seconds": 10}
        await stage.invoke(IDEMPOTENCY_TYPE, record, "Begin", begin)
        deleted = await stage.invoke(IDEMPOTENCY_TYPE, record, "Delete", {"incarnation": "old"})
        assert deleted == {"success": True, "deleted": False}
        await stage.invoke(IDEMPOTENCY_TYPE, record, "Commit", {"owner": owner, "result": 1})
    deleted = await stage.invoke(IDEMPOTENCY_TYPE, record, "Delete", {"incarnation": "new"})
    assert deleted == {"success": True, "deleted": True}
    assert stage.rows(IDEMPOTENCY_TYPE) == []


@on_stage
async def test_deletions_survive_crashes(stage: Stage) -> None:
    async with stage.worker():
        await stage.begin("i", "short")
        await asyncio.sleep(30)
    for _ in range(100):
        stage.host.faults = Faults(crash_before_save=0.2, crash_after_save=0.3)
        try:
            async with asyncio.timeout(120):
                await stage.host.crashed.wait()
        except TimeoutError:
            break
        await stage.restart()
    else:
        pytest.fail("it crashed in every process")
    assert stage.rows(ORCHESTRATION_TYPE) == stage.rows(IDEMPOTENCY_TYPE) == []
    stage.host.faults = Faults()
    assert await stage.listed() == []


@on_stage
async def test_a_day_of_steady_load_keeps_the_store_flat(stage: Stage) -> None:
    sizes: list[tuple[int, int, int]] = []

    def measure() -> tuple[int, int, int]:
        storage = stage.host.storage
        return len(storage.rows), sum(len(value) for value, _ in storage.rows.values()), len(storage.reminders)

    async with stage.worker():
        for number in range(24 * 15):
            await stage.begin(f"d-{number}", "delivery", number)
            await stage.ask(f"d-{number}", "RaiseEvent", name="notes", data="x" * 100)
            if number % 10 == 0:
                await stage.begin(f"w-{number}", "waiting")
                await stage.ask(f"w-{number}", "Cancel", reason="enough")
            await asyncio.sleep(240)
            if number % 15 == 14:
                sizes.append(measure())
    early, late = sizes[1:5], sizes[-8:]
    for place in range(3):
        assert max(size[place] for size in late) <= 1.1 * max(size[place] for size in early), sizes
    await asyncio.sleep(2 * KEPT)
    assert stage.rows(ORCHESTRATION_TYPE) == stage.rows(IDEMPOTENCY_TYPE) == []
    assert await stage.listed() == []
