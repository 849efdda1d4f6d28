"""Schedules on the simulated host: on a clock that jumps, with crashes."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import App, Context
from holdfast.errors import HoldfastError
from holdfast.kinds import HEAD, ORCHESTRATION_TYPE, SCHEDULE_INDEX_TYPE, SCHEDULE_TYPE
from holdfast.orchestration.actor.actor import orchestration_actor
from holdfast.orchestration.index.instance_index import InstanceIndexActor
from holdfast.orchestration.index.tenant_index import TenantIndexActor
from holdfast.orchestration.recovery.rescuer import RescuerActor
from holdfast.runtime.notifier import NotifierActor
from holdfast.schedules.actor import schedule_actor
from holdfast.schedules.declarations import Declarations
from holdfast.schedules.index import ScheduleIndexActor, index_of
from tests.support.simulated import ActorStage, on_simulated_host

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dapr.actor import Actor

app = App()

#: How often the code of an instance began, by its id.
begun: Counter[str] = Counter()


@app.orchestration
async def report(ctx: Context, number: int = 0) -> int:
    if not ctx.is_replaying:
        begun[ctx.instance_id] += 1
    return number


@app.orchestration
async def endless(ctx: Context) -> None:
    await ctx.event("stop")


class Stage(ActorStage):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        begun.clear()

    def actors(self) -> Iterable[type[Actor]]:
        made = (schedule_actor(app.registry), orchestration_actor(app.registry))
        return (*made, ScheduleIndexActor, InstanceIndexActor, TenantIndexActor, RescuerActor, NotifierActor)

    @property
    def now(self) -> float:
        return self.host.now()

    async def ask(self, method: str, name: str = "s", **data: Any) -> Any:
        return await self.invoke(SCHEDULE_TYPE, name, method, data or None)

    async def put(self, **given: Any) -> Any:
        return await self.ask("Put", **({"orchestration": "report", "every_seconds": 60} | given))

    async def instance(self, instance_id: str) -> Any:
        return await self.invoke(ORCHESTRATION_TYPE, instance_id, "Status")

    def ticks(self, outcome: str) -> float | None:
        """Returns the number of ticks that the metrics of this process count."""
        registry = self.host.client.metrics.registry
        return registry.get_sample_value("holdfast_schedule_ticks_total", {"outcome": outcome})

    async def listed(self) -> Any:
        return await self.invoke(SCHEDULE_INDEX_TYPE, index_of("default"), "List", {"limit": 100})


on_stage = on_simulated_host(Stage)


@on_stage
async def test_ticks_start_instances(stage: Stage) -> None:
    made = await stage.put(input=7)
    assert [made["missed"], made["last"], len(made["next_at"])] == [0, [], 5]
    await asyncio.sleep(181)
    found = await stage.ask("Get")
    assert [result["status"] for result in found["last"]] == ["COMPLETED"] * 3
    instance = await stage.instance(found["last"][0]["instance_id"])
    assert (instance["output"], found["missed"]) == (7, 0)


@on_stage
async def test_a_tick_waits_for_the_end_of_the_last(stage: Stage) -> None:
    await stage.put(orchestration="endless", overlap="buffer_one")
    await asyncio.sleep(185)
    [skipped, running] = (await stage.ask("Get"))["last"]
    assert skipped["skipped"]
    await stage.invoke(ORCHESTRATION_TYPE, running["instance_id"], "RaiseEvent", {"name": "stop", "data": None})
    await asyncio.sleep(15)
    last = (await stage.ask("Get"))["last"]
    assert [result.get("status") for result in last] == ["RUNNING", None, "COMPLETED"]
    assert [stage.ticks(outcome) for outcome in ("skipped", "started")] == [1, 2]


@on_stage
async def test_an_overlapping_tick_cancels_the_last(stage: Stage) -> None:
    await stage.put(orchestration="endless", overlap="cancel_previous")
    await asyncio.sleep(125)
    assert [result["status"] for result in (await stage.ask("Get"))["last"]] == ["RUNNING", "CANCELLED"]


@on_stage
async def test_ticks_of_the_time_when_the_server_was_down_are_caught_up_or_missed(stage: Stage) -> None:
    await stage.put(overlap="allow", catch_up_seconds=150)
    await asyncio.sleep(1)
    storage = stage.host.storage
    await stage.stop()
    await asyncio.sleep(600)
    stage.host = type(stage.host)(storage=storage)
    await stage.start()
    await asyncio.sleep(20)
    found = await stage.ask("Get")
    caught_up = [result["status"] for result in found["last"]]
    assert set(caught_up) == {"COMPLETED"}
    # One more tick may have been due since.
    assert (2 <= len(caught_up) <= 4, found["missed"] + len(caught_up)) == (True, 10)
    assert [stage.ticks(outcome) for outcome in ("missed", "started")] == [found["missed"], len(caught_up)]


@on_stage
async def test_a_delayed_tick_keeps_its_name(stage: Stage) -> None:
    await stage.put(jitter_seconds=50)
    await asyncio.sleep(300)
    last = (await stage.ask("Get"))["last"]
    assert len(last) >= 4
    for result in last:
        at = datetime.fromisoformat(result["at"])
        assert result["instance_id"] == f"s-{at:%Y%m%dT%H%M%SZ}"
        began = datetime.fromisoformat((await stage.instance(result["instance_id"]))["created_at"])
        assert 0 <= (began - at).total_seconds() < 51


@on_stage
async def test_a_pause_a_trigger_and_a_backfill(stage: Stage) -> None:
    await stage.put(paused=True)
    await asyncio.sleep(130)
    assert (await stage.ask("Get"))["last"] == []
    triggered = (await stage.ask("Trigger"))["instance_id"]
    assert triggered.startswith("s-manual-")
    since = datetime.fromtimestamp(stage.now - 120, UTC).isoformat()
    until = datetime.fromtimestamp(stage.now, UTC).isoformat()
    assert (await stage.ask("Backfill", **{"from": since, "to": until}))["ticks"] == 2
    await asyncio.sleep(1)
    assert (await stage.instance(triggered))["status"] == "COMPLETED"
    assert sorted(begun.values()) == [1, 1, 1]
    await stage.ask("Resume")
    await asyncio.sleep(61)
    assert len((await stage.ask("Get"))["last"]) == 1


@on_stage
async def test_a_backfill_of_a_rare_time_spans_at_most_a_hundred_years(stage: Stage) -> None:
    await stage.put(every_seconds=None, cron="0 0 29 2 *", paused=True)
    refused = await stage.ask("Backfill", **{"from": "1000-01-01T00:00:00Z", "to": "3000-01-01T00:00:00Z"})
    assert (refused["error_code"], "100 years" in refused["message"]) == ("INVALID_REQUEST", True)
    assert (await stage.ask("Backfill", **{"from": "2000-03-01T00:00:00Z", "to": "2026-01-01T00:00:00Z"}))["ticks"] == 6


@on_stage
async def test_a_deleted_schedule_is_gone_from_the_list_and_starts_nothing(stage: Stage) -> None:
    await stage.put()
    await asyncio.sleep(1)
    assert await stage.listed() == ["s"]
    assert (await stage.ask("Delete"))["success"]
    await asyncio.sleep(120)
    assert await stage.listed() == []
    assert (await stage.ask("Get"))["error_code"] == "NOT_FOUND"
    assert not begun
    await stage.put()
    await asyncio.sleep(61)
    assert len(begun) == 1


def held_back(stage: Stage, actor_type: str) -> asyncio.Event:
    """Makes calls to this type of actors wait for the returned event."""
    event, client = asyncio.Event(), stage.host.client
    invoke = client.invoke_method

    async def invoke_late(called_type: str, actor_id: str, method: str, data: bytes | None = None) -> bytes:
        if called_type == actor_type:
            await event.wait()
        return await invoke(called_type, actor_id, method, data)

    client.invoke_method = invoke_late  # type: ignore[method-assign]
    return event


@pytest.mark.parametrize("pause", [0.0, 5.0])
def test_calls_of_a_deleted_schedule_do_not_count_as_those_of_the_next_one(pause: float) -> None:
    """Its calls have the same numbers, also when nothing was left of the deleted one."""

    @on_stage
    async def test(stage: Stage) -> None:
        await stage.put(every_seconds=86_400)
        await asyncio.sleep(5)
        calls = held_back(stage, ORCHESTRATION_TYPE)
        await stage.ask("Trigger")
        await asyncio.sleep(1)
        await stage.ask("Delete")
        await asyncio.sleep(pause)
        await stage.put(every_seconds=86_400)
        triggered = (await stage.ask("Trigger"))["instance_id"]
        calls.set()
        await asyncio.sleep(60)
        assert begun[triggered] == 1

    test()


@on_stage
async def test_a_schedule_that_is_deleted_while_it_is_being_listed_is_not_listed(stage: Stage) -> None:
    calls = held_back(stage, SCHEDULE_INDEX_TYPE)
    await stage.put()
    await asyncio.sleep(1)
    await stage.ask("Delete")
    calls.set()
    await asyncio.sleep(60)
    assert await stage.listed() == []
    assert (await stage.ask("Get"))["error_code"] == "NOT_FOUND"


@on_stage
async def test_a_schedule_that_is_made_while_its_predecessor_leaves_the_list_is_listed(stage: Stage) -> None:
    await stage.put()
    await asyncio.sleep(5)
    calls = held_back(stage, SCHEDULE_INDEX_TYPE)
    await stage.ask("Delete")
    await asyncio.sleep(1)
    await stage.put()
    invoke = stage.host.client.invoke_method

    async def invoke_then_crash(actor_type: str, actor_id: str, method: str, data: bytes | None = None) -> bytes:
        answer = await invoke(actor_type, actor_id, method, data)
        if method == "ConfirmIndexed":
            stage.host.crash()
        return answer

    stage.host.client.invoke_method = invoke_then_crash  # type: ignore[method-assign]
    calls.set()
    await stage.host.crashed.wait()
    await stage.restart()
    await asyncio.sleep(60)
    assert await stage.listed() == ["s"]


@on_stage
async def test_a_damaged_instance_does_not_hold_up_its_schedule(stage: Stage) -> None:
    await stage.put(orchestration="endless", overlap="cancel_previous")
    await asyncio.sleep(61)
    [result] = (await stage.ask("Get"))["last"]
    head = f"holdfast||{ORCHESTRATION_TYPE}||{result['instance_id']}||{HEAD}"
    assert head in stage.host.storage.rows
    stage.host.storage.rows[head] = (b"{", None)
    await stage.restart()
    await asyncio.sleep(125)
    found = await stage.ask("Get")
    assert [result.get("status") for result in found["last"]] == ["RUNNING", "CANCELLED", None]
    assert (await stage.ask("Delete"))["success"]


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"cron": "0 6 * * *"}, "INVALID_REQUEST"),
        ({"every_seconds": None}, "INVALID_REQUEST"),
        ({"every_seconds": 0}, "INVALID_REQUEST"),
        ({"every_seconds": 1.5}, "INVALID_REQUEST"),
        ({"every_seconds": None, "cron": "every day"}, "INVALID_REQUEST"),
        ({"timezone": "Mars/Olympus"}, "INVALID_REQUEST"),
        ({"overlap": "never"}, "INVALID_REQUEST"),
        ({"orchestration": "unknown"}, "NOT_FOUND"),
        ({"input": "seven"}, "INVALID_REQUEST"),
        ({"starts_at": "tomorrow"}, "INVALID_REQUEST"),
        ({"starts_at": "2026-01-02T00:00:00Z", "ends_at": "2026-01-01T00:00:00Z"}, "INVALID_REQUEST"),
        ({"colour": "red"}, "INVALID_REQUEST"),
    ],
)
def test_a_wrong_definition_is_refused_and_leaves_the_old_one(given: dict[str, Any], code: str) -> None:
    @on_stage
    async def test(stage: Stage) -> None:
        before = await stage.put()
        assert (await stage.put(**given))["error_code"] == code
        assert await stage.ask("Get") == before

    test()


@on_stage
async def test_declared_schedules_follow_the_code(stage: Stage) -> None:
    first, second = App(), App()
    for code in (first, second):
        code.orchestration(report)
    first.schedule(every_seconds=60, input=1)(report)
    await Declarations(stage.host.client, first.registry).run()
    found = await stage.ask("Get", "report")
    assert (found["declared"], found["every_seconds"], found["paused"]) == (True, 60, False)
    await asyncio.sleep(1)
    await stage.ask("Pause", "report")
    changed = App()
    changed.orchestration(report)
    changed.schedule("0 6 * * *")(report)
    await Declarations(stage.host.client, changed.registry).run()
    found = await stage.ask("Get", "report")
    assert (found["cron"], found["paused"], "paused_reason" in found) == ("0 6 * * *", True, False)
    await stage.ask("Resume", "report")
    await Declarations(stage.host.client, second.registry).run()
    found = await stage.ask("Get", "report")
    assert (found["paused"], "no longer declares" in found["paused_reason"]) == (True, True)
    await Declarations(stage.host.client, first.registry).run()
    assert not (await stage.ask("Get", "report"))["paused"]


def test_wrong_declarations_fail_where_they_are_made() -> None:
    code = App()
    code.orchestration(report)
    with pytest.raises(HoldfastError, match="cron"):
        code.schedule("every day")(report)
    with pytest.raises(TypeError, match="above"):
        code.schedule("0 6 * * *")(lambda ctx: None)
