"""Code that no longer does what its history says it did is told apart, with the step and the line."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import App
from holdfast.errors import NonDeterminism, UnknownOrchestration
from holdfast.orchestration.effects import CancelActivity, CancelSubOrchestration, TellParent
from holdfast.orchestration.instance import Instance, Status
from holdfast.orchestration.messages import Start
from holdfast.orchestration.records import Parent
from holdfast.orchestration.verification import verify_history
from unit.orchestration.driver import Driver

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast import Context

    Body = Callable[[Context], Any]


def an_app(body: Body, version: str = "1") -> App:
    app = App()

    @app.orchestration
    async def child(ctx: Context) -> None: ...

    @app.orchestration(version=version)
    async def orchestration(ctx: Context) -> Any:
        return await body(ctx)

    return app


async def before(ctx: Context) -> str:
    await ctx.call("a")
    await asyncio.gather(ctx.call("b"), asyncio.sleep(10))
    await ctx.event("word")
    return "done"


async def another_activity(ctx: Context) -> None:
    await ctx.call("x")


async def another_activity_in_gather(ctx: Context) -> None:
    await ctx.call("a")
    await asyncio.gather(
        ctx.call("x"),
        asyncio.sleep(10),
    )


async def another_order(ctx: Context) -> None:
    await ctx.call("a")
    await asyncio.gather(asyncio.sleep(10), ctx.call("b"))


async def one_call_less(ctx: Context) -> None:
    await ctx.call("a")
    await ctx.call("b")


async def one_call_more(ctx: Context) -> None:
    await ctx.call("a")
    await asyncio.gather(ctx.call("b"), asyncio.sleep(10), ctx.call("c"))


async def another_event(ctx: Context) -> None:
    await ctx.call("a")
    await asyncio.gather(ctx.call("b"), asyncio.sleep(10))
    await ctx.event("other")


async def ends_early(ctx: Context) -> str:
    await ctx.call("a")
    return "early"


async def raises_early(ctx: Context) -> str:
    await ctx.call("a")
    raise ValueError("new")


async def waits_for_nothing_known(ctx: Context) -> None:
    await ctx.call("a")
    await asyncio.get_running_loop().create_future()


def _line(body: Body, text: str) -> str:
    code = body.__code__
    with open(code.co_filename) as file:
        lines = file.readlines()
    for number in range(code.co_firstlineno, len(lines)):
        if text in lines[number]:
            return f"test_nondeterminism.py:{number + 1}, in {body.__name__}"
    raise AssertionError(text)


@pytest.mark.parametrize(
    ("after", "expected", "found", "line"),
    [
        (another_activity, "event 2, ActivityScheduled (a)", "ActivityScheduled (x)", 'ctx.call("x")'),
        (another_activity_in_gather, "event 4, ActivityScheduled (b)", "ActivityScheduled (x)", 'ctx.call("x")'),
        (another_order, "event 4, ActivityScheduled (b)", "TimerCreated", "await asyncio.gather"),
        (one_call_less, "event 5, TimerCreated", "nothing: it waits", 'await ctx.call("b")'),
        (one_call_more, "event 6, ActivityCompleted", "ActivityScheduled (c)", 'ctx.call("c")'),
        (another_event, "event 8, EventSubscribed (word)", "EventSubscribed (other)", 'ctx.event("other")'),
        (ends_early, "event 4, ActivityScheduled (b)", "OrchestrationCompleted", None),
        (raises_early, "event 4, ActivityScheduled (b)", "OrchestrationFailed", "raise ValueError"),
        (waits_for_nothing_known, "event 4, ActivityScheduled (b)", "nothing: it waits", "create_future"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_the_error_shows_the_step_and_the_line(after: Body, expected: str, found: str, line: str | None) -> None:
    driver = Driver(an_app(before))
    driver.start("orchestration")
    driver.complete(2)
    driver.complete(4)
    driver.wait()
    driver.rebuild(an_app(after))
    events = len(driver.events)
    assert driver.instance.next_moment is not None
    driver.deliver()
    assert driver.error.kind == "non_determinism"
    assert driver.error.type == "NonDeterminism"
    assert f"The history has: {expected}" in driver.error.message
    assert f"The code does: {found}" in driver.error.message
    if line is not None:
        assert _line(after, line) in driver.error.message
    assert len(driver.events) == events + 1
    assert driver.events[-1].seq == events + 1


def test_the_same_code_fits() -> None:
    driver = Driver(an_app(before))
    driver.start("orchestration")
    driver.complete(2)
    driver.rebuild(an_app(before))
    driver.complete(4)
    driver.wait()
    driver.raise_event("word")
    assert driver.output == "done"
    verify_history(an_app(before).registry, "test", driver.history)


def test_a_recorded_history_is_held_against_the_code_to_its_end() -> None:
    async def longer(ctx: Context) -> None:
        await before(ctx)
        await ctx.call("c")

    async def failing(ctx: Context) -> None:
        await before(ctx)
        raise ValueError

    driver = Driver(an_app(before))
    driver.start("orchestration")
    driver.complete(2)
    driver.complete(4)
    driver.wait()
    driver.raise_event("word")
    for changed in (longer, failing):
        with pytest.raises(NonDeterminism, match="event 10, OrchestrationCompleted"):
            verify_history(an_app(changed).registry, "test", driver.history)
    with pytest.raises(NonDeterminism, match="begins with"):
        verify_history(an_app(before).registry, "test", driver.history[1:])


def test_what_it_left_open_is_called_off_and_its_parent_told() -> None:
    async def first(ctx: Context) -> None:
        await asyncio.gather(ctx.call("done"), ctx.call("open"), ctx.sub("child", instance_id="c"))

    parent = Parent(instance_id="p", execution_id=1, scheduled_seq=2)
    driver = Driver(an_app(first))
    driver.deliver(Start(name="orchestration", input="null", seed="", parent=parent))
    driver.complete(2)
    driver.effects.clear()
    driver.rebuild(an_app(another_activity))
    driver.deliver()
    assert driver.status is Status.FAILED
    assert [type(effect) for effect in driver.effects] == [CancelActivity, CancelSubOrchestration, TellParent]
    assert driver.effects[1] == CancelSubOrchestration(instance_id="c")


def test_time_of_the_machine_is_found_out() -> None:
    """What people do: a decision that hangs on something that is not in the history."""
    runs: list[float] = []

    async def careless(ctx: Context) -> None:
        runs.append(time.time())
        await ctx.call("even" if len(runs) % 2 else "odd")

    driver = Driver(an_app(careless))
    driver.start("orchestration")
    driver.rebuild()
    driver.deliver()
    assert "ActivityScheduled (even)" in driver.error.message
    assert "ActivityScheduled (odd)" in driver.error.message


def test_code_that_is_not_here_does_not_fail_the_instance() -> None:
    driver = Driver(an_app(before))
    driver.start("orchestration")
    for app in (App(), an_app(before, version="2")):
        with pytest.raises(UnknownOrchestration):
            Instance.restore(app.registry, "test", driver.history)


def test_an_instance_goes_on_with_the_version_it_began_with() -> None:
    app = an_app(before)

    @app.orchestration(name="orchestration", version="2")
    async def changed(ctx: Context) -> str:
        return "new"

    old = Driver(app)
    old.start("orchestration", version="1")
    old.rebuild()
    old.complete(2)
    assert old.status is Status.RUNNING
    new = Driver(app)
    new.start("orchestration")
    assert new.output == "new"
    assert new.instance.started is not None
    assert new.instance.started.version == "2"


def test_what_has_ended_needs_no_code() -> None:
    driver = Driver(an_app(ends_early))
    driver.start("orchestration")
    driver.complete(2)
    driver.rebuild(App())
    assert driver.output == "early"
