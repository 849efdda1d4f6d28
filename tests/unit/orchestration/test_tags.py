"""Tags in the history: a replay has the tags that are recorded, whatever its code sets."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from holdfast import App
from holdfast.errors import InvalidRequest
from holdfast.orchestration.core.history import OrchestrationStarted, TagsSet
from holdfast.orchestration.core.instance import Blocked
from holdfast.orchestration.core.messages import Start
from holdfast.orchestration.storage.record import InstanceRecord, indexed_as
from tests.support.queue_driver import drive
from tests.unit.orchestration.driver import Driver

if TYPE_CHECKING:
    from holdfast import Context


def _start(driver: Driver, name: str, tags: dict[str, str] | None = None) -> None:
    driver.deliver(Start(name=name, input="null", seed="seed", tags=tags))


def test_changes_are_merged_and_none_removes(app: App, cold: bool) -> None:
    @app.orchestration
    async def tagging(ctx: Context) -> None:
        ctx.set_tags({"a": "1", "b": "2"})
        ctx.set_tags({"a": None, "c": "3"})
        await asyncio.sleep(1)
        ctx.continue_as_new()

    driver = Driver(app, cold=cold)
    _start(driver, "tagging", {"a": "0", "z": "9"})
    assert driver.types == ["OrchestrationStarted", "TagsSet", "TagsSet", "TimerCreated"]
    driver.wait()
    started = driver.history[0]
    assert isinstance(started, OrchestrationStarted)
    assert started.tags == {"b": "2", "c": "3", "z": "9"}


def test_the_limit_counts_all_tags_of_the_instance(app: App, cold: bool) -> None:
    @app.orchestration
    async def tagging(ctx: Context) -> str:
        ctx.set_tags({f"own-{number}": "x" for number in range(15)})
        await asyncio.sleep(1)
        with pytest.raises(InvalidRequest, match="20 tags at most; these would be 21"):
            ctx.set_tags({"one-more": "x"})
        ctx.set_tags({"one-more": "x", "own-0": None})
        return "done"

    driver = Driver(app, cold=cold)
    _start(driver, "tagging", {f"given-{number}": "x" for number in range(5)})
    driver.wait()
    assert driver.output == "done"


def test_other_values_are_accepted_on_a_replay_and_the_recorded_ones_stay() -> None:
    before, after = App(), App()
    for app, value in ((before, "old"), (after, "new")):

        @app.orchestration
        async def tagging(ctx: Context, value: str = value) -> None:
            ctx.set_tags({"deploy": value})
            await asyncio.sleep(1)
            ctx.continue_as_new()

    driver = Driver(before)
    _start(driver, "tagging")
    driver.rebuild(after)
    driver.wait()
    started = next(event for event in driver.history if isinstance(event, OrchestrationStarted))
    assert started.tags == {"deploy": "old"}
    assert [event.tags for event in driver.history if isinstance(event, TagsSet)] == [{"deploy": "new"}]


def test_tags_that_the_code_no_longer_sets_block_it() -> None:
    before, after = App(), App()

    @before.orchestration(name="tagging")
    async def with_tags(ctx: Context) -> None:
        ctx.set_tags({"a": "b"})
        await asyncio.sleep(1)

    @after.orchestration(name="tagging")
    async def without(ctx: Context) -> None:
        await asyncio.sleep(1)

    driver = Driver(before)
    _start(driver, "tagging")
    with pytest.raises(Blocked) as blocked:
        driver.rebuild(after)
    assert blocked.value.reason["expected"] == "event 2, TagsSet"


def test_the_index_is_told_of_changed_tags_and_their_order_does_not_matter() -> None:
    entry = {"status": "RUNNING", "name": "checkout", "version": "1", "created_at": 1.0, "ended_at": None}
    forms = [
        indexed_as(entry | {"tags": tags})
        for tags in ({"a": "1", "b": "2"}, {"b": "2", "a": "1"}, {"a": "1"}, {"a": "2"}, {})
    ]
    assert forms[0] == forms[1]
    assert len(set(forms)) == 4


def test_a_record_reports_its_tags_and_a_restored_one_does_too(app: App) -> None:
    @app.orchestration
    async def tagging(ctx: Context) -> None:
        await ctx.event("go")
        ctx.set_tags({"stage": "paid"})
        await ctx.event("go")

    driver = Driver(app)
    _start(driver, "tagging", {"customer": "acme"})
    driver.raise_event("go")
    record = InstanceRecord("test")
    record.add_turn(driver.instance, driver.events, driver.effects, driver.now)
    stored = record.changes()
    restored = drive(InstanceRecord.restore("test", stored["instance"]), lambda keys: [stored.get(key) for key in keys])
    for found in (record, restored):
        assert found.tags == {"customer": "acme", "stage": "paid"}
        found.saved()
        assert found.entry is not None
        assert found.entry["tags"] == {"customer": "acme", "stage": "paid"}
