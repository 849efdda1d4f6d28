"""An instance's actor: what it sends and when, and what becomes of what others send while things break."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import App, Context
from holdfast.errors import SaveFailed, StorageBroken
from holdfast.idempotency.interface import record_id
from holdfast.kinds import IDEMPOTENCY_TYPE, ORCHESTRATION_TYPE, QUEUE_TYPE
from holdfast.orchestration.actor.actor import orchestration_actor, waiting_for
from holdfast.orchestration.storage.record import SEGMENT_BYTES
from holdfast.runtime.contract import ActorAddress
from holdfast.runtime.notifier import Notifier, Subscription
from holdfast.runtime.serialization import load
from holdfast.runtime.simulated import Faults
from holdfast.server import OWN_ACTORS
from holdfast.worker.local_source import LocalWorkSource
from holdfast.worker.worker import Worker
from tests.support.simulated import InstanceStage, on_simulated_host

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dapr.actor import Actor

app = App()


@app.activity
async def work(what: str) -> str:
    return what


@app.orchestration
async def listener(ctx: Context) -> list[str]:
    return await asyncio.gather(*(_one(ctx, name) for name in ("a", "b", "c")))


async def _one(ctx: Context, name: str) -> str:
    await ctx.event(name)
    return await ctx.call(work, name)


@app.orchestration
async def inventive(ctx: Context, name: str) -> str:
    return await ctx.call(name)


@app.orchestration
async def generous(ctx: Context, size: int) -> list[Any]:
    return await asyncio.gather(ctx.call(work, "x" * size), ctx.call(work, "y"), return_exceptions=True)


@app.orchestration
async def parent(ctx: Context) -> str:
    return await ctx.sub(child)


@app.orchestration
async def child(ctx: Context) -> str:
    return await ctx.event("enough", str)


@app.activity
def leave(code: int) -> None:
    raise SystemExit(code)


@app.activity
async def odd(what: str) -> Any:
    return float("nan")


@app.activity(idempotent=True)
async def once(what: str) -> str:
    return what


@app.activity(idempotent=True, queue="q" * 255)
async def far() -> str:
    return "z"


@app.orchestration
async def careless(ctx: Context) -> list[Any]:
    calls = ctx.call(leave, 2), ctx.call(odd, "x"), ctx.call(once, "y"), ctx.call(far)
    results = await asyncio.gather(*calls, return_exceptions=True)
    return [str(result) for result in results]


class Stage(InstanceStage):
    app = app

    def actors(self) -> Iterable[type[Actor]]:
        return (*OWN_ACTORS, orchestration_actor(self.app.registry))

    async def activities(self) -> list[tuple[str, int]]:
        answer = await self.invoke(QUEUE_TYPE, "activities", "Peek", {"count": 100})
        return [(item["input"], item["scheduled_seq"]) for item in answer["items"]]

    async def take(self) -> dict[str, Any]:
        answer = await self.invoke(QUEUE_TYPE, "activities", "Pop", {"count": 1})
        item: dict[str, Any] = answer["items"][0]
        return item

    def value(self, name: str, **labels: str) -> float | None:
        return self.host.client.metrics.registry.get_sample_value(name, labels)

    async def outcome(self, item: dict[str, Any], result: str) -> Any:
        place = {key: item[key] for key in ("execution_id", "scheduled_seq", "incarnation")}
        return await self.ask(item["instance_id"], "Complete", of="activity", result=result, **place)


on_stage = on_simulated_host(Stage)


@on_stage
async def test_what_was_not_saved_is_not_sent(stage: Stage) -> None:
    await stage.ask("i", "Start", name="listener")
    await stage.ask("i", "RaiseEvent", name="a")
    stage.host.faults = Faults(save_fails=1.0, slowest=0.5)
    with pytest.raises(SaveFailed):
        await stage.ask("i", "RaiseEvent", name="b")
    stage.host.faults = Faults()
    await stage.ask("i", "RaiseEvent", name="c")
    await asyncio.sleep(20)
    assert set(await stage.activities()) == {("a", 6), ("c", 8)}


@on_stage
async def test_who_waits_for_the_end_is_told_though_the_actor_was_deactivated_meanwhile(stage: Stage) -> None:
    notifier = await Notifier(stage.host.client).subscribe()
    await stage.ask("i", "Start", name="child")
    await asyncio.sleep(5)
    with Subscription(waiting_for("i")) as told:
        assert (await stage.ask("i", "Wait", notify=notifier))["ended_at"] is None
        while await stage.host.release_idle():
            pass
        assert (await stage.host.active_counts())[ORCHESTRATION_TYPE] == 0
        await stage.ask("i", "RaiseEvent", name="enough", data="done")
        async with asyncio.timeout(1):
            await told.wait()
    assert (load(told.payload or "")["status"], load(told.payload or "")["output"]) == ("COMPLETED", "done")


@on_stage
async def test_an_instance_that_still_sends_is_not_released(stage: Stage) -> None:
    await stage.ask("i", "Start", name="listener")
    stage.host.faults = Faults(save_fails=0.0, slowest=5.0)
    raised = asyncio.create_task(stage.ask("i", "RaiseEvent", name="a"))
    while not stage.host.is_active(ActorAddress(QUEUE_TYPE, "activities")):
        await asyncio.sleep(0.1)
        await stage.host.release_idle()
        assert stage.host.is_active(ActorAddress(ORCHESTRATION_TYPE, "i"))
    await raised


@on_stage
async def test_whoever_looks_in_the_turn_it_ends_in_sees_how(stage: Stage) -> None:
    await stage.ask("i", "Start", name="child")
    enough = {"method": "RaiseEvent", "data": {"name": "enough", "data": "done"}}
    replies = (await stage.ask("i", "Batch", calls=[enough, {"method": "Status", "data": {}}]))["replies"]
    assert (replies[1]["status"], replies[1]["output"]) == ("COMPLETED", "done")


@app.orchestration
async def copious(ctx: Context, size: int) -> str:
    ctx.set_status("s" * size)
    text = await ctx.event("text", str)
    ctx.set_status("short")
    return text


@on_stage
async def test_what_is_large_does_not_lie_in_the_head(stage: Stage) -> None:
    large = "x" * 600_000
    await stage.ask("i", "Start", name="copious", input=1000)
    assert (await stage.ask("i", "Status"))["custom_status"] == "s" * 1000
    await stage.ask("i", "RaiseEvent", name="text", data=large)
    prefix = f"holdfast||{ORCHESTRATION_TYPE}||i||"
    stored = {key.removeprefix(prefix): row[0] for key, row in stage.host.storage.rows.items() if prefix in key}
    assert len(stored["instance"]) < SEGMENT_BYTES
    assert "custom-status" not in stored
    stage.host = await stage.host.restarted()
    status = await stage.ask("i", "Status")
    assert (status["input"], status["output"], status["custom_status"]) == (1000, large, "short")
    events: list[Any] = []
    for _ in range(4):
        page = await stage.ask("i", "History", limit=1, cursor=len(events))
        events += page["events"]
    assert "next_cursor" not in page
    assert [event["seq"] for event in events] == [1, 2, 3, 4]
    assert (await stage.ask("i", "Delete"))["success"]
    await asyncio.sleep(10)
    assert not [key for key in stage.host.storage.rows if prefix in key]


@app.orchestration
async def boastful(ctx: Context, what: str) -> str:
    large = "x" * 2_000_000
    if what == "status":
        ctx.set_status(large)
    if what == "again":
        ctx.continue_as_new(large)
    return large


@pytest.mark.parametrize(
    ("what", "named"), [("status", "A status"), ("again", "An input"), ("output", "An output")], ids=str
)
def test_what_is_too_large_fails_where_it_is_made(what: str, named: str) -> None:
    @on_stage
    async def body(stage: Stage) -> None:
        await stage.ask("i", "Start", name="boastful", input=what)
        status = await stage.ask("i", "Status")
        assert status["status"] == "FAILED"
        assert status["error"]["type"] == "TooLarge"
        assert status["error"]["message"].startswith(f"{named} may have ")

    body()


@on_stage
async def test_an_event_that_was_heard_is_heard_again_after_the_end(stage: Stage) -> None:
    await stage.ask("i", "Start", name="copious", input=1)
    raised = {"name": "text", "data": "the last", "event_id": "e-1"}
    assert (await stage.ask("i", "RaiseEvent", **raised))["success"]
    assert (await stage.ask("i", "Status"))["status"] == "COMPLETED"
    assert (await stage.ask("i", "RaiseEvent", **raised))["success"]
    refused = await stage.ask("i", "RaiseEvent", **raised | {"event_id": "e-2"})
    assert (refused["success"], refused["error_code"]) == (False, "CONFLICT")
    assert (await stage.ask("i", "Status"))["output"] == "the last"


@on_stage
async def test_what_an_earlier_version_wrote_is_refused_in_a_sentence(stage: Stage) -> None:
    stage.host.storage.rows[f"holdfast||{ORCHESTRATION_TYPE}||old||instance"] = (b'{"format": 1}', None)
    with pytest.raises(StorageBroken, match=r"old was written by an earlier version .* format 1\. This .* format 6\."):
        await stage.ask("old", "Status")


@on_stage
async def test_an_input_that_no_queue_takes_fails_where_it_is_made(stage: Stage) -> None:
    await stage.ask("i", "Start", name="generous", input=1024 * 1024)
    await asyncio.sleep(1)
    assert [what for what, _ in await stage.activities()] == ["y"]


@on_stage
async def test_what_was_for_an_earlier_instance_of_an_id_is_not_for_the_next(stage: Stage) -> None:
    old = await _scheduled(stage)
    await stage.ask("i", "Delete", force=True)
    new = await _scheduled(stage)
    assert (await stage.outcome(old, '"old"'))["outcome"] == "other execution"
    assert (await stage.outcome(new, '"new"'))["outcome"] == "recorded"


async def _scheduled(stage: Stage) -> dict[str, Any]:
    await stage.ask("i", "Start", name="listener")
    await stage.ask("i", "RaiseEvent", name="a")
    await asyncio.sleep(1)
    return await stage.take()


@on_stage
async def test_a_parent_hears_of_a_child_that_was_deleted(stage: Stage) -> None:
    await stage.ask("p", "Start", name="parent")
    await asyncio.sleep(1)
    [scheduled] = [one for one in (await stage.ask("p", "History"))["events"] if "instance_id" in one]
    await stage.ask(scheduled["instance_id"], "Delete", force=True)
    await asyncio.sleep(10)
    assert (await stage.ask("p", "Status"))["status"] == "FAILED"
    # And its id is free for another life, whose child is another one.
    await stage.ask("p", "Delete")
    await stage.ask("p", "Start", name="parent")
    await asyncio.sleep(1)
    [again] = [one for one in (await stage.ask("p", "History"))["events"] if "instance_id" in one]
    assert again["instance_id"] != scheduled["instance_id"]


@on_stage
async def test_an_activity_may_do_what_it_likes_and_the_worker_goes_on(stage: Stage) -> None:
    worker = asyncio.create_task(Worker(LocalWorkSource(stage.host.client, alone=True), app.registry).run())
    try:
        await stage.ask("i", "Start", name="careless")
        async with asyncio.timeout(60):
            while (status := await stage.ask("i", "Status"))["ended_at"] is None:
                await asyncio.sleep(1)
    finally:
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
    exited, strange, done, far_away = status["output"]
    assert "SystemExit(2)" in exited
    assert "float cannot be written as JSON" in strange
    assert (done, far_away) == ("y", "z")
    record = record_id("default", "activity/i:1:4")
    kept = load(await stage.host.client.invoke_method(IDEMPOTENCY_TYPE, record, "Get", b""))
    assert (kept["status"], kept["result"]) == ("SUCCESS", {"result": "y"})


@on_stage
async def test_how_long_an_activity_took_is_measured_once_its_outcome_is_saved(stage: Stage) -> None:
    await stage.ask("i", "Start", name="listener")
    await stage.ask("i", "RaiseEvent", name="a")
    await asyncio.sleep(7)
    item = await stage.take()
    measured = {"activity": "work", "outcome": "completed"}
    stage.host.faults = Faults(save_fails=1.0)
    with pytest.raises(SaveFailed):
        await stage.outcome(item, '"a"')
    assert stage.value("holdfast_activity_latency_seconds_count", **measured) is None
    stage.host.faults = Faults()
    await stage.outcome(item, '"a"')
    await stage.outcome(item, '"a"')
    assert stage.value("holdfast_activity_latency_seconds_count", **measured) == 1
    assert stage.value("holdfast_activity_latency_seconds_sum", **measured) == pytest.approx(7, abs=0.5)


@on_stage
async def test_names_that_nobody_declared_are_one_label(stage: Stage) -> None:
    for number in range(3):
        await stage.ask(f"i-{number}", "Start", name="inventive", input=f"made-up-{number}")
        await asyncio.sleep(1)
        await stage.outcome(await stage.take(), '"x"')
    measured = {"activity": "other", "outcome": "completed"}
    assert stage.value("holdfast_activity_latency_seconds_count", **measured) == 3


@on_stage
async def test_code_that_is_brought_back_is_counted(stage: Stage) -> None:
    await stage.ask("i", "Start", name="listener")
    await stage.ask("i", "RaiseEvent", name="a")
    assert stage.value("holdfast_replays_total", orchestration="listener") is None
    stage.host = await stage.host.restarted()
    await stage.ask("i", "RaiseEvent", name="b")
    await stage.ask("i", "RaiseEvent", name="c")
    assert stage.value("holdfast_replays_total", orchestration="listener") == 1


@on_stage
async def test_a_completion_nobody_scheduled_is_counted_and_changes_nothing(
    stage: Stage,
) -> None:
    await stage.ask("i", "Start", name="listener")
    before = await stage.ask("i", "History")
    answer = await stage.ask("i", "Complete", of="activity", result="1", execution_id=1, scheduled_seq=99)
    assert answer["success"] is True
    assert stage.value("holdfast_unscheduled_completions_total") == 1
    assert await stage.ask("i", "History") == before


@on_stage
async def test_a_parent_that_asks_again_is_told_again_whatever_happens_then(stage: Stage) -> None:
    await stage.ask("p", "Start", name="parent", seed="s")
    await asyncio.sleep(1)
    rows = stage.host.storage.rows
    [child_id] = {key.split("||")[2] for key in rows if f"||{ORCHESTRATION_TYPE}||p:" in key}
    await stage.ask(child_id, "RaiseEvent", name="enough", data="done")
    await asyncio.sleep(10)
    told = (await stage.ask(child_id, "Status"))["parent"]
    again = {"name": "child", "parent": told | {"incarnation": "s"}, "seed": "t"}
    assert (await stage.ask(child_id, "Start", **again))["created"] is False
    # Before it is sent it is saved.
    saved = load(rows[f"holdfast||{ORCHESTRATION_TYPE}||{child_id}||instance"][0])
    [box] = saved["outbox_entries"].values()
    assert [effect["type"] for effect in box["effects"]] == ["NotifyParent"]
