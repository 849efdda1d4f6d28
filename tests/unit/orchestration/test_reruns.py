"""Reruns of one instance without a host: what is copied, what runs again, and what the new instance has of its own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import App, Context
from holdfast.errors import ActivityFailed, Conflict, InvalidRequest, UnknownOrchestration
from holdfast.orchestration.core import history
from holdfast.orchestration.core.copies import cut
from holdfast.orchestration.core.effects import RunActivity, StartSubOrchestration
from holdfast.orchestration.core.instance import Blocked, Instance
from holdfast.orchestration.status import Status
from tests.unit.orchestration.driver import Driver

if TYPE_CHECKING:
    from holdfast.orchestration.core.instance import TurnResult


class Rerun(Driver):
    """A rerun of what another driver has."""

    def __init__(self, source: Driver, from_seq: int | None, *, cold: bool, version: str | None = None) -> None:
        super().__init__(source.app, "again", cold=cold)
        self.now = source.now + 1000
        copy = cut(source.instance.instance_id, source.history, from_seq)
        instance, begun = Instance.rerun(self.app.registry, "again", copy, self.now, seed="own", version=version)
        self.instance = instance
        self.begun: TurnResult = begun
        self.events += begun.events
        self.effects += begun.effects
        if cold:
            self.rebuild()

    @property
    def dispatched(self) -> list[Any]:
        """The inputs of the activities, and the ids of the children, that it began with."""
        kinds = {RunActivity: "input", StartSubOrchestration: "instance_id"}
        return [getattr(effect, kinds[type(effect)]) for effect in self.begun.effects if type(effect) in kinds]


def test_after_a_failure_the_other_answers_are_kept(app: App, cold: bool) -> None:
    @app.orchestration
    async def all_of(ctx: Context) -> list[Any]:
        calls = [ctx.call("act", number) for number in range(3)]
        found = await asyncio.gather(*calls, asyncio.sleep(5, "slept"), ctx.event("go"), return_exceptions=True)
        return [str(one) for one in found]

    source = Driver(app, cold=cold)
    source.start("all_of")
    source.complete(2, "first")
    source.fail(3, ValueError("no"))
    source.pass_time(5)
    source.raise_event("go", "gone")
    source.complete(4, "third")
    assert source.output == ["first", "The activity act failed: ValueError: no", "third", "slept", "gone"]
    rerun = Rerun(source, None, cold=cold)
    assert rerun.dispatched == ["1"]
    assert rerun.types[:8] == [*source.types[:7], "TimerFired"]
    assert [event.timestamp for event in rerun.history[7:10]] == [event.timestamp for event in source.history[8:11]]
    rerun.complete(3, "second")
    assert rerun.output == ["first", "second", "third", "slept", "gone"]


def test_a_failure_that_the_code_caught_is_tried_again_as_well(app: App, cold: bool) -> None:
    @app.orchestration
    async def caught(ctx: Context) -> str:
        try:
            return str(await ctx.call("act"))
        except ActivityFailed:
            return str(await ctx.call("other"))

    source = Driver(app, cold=cold)
    source.start("caught")
    source.fail(2, ValueError("no"))
    source.complete(4, "other")
    rerun = Rerun(source, None, cold=cold)
    assert rerun.types == ["OrchestrationStarted", "ActivityScheduled"]
    rerun.complete(2, "well")
    assert rerun.output == "well"


def test_refusals(app: App) -> None:
    @app.orchestration
    async def plain(ctx: Context, number: int) -> int:
        return number

    @app.orchestration(name="plain", version="2")
    async def changed(ctx: Context, number: str) -> str:
        return number

    source = Driver(app)
    source.start("plain", 1, "1")
    with pytest.raises(Conflict, match="has failed"):
        Rerun(source, None, cold=False)
    for wrong in (0, 3):
        with pytest.raises(InvalidRequest, match=f"no event {wrong}"):
            Rerun(source, wrong, cold=False)
    with pytest.raises(UnknownOrchestration):
        Rerun(source, 1, cold=False, version="3")
    with pytest.raises(InvalidRequest, match="input"):
        Rerun(source, 1, cold=False, version="2")


def test_code_that_does_not_fit_the_copied_events_makes_no_instance(app: App) -> None:
    @app.orchestration
    async def changing(ctx: Context) -> None:
        await ctx.call("act")
        await ctx.call("more")

    @app.orchestration(name="changing", version="2")
    async def changed(ctx: Context) -> None:
        await ctx.call("other")
        await ctx.call("more")

    source = Driver(app)
    source.start("changing", version="1")
    source.complete(2)
    with pytest.raises(Blocked):
        Rerun(source, 4, cold=False, version="2")
    rerun = Rerun(source, 2, cold=True, version="2")
    assert rerun.history[-1].name == "other"  # type: ignore[attr-defined]


def test_within_a_step_its_other_calls_are_made_anew(app: App, cold: bool) -> None:
    @app.orchestration
    async def several(ctx: Context) -> list[Any]:
        ctx.set_tags({"stage": "begun"})
        return await asyncio.gather(*(ctx.call("act", number) for number in range(4)))

    source = Driver(app, cold=cold)
    source.start("several")
    rerun = Rerun(source, 4, cold=cold)
    assert sorted(rerun.dispatched) == ["0", "1", "2", "3"]
    assert rerun.types == source.types
    for seq in (3, 4, 5, 6):
        rerun.complete(seq, seq)
    assert rerun.output == [3, 4, 5, 6]


def test_timers_keep_their_moments_and_the_random_numbers_their_seed(app: App, cold: bool) -> None:
    @app.orchestration
    async def sleeping(ctx: Context) -> list[Any]:
        began = ctx.now()
        await asyncio.gather(asyncio.sleep(10), asyncio.sleep(10), asyncio.sleep(5000))
        return [(ctx.now() - began).total_seconds(), str(ctx.uuid()), ctx.random(), ctx.instance_id]

    source = Driver(app, cold=cold)
    source.start("sleeping")
    source.wait()
    source.deliver()
    source.wait()
    source.deliver()
    elapsed, *drawn, name = source.output
    assert (elapsed, name) == (5000, "test")
    # From between the two timers that fired together: both fire in one step again.
    rerun = Rerun(source, 6, cold=cold)
    assert [event.timestamp for event in rerun.history] == [event.timestamp for event in source.history[:6]]
    rerun.deliver()
    assert rerun.output == [6000, *drawn, "again"]
    assert rerun.types == source.types


def test_calls_of_copied_steps_name_the_source_and_later_ones_the_rerun(app: App, cold: bool) -> None:
    @app.orchestration
    async def naming(ctx: Context) -> list[str]:
        calls = (ctx.call("act", f"{ctx.instance_id} {number}") for number in range(2))
        await asyncio.gather(*calls)
        return [ctx.instance_id, await ctx.call("act", ctx.instance_id)]

    source = Driver(app, cold=cold)
    source.start("naming")
    source.complete(2)
    source.complete(3)
    source.complete(6, "done")
    rerun = Rerun(source, 4, cold=cold)
    assert rerun.dispatched == ['"test 0"', '"test 1"']
    rerun.complete(2)
    rerun.complete(3)
    rerun.complete(6, "done")
    assert rerun.output == ["again", "done"]
    assert Rerun(source, 2, cold=cold).dispatched == ['"again 0"', '"again 1"']


def test_children_without_an_answer_get_new_ids_also_with_one_from_the_code(app: App, cold: bool) -> None:
    @app.orchestration
    async def child(ctx: Context, number: int) -> int:
        return number

    @app.orchestration
    async def family(ctx: Context) -> list[int]:
        names = (None, None, "named", None)
        found = await asyncio.gather(*(ctx.sub(child, number, instance_id=name) for number, name in enumerate(names)))
        return [*found, await ctx.sub(child, 4)]

    source = Driver(app, cold=cold)
    source.start("family")
    source.complete_sub(2, 10)
    names = [event.instance_id for event in source.history if isinstance(event, history.SubOrchestrationScheduled)]
    for from_seq in (4, 6):
        rerun = Rerun(source, from_seq, cold=cold)
        assert not {*rerun.dispatched} & ({*names} - {"named"})
        assert ("named" in rerun.dispatched) is (from_seq == 4)
        assert len(rerun.dispatched) == 4
    rerun = Rerun(source, 6, cold=cold)
    for seq in (2, 3, 4, 5):
        rerun.complete_sub(seq, 10 * seq)
    rerun.complete_sub(10, 4)
    assert rerun.output == [20, 30, 40, 50, 4]


def test_a_detached_child_of_a_copied_step_is_not_started_again(app: App, cold: bool) -> None:
    @app.orchestration
    async def child(ctx: Context) -> None:
        pass

    @app.orchestration
    async def starting(ctx: Context) -> str:
        name = await ctx.sub(child, detached=True)
        await ctx.event("go")
        return str(name)

    source = Driver(app, cold=cold)
    source.start("starting")
    source.raise_event("go")
    rerun = Rerun(source, 4, cold=cold)
    assert rerun.dispatched == []
    rerun.raise_event("go")
    assert rerun.output == source.output


def test_mail_and_requests_of_the_copied_events_are_there_and_later_ones_are_not(app: App, cold: bool) -> None:
    @app.orchestration(mailboxes=["letters"], requests=["ask"])
    async def reading(ctx: Context) -> list[Any]:
        found = []
        while (letter := await ctx.receive("letters")) != "end":
            request = await ctx.request("ask")
            request.reply(f"{request.data} {letter}")
            found.append(letter)
        return found

    source = Driver(app, cold=cold)
    source.start("reading")
    source.request("ask", "one", "1")
    source.request("ask", "two", "2")
    source.raise_event("letters", "a")
    source.raise_event("letters", "b")
    source.raise_event("letters", "end")
    assert source.output == ["a", "b"]
    # Event 5 is the answer to the first request, event 6 the second letter.
    rerun = Rerun(source, 6, cold=cold)
    assert (rerun.answer("1"), rerun.answer("2")) == ("one a", None)
    assert rerun.request("ask", "again", "1").value == "duplicate"  # type: ignore[union-attr]
    rerun.raise_event("letters", "other")
    assert rerun.answer("2") == "two other"
    rerun.raise_event("letters", "end")
    assert rerun.output == ["a", "other"]


def test_a_request_is_answered_by_the_rerun_if_its_answer_is_not_copied(app: App, cold: bool) -> None:
    @app.orchestration(requests=["ask"])
    async def answering(ctx: Context) -> None:
        request = await ctx.request("ask")
        request.reply(await ctx.call("act"))
        await ctx.event("never")

    source = Driver(app, cold=cold)
    source.start("answering")
    source.request("ask")
    source.complete(3, "source")
    rerun = Rerun(source, 4, cold=cold)
    rerun.complete(3, "rerun")
    assert (source.answer(), rerun.answer()) == ("source", "rerun")


def test_patches_as_far_as_their_steps_are_copied(app: App, cold: bool) -> None:
    old = App()

    @old.orchestration(name="patching")
    async def before(ctx: Context) -> None:
        await ctx.call("old")
        await ctx.call("last")

    @app.orchestration(name="patching")
    async def after(ctx: Context) -> None:
        await ctx.call("new" if ctx.patched("changed") else "old")
        await ctx.call("last")

    source = Driver(old)
    source.start("patching")
    source.complete(2)
    source.rebuild(app)
    # The step of the old call is copied; then only its event; then nothing of it.
    assert Rerun(source, 4, cold=cold).types == [*source.types]
    assert Rerun(source, 3, cold=cold).types == source.types[:2]
    assert Rerun(source, 2, cold=cold).types == ["OrchestrationStarted", "PatchMarked", "ActivityScheduled"]
    patched = Driver(app, cold=cold)
    patched.start("patching")
    patched.complete(3)
    for from_seq in range(1, 6):
        rerun = Rerun(patched, from_seq, cold=cold)
        assert rerun.types[:3] == patched.types[:3]


def test_a_time_limit_begins_anew_and_a_suspension_is_copied(app: App, cold: bool) -> None:
    @app.orchestration(timeout_seconds=60)
    async def limited(ctx: Context) -> Any:
        return await ctx.event("go")

    source = Driver(app, cold=cold)
    source.start("limited")
    source.pass_time(60)
    assert source.status is Status.FAILED
    rerun = Rerun(source, 3, cold=cold)
    started = rerun.history[0]
    assert isinstance(started, history.OrchestrationStarted)
    assert started.deadline == rerun.now + 60
    rerun.pass_time(59)
    assert rerun.status is Status.RUNNING
    rerun.pass_time(1)
    assert rerun.error.kind == "timeout"


def test_a_rerun_of_an_execution_that_continued_as_new_continues_as_new(app: App, cold: bool) -> None:
    @app.orchestration(mailboxes=["letters"])
    async def collecting(ctx: Context, found: list[Any]) -> list[Any]:
        found.append([ctx.execution_id, await ctx.receive("letters"), ctx.random()])
        if len(found) < 3:
            ctx.continue_as_new(found)
        return found

    source = Driver(app, cold=cold)
    source.start("collecting", [])
    source.raise_event("letters", "a")
    rerun = Rerun(source, 1, cold=cold)
    for driver in (source, rerun):
        driver.raise_event("letters", "b")
        driver.raise_event("letters", "c")
    assert rerun.output == source.output
