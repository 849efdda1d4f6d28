"""Patches: new runs take the new path, histories of before are replayed as they were, and each goes on from there."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import App
from holdfast.errors import InvalidRequest
from holdfast.orchestration.core.effects import RunActivity
from holdfast.orchestration.core.history import PatchMarked
from holdfast.orchestration.core.instance import Blocked
from holdfast.orchestration.core.messages import Resume, Suspend
from holdfast.orchestration.core.replayer import verify_history
from tests.unit.orchestration.driver import Driver

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast import Context

    Body = Callable[[Context], Awaitable[Any]]


def deployed(body: Body) -> App:
    app = App()
    app.orchestration(name="test")(body)
    return app


def started(body: Body, *, cold: bool = False) -> Driver:
    driver = Driver(deployed(body), cold=cold)
    driver.start("test")
    return driver


def called(driver: Driver) -> list[str]:
    return [effect.name for effect in driver.effects if isinstance(effect, RunActivity)]


def marks(driver: Driver) -> list[int]:
    return [event.seq for event in driver.history if isinstance(event, PatchMarked)]


async def before(ctx: Context) -> list[str]:
    """One activity in each round."""
    async for _ in rounds(ctx):
        await ctx.call("ship")
    return []


async def after(ctx: Context) -> list[str]:
    """The same with a tax before it."""
    async for _ in rounds(ctx):
        if ctx.patched("tax"):
            await ctx.call("tax")
        await ctx.call("ship")
    return []


async def settled(ctx: Context) -> list[str]:
    """The same when no instance needs the old path any more."""
    async for _ in rounds(ctx):
        await ctx.call("tax")
        await ctx.call("ship")
    return []


async def rounds(ctx: Context) -> Any:
    while await ctx.event("round"):
        yield


def one_round(driver: Driver) -> None:
    """Raises the event, and completes the activities of this round."""
    first = len(called(driver))
    driver.raise_event("round", True)
    done = first
    while done < len(called(driver)):
        calls = [effect for effect in driver.effects if isinstance(effect, RunActivity)]
        driver.complete(calls[done].scheduled_seq)
        done += 1


def test_a_new_run_is_patched_and_marked_once(cold: bool) -> None:
    driver = started(after, cold=cold)
    for _ in range(3):
        one_round(driver)
    assert called(driver) == ["tax", "ship"] * 3
    assert len(marks(driver)) == 1
    driver.raise_event("round", False)
    verify_history(driver.app.registry, "test", driver.history)


@pytest.mark.parametrize("rounds_before", [1, 2, 3])
def test_what_an_instance_did_before_it_does_again_and_then_the_new(rounds_before: int, cold: bool) -> None:
    driver = started(before, cold=cold)
    for _ in range(rounds_before):
        one_round(driver)
    driver.rebuild(deployed(after))
    for _ in range(2):
        one_round(driver)
    assert called(driver) == [*["ship"] * rounds_before, *["tax", "ship"] * 2]
    assert len(marks(driver)) == 1
    driver.raise_event("round", False)
    verify_history(driver.app.registry, "test", driver.history)


def test_a_deploy_in_the_midst_of_a_round_leaves_the_round_as_it_was(cold: bool) -> None:
    driver = started(before, cold=cold)
    driver.raise_event("round", True)
    driver.rebuild(deployed(after))
    driver.complete(4)
    assert called(driver) == ["ship"]
    assert marks(driver) == []
    one_round(driver)
    assert called(driver) == ["ship", "tax", "ship"]


def test_code_of_before_does_not_fit_a_marked_history() -> None:
    driver = started(after)
    driver.raise_event("round", True)
    with pytest.raises(Blocked) as blocked:
        driver.rebuild(deployed(before))
    assert (blocked.value.reason["expected"], blocked.value.reason["found"]) == (
        "event 5, ActivityScheduled (tax)",
        "ActivityScheduled (ship)",
    )


def test_the_patch_can_be_removed_when_every_history_has_the_mark(cold: bool) -> None:
    driver = started(after, cold=cold)
    one_round(driver)
    driver.rebuild(deployed(settled))
    one_round(driver)
    assert called(driver) == ["tax", "ship"] * 2
    assert marks(driver) == [4]
    assert [event.seq for event in driver.history] == list(range(1, len(driver.history) + 1))
    driver.raise_event("round", False)
    verify_history(driver.app.registry, "test", driver.history)


def test_a_removed_patch_at_the_end_of_the_history_keeps_the_numbers(cold: bool) -> None:
    async def marking(ctx: Context) -> None:
        await ctx.event("go")
        ctx.patched("a")
        await ctx.event("go")

    async def plain(ctx: Context) -> None:
        await ctx.event("go")
        await ctx.event("go")

    async def marking_last(ctx: Context) -> None:
        waiting = asyncio.ensure_future(ctx.event("go"))
        await asyncio.sleep(0)
        ctx.patched("a")
        await waiting
        await ctx.event("go")

    for body in (marking, marking_last):
        driver = started(body, cold=cold)
        if body is marking:
            driver.raise_event("go")
        driver.rebuild(deployed(plain))
        driver.raise_event("go")
        driver.raise_event("go")
        assert [event.seq for event in driver.history] == list(range(1, len(driver.history) + 1))
        verify_history(driver.app.registry, "test", driver.history)


def test_the_next_execution_is_new(cold: bool) -> None:
    async def perpetual(ctx: Context) -> None:
        await ctx.event("go")
        ctx.continue_as_new()

    async def patched_perpetual(ctx: Context) -> None:
        taken = ctx.patched("greet")
        if taken:
            await ctx.call("greet")
        await ctx.event("go")
        ctx.continue_as_new()

    driver = started(perpetual, cold=cold)
    driver.rebuild(deployed(patched_perpetual))
    driver.raise_event("go")
    assert driver.types == ["OrchestrationStarted", "PatchMarked", "ActivityScheduled"]
    driver.complete(3)
    driver.raise_event("go")
    assert driver.types == ["OrchestrationStarted", "PatchMarked", "ActivityScheduled"]


def test_concurrent_tasks_share_one_mark_and_each_keeps_its_path(cold: bool) -> None:
    async def branch(ctx: Context, name: str) -> str:
        await ctx.event(name)
        return f"{name} {ctx.patched('new')}"

    async def old_branch(ctx: Context, name: str) -> str:
        await ctx.event(name)
        return f"{name} False"

    async def branches(ctx: Context) -> list[str]:
        return await asyncio.gather(*(branch(ctx, name) for name in ("a", "b", "c")))

    async def old_branches(ctx: Context) -> list[str]:
        return await asyncio.gather(*(old_branch(ctx, name) for name in ("a", "b", "c")))

    driver = started(old_branches, cold=cold)
    driver.raise_event("b")
    driver.rebuild(deployed(branches))
    driver.raise_event("a")
    driver.raise_event("c")
    assert driver.output == ["a True", "b False", "c True"]
    assert len(marks(driver)) == 1


def test_in_one_step_every_task_takes_the_same_path(cold: bool) -> None:
    async def both(ctx: Context) -> list[bool]:
        async def ask() -> bool:
            found = ctx.patched("x")
            await ctx.call("a")
            return found

        return [*await asyncio.gather(ask(), ask()), ctx.patched("y"), ctx.patched("y")]

    driver = started(both, cold=cold)
    assert driver.types == ["OrchestrationStarted", "PatchMarked", "ActivityScheduled", "ActivityScheduled"]
    driver.complete(3)
    driver.complete(4)
    assert driver.output == [True] * 4
    assert driver.types[-2:] == ["PatchMarked", "OrchestrationCompleted"]
    verify_history(driver.app.registry, "test", driver.history)


def test_what_arrived_while_it_was_suspended_takes_the_new_path(cold: bool) -> None:
    driver = started(before, cold=cold)
    driver.deliver(Suspend())
    driver.raise_event("round", True)
    driver.rebuild(deployed(after))
    driver.deliver(Resume())
    assert called(driver) == ["tax"]
    driver.rebuild()


def test_several_patches_are_told_apart(cold: bool) -> None:
    def versions(known: tuple[str, ...]) -> Body:
        async def body(ctx: Context) -> list[str]:
            taken: list[str] = []
            while await ctx.event("round"):
                taken.append("".join(name for name in known if ctx.patched(name)))
            return taken

        return body

    driver = started(versions(()), cold=cold)
    for known in (("a",), ("a", "b"), ("b", "c")):
        driver.raise_event("round", True)
        driver.rebuild(deployed(versions(known)))
    driver.raise_event("round", True)
    driver.raise_event("round", False)
    assert driver.output == ["", "", "b", "bc"]


@pytest.mark.parametrize("wrong", ["", "a b", ".a", "x" * 256])
def test_an_id_that_is_not_valid_fails_where_it_is_given(wrong: str, cold: bool) -> None:
    async def body(ctx: Context) -> None:
        ctx.patched(wrong)

    assert started(body, cold=cold).error.type == InvalidRequest.__name__
