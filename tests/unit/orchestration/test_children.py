"""Orchestrations that start others, and hear of them."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from holdfast.errors import SubOrchestrationFailed
from holdfast.orchestration.core.effects import CancelSubOrchestration, NotifyParent, StartSubOrchestration
from holdfast.orchestration.core.failures import Failure
from holdfast.orchestration.core.instance import Verdict
from holdfast.orchestration.core.json_records import Parent
from holdfast.orchestration.core.messages import Cancel, Start
from holdfast.orchestration.status import Status
from tests.unit.orchestration.driver import Driver

if TYPE_CHECKING:
    from holdfast import App, Context

# Of the instance p, whose seed is "seed".
CHILD = "p:19b25856e1c1.1"


def test_sub_orchestrations(app: App, cold: bool) -> None:
    @app.orchestration
    async def child(ctx: Context, number: int) -> int: ...

    @app.orchestration
    async def parent(ctx: Context) -> list[Any]:
        try:
            await ctx.sub(child, 3, instance_id="failing")
        except SubOrchestrationFailed as error:
            reason = error.reason
        started = await ctx.sub(child, 4, detached=True)
        return [reason, started, *await asyncio.gather(ctx.sub(child, 1), ctx.sub("child", 2, version="1"))]

    driver = Driver(app, "p", cold=cold)
    driver.start("parent")
    driver.fail_sub(2, Failure(type="ValueError", message="odd"))
    detached, first, second = driver.history[-3:]
    driver.complete_sub(first.seq, 10)
    assert driver.complete_sub(detached.seq, 0) is Verdict.DUPLICATE
    driver.complete_sub(second.seq, 20)
    assert driver.output == ["odd", f"{CHILD}.1", 10, 20]
    starts = [effect for effect in driver.effects if isinstance(effect, StartSubOrchestration)]
    assert [(start.instance_id, start.input, start.version, start.parent) for start in starts] == [
        ("failing", "3", "1", Parent(instance_id="p", execution_id=1, scheduled_seq=2, incarnation="seed")),
        (f"{CHILD}.1", "4", "1", None),
        (f"{CHILD}.2", "1", "1", Parent(instance_id="p", execution_id=1, scheduled_seq=first.seq, incarnation="seed")),
        (f"{CHILD}.3", "2", "1", Parent(instance_id="p", execution_id=1, scheduled_seq=second.seq, incarnation="seed")),
    ]


def test_names_of_children_do_not_grow_beyond_what_an_id_may_have(app: App) -> None:
    @app.orchestration
    async def child(ctx: Context) -> None:
        await ctx.sub(child)

    driver = Driver(app, "p" * 253)
    driver.start("child")
    [start] = driver.effects
    assert isinstance(start, StartSubOrchestration)
    assert UUID(start.instance_id)


def test_a_child_that_is_no_longer_wanted_is_cancelled(app: App, cold: bool) -> None:
    @app.orchestration
    async def child(ctx: Context) -> None: ...

    @app.orchestration
    async def parent(ctx: Context) -> str:
        try:
            await asyncio.wait_for(ctx.sub(child, instance_id="slow"), 5)
        except TimeoutError:
            return "gave up"
        return "?"

    driver = Driver(app, cold=cold)
    driver.start("parent")
    driver.wait()
    assert driver.output == "gave up"
    [start, cancel] = driver.effects
    assert isinstance(start, StartSubOrchestration)
    assert isinstance(cancel, CancelSubOrchestration)
    # The child knows its parent by the first, and compares it with the second.
    assert start.parent is not None
    assert (cancel.instance_id, cancel.parent, cancel.parent.incarnation) == ("slow", start.parent, "seed")


@pytest.mark.parametrize("how", ["completed", "failed", "cancelled"])
def test_a_parent_is_told_how_it_ended(app: App, how: str, cold: bool) -> None:
    @app.orchestration
    async def child(ctx: Context) -> int:
        await asyncio.sleep(1)
        if how == "failed":
            raise ValueError("odd")
        if how == "cancelled":
            raise asyncio.CancelledError
        return 5

    parent = Parent(instance_id="p", execution_id=3, scheduled_seq=17)
    driver = Driver(app, cold=cold)
    driver.deliver(Start(name="child", input="null", seed="s", parent=parent))
    assert driver.effects == []
    driver.wait()
    [told] = driver.effects
    assert isinstance(told, NotifyParent)
    assert told.parent == parent
    if how == "completed":
        assert (told.result, told.error) == ("5", None)
    else:
        assert told.error is not None
        assert told.error.kind == ("error" if how == "failed" else "cancelled")


def test_an_abandoned_child_goes_on_when_its_parent_ends_or_stops_waiting(app: App, cold: bool) -> None:
    @app.orchestration
    async def child(ctx: Context) -> None: ...

    @app.orchestration
    async def parent(ctx: Context) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(10):
                await asyncio.gather(
                    ctx.sub(child, instance_id="given-up"),
                    ctx.sub(child, instance_id="left-behind", on_parent_end="abandon"),
                )
        tasks = [
            asyncio.ensure_future(ctx.sub(child, instance_id="cancelled", on_parent_end="cancel")),
            asyncio.ensure_future(ctx.sub(child, instance_id="abandoned", on_parent_end="abandon")),
        ]
        await asyncio.wait(tasks)

    driver = Driver(app, "p", cold=cold)
    driver.start("parent")
    driver.wait()
    driver.deliver(Cancel(reason="enough"))
    assert driver.status is Status.CANCELLED
    cancelled = [effect.instance_id for effect in driver.effects if isinstance(effect, CancelSubOrchestration)]
    assert cancelled == ["given-up", "cancelled"]
    # It is awaited like any other: its parent hears of its end.
    [abandoned] = [
        effect
        for effect in driver.effects
        if isinstance(effect, StartSubOrchestration) and effect.instance_id == "abandoned"
    ]
    assert abandoned.parent is not None


def test_the_outcome_of_an_abandoned_child_is_awaited(app: App, cold: bool) -> None:
    @app.orchestration
    async def child(ctx: Context) -> int: ...

    @app.orchestration
    async def parent(ctx: Context) -> int:
        return await ctx.sub(child, on_parent_end="abandon")

    driver = Driver(app, "p", cold=cold)
    driver.start("parent")
    driver.complete_sub(2, 7)
    assert driver.output == 7


def test_another_policy_is_refused(app: App, cold: bool) -> None:
    @app.orchestration
    async def parent(ctx: Context) -> None:
        await ctx.sub("parent", on_parent_end="kill")  # type: ignore[call-overload]

    driver = Driver(app, "p", cold=cold)
    driver.start("parent")
    assert (driver.error.type, driver.error.message) == ("ValueError", "on_parent_end is 'cancel' or 'abandon'.")
