"""A worker and the instances it works for, on a simulated host: saved heartbeats, and metrics of activities."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from holdfast import App, Context, Retry, activity_context
from holdfast.errors import ActivityFailed, NonRetryable
from holdfast.kinds import ORCHESTRATION_TYPE
from holdfast.orchestration.actor.actor import orchestration_actor
from holdfast.server import OWN_ACTORS
from holdfast.worker.local_source import LocalWorkSource
from holdfast.worker.worker import Worker
from tests.support.simulated import InstanceStage, on_simulated_host

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from dapr.actor import Actor

app = App()


@app.activity
async def copy(rows: int) -> Any:
    """Reports a row a second; a later run returns what it finds."""
    context = activity_context()
    if context.heartbeat_details is not None:
        return context.heartbeat_details
    for row in range(rows):
        context.heartbeat({"row": row + 1})
        await asyncio.sleep(1)
    return rows


@app.activity(timeout=2)
async def fail(how: str) -> None:
    if how == "slowly":
        await asyncio.sleep(3600)
    raise NonRetryable(how) if how == "for good" else ValueError(how)


@app.activity
async def work(number: int) -> int:
    return number


@app.orchestration
async def copying(ctx: Context, rows: int) -> Any:
    return await ctx.call(copy, rows)


@app.orchestration
async def giving_up(ctx: Context, rows: int) -> None:
    try:
        async with asyncio.timeout(5):
            await ctx.call(copy, rows)
    except TimeoutError:
        await ctx.event("go")


@app.orchestration
async def failing(ctx: Context) -> None:
    for how in ("at once", "slowly", "for good"):
        try:
            await ctx.call(fail, how, retry=Retry(max_attempts=2))
        except ActivityFailed:
            await ctx.call(work, 1)
    await ctx.call("made-up")


class Stage(InstanceStage):
    def actors(self) -> Iterable[type[Actor]]:
        return (*OWN_ACTORS, orchestration_actor(app.registry))

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        metrics = self.host.client.metrics.worker
        worker = Worker(LocalWorkSource(self.host.client, alone=True), app.registry, metrics=metrics)
        working = asyncio.create_task(worker.run())
        try:
            yield
        finally:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)

    async def output(self, instance_id: str) -> Any:
        async with asyncio.timeout(600):
            while (status := await self.ask(instance_id, "Status"))["ended_at"] is None:
                await asyncio.sleep(1)
        return status["output"]

    def heartbeats(self) -> list[str]:
        """The keys of the heartbeats that are stored."""
        keys = (key.rpartition("||")[2] for key in self.host.storage.rows if f"||{ORCHESTRATION_TYPE}||" in key)
        return sorted(key for key in keys if key.startswith("heartbeat-"))

    def count(self, name: str, **labels: str) -> float:
        return self.host.client.metrics.registry.get_sample_value(name, labels) or 0.0


on_stage = on_simulated_host(Stage)


@on_stage
async def test_a_heartbeat_outlives_the_process_and_is_deleted_with_the_outcome(stage: Stage) -> None:
    await stage.ask("i", "Start", name="copying", input=1000)
    async with stage.working():
        await asyncio.sleep(10)
        assert stage.heartbeats() == ["heartbeat-0-1-2"]
        await stage.restart()
    async with stage.working():
        assert (await stage.output("i"))["row"] >= 8
    assert stage.heartbeats() == []


@on_stage
async def test_the_heartbeat_of_a_call_that_was_given_up_is_deleted(stage: Stage) -> None:
    await stage.ask("i", "Start", name="giving_up", input=1000)
    async with stage.working():
        await asyncio.sleep(4)
        assert len(stage.heartbeats()) == 1
        await asyncio.sleep(3)
        assert stage.heartbeats() == []
        assert stage.count("holdfast_worker_activities_total", activity="copy", outcome="cancelled") == 1


@on_stage
async def test_heartbeats_are_deleted_with_their_instance(stage: Stage) -> None:
    async with stage.working():
        for end in ("Cancel", "Delete"):
            await stage.ask("i", "Start", name="copying", input=1000)
            await asyncio.sleep(4)
            assert len(stage.heartbeats()) == 1
            await stage.ask("i", end, force=True) if end == "Delete" else await stage.ask("i", end)
            await asyncio.sleep(5)
            assert stage.heartbeats() == []
            await stage.ask("i", "Delete", force=True)


@on_stage
async def test_outcomes_of_activities_are_counted_by_what_they_are(stage: Stage) -> None:
    await stage.ask("i", "Start", name="failing")
    async with stage.working():
        await asyncio.sleep(60)
        worker = "holdfast_worker_activities_total"
        assert stage.count(worker, activity="fail", outcome="failed") == 3
        assert stage.count(worker, activity="fail", outcome="timed_out") == 2
        assert stage.count(worker, activity="other", outcome="abandoned") >= 1
        assert stage.count("holdfast_worker_activity_seconds_count", activity="fail") == 5
        assert stage.count("holdfast_worker_slots", queue="activities") == 50
    instance = "holdfast_activity_outcomes_total"
    assert stage.count(instance, activity="fail", outcome="failed") == 3
    assert stage.count(instance, activity="fail", outcome="timed_out") == 2
    assert stage.count(instance, activity="work", outcome="completed") == 3
    assert stage.count("holdfast_activity_retries_total", activity="fail") == 2
