"""Code that departs from its history is found, and the error names the step and the line."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import App
from holdfast.errors import NonDeterminism
from holdfast.orchestration.core.effects import CancelActivity, CancelSubOrchestration, NotifyParent
from holdfast.orchestration.core.instance import Blocked
from holdfast.orchestration.core.json_records import Parent
from holdfast.orchestration.core.limits import Limits
from holdfast.orchestration.core.messages import Start
from holdfast.orchestration.core.outcome import cancelled_without_code
from holdfast.orchestration.core.replayer import verify_history
from holdfast.orchestration.status import Status
from tests.unit.orchestration.driver import Driver

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


def blocked(driver: Driver, app: App | None = None) -> dict[str, Any]:
    """Why the instance cannot be brought back with this app."""
    with pytest.raises(Blocked) as blocked:
        driver.rebuild(app)
    return blocked.value.reason


@pytest.mark.parametrize(
    ("after", "expected", "found", "line"),
    [
        (another_activity, "event 2, ActivityScheduled (a)", "ActivityScheduled (x)", 'ctx.call("x")'),
        (another_activity_in_gather, "event 4, ActivityScheduled (b)", "ActivityScheduled (x)", 'ctx.call("x")'),
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
    reason = blocked(driver, an_app(after))
    assert reason["kind"] == "non_determinism"
    assert reason["expected"].startswith(expected)
    assert reason["found"].startswith(found)
    assert reason["message"] == (
        "The code does not do what its history says it did. Code that runs on old histories must make the same calls "
        "at the same steps; give changed code a new version."
    )
    assert reason["line"] is None if line is None else _line(after, line) in reason["line"]
    with pytest.raises(NonDeterminism) as raised:
        verify_history(an_app(after).registry, "test", driver.history)
    # A test that replays a history shows nothing else.
    assert f"The history has: {reason['expected']}. The code does: {reason['found']}." in str(raised.value)
    assert line is None or reason["line"] in str(raised.value)


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


def test_what_it_left_open_is_called_off_without_its_code_and_its_parent_told() -> None:
    async def first(ctx: Context) -> None:
        await asyncio.gather(ctx.call("done"), ctx.call("open"), ctx.sub("child", instance_id="c"))

    parent = Parent(instance_id="p", execution_id=1, scheduled_seq=2)
    driver = Driver(an_app(first))
    driver.deliver(Start(name="orchestration", input="null", seed="", parent=parent))
    driver.complete(2)
    events, effects = cancelled_without_code("test", driver.history, "no code", driver.now)
    assert [event.seq for event in events] == [6 + number for number in range(2)]
    assert [event.type for event in events] == ["CancelRequested", "OrchestrationCancelled"]
    assert [type(effect) for effect in effects] == [CancelActivity, CancelSubOrchestration, NotifyParent]
    itself = Parent(instance_id="test", execution_id=1, scheduled_seq=4, incarnation="")
    assert effects[1] == CancelSubOrchestration(instance_id="c", parent=itself, reason="no code")


def test_time_of_the_machine_is_found_out() -> None:
    """A common mistake: a decision depends on a value that is not in the history."""
    runs: list[float] = []

    async def careless(ctx: Context) -> None:
        runs.append(time.time())
        await ctx.call("even" if len(runs) % 2 else "odd")

    driver = Driver(an_app(careless))
    driver.start("orchestration")
    reason = blocked(driver)
    assert "ActivityScheduled (even)" in reason["expected"]
    assert "ActivityScheduled (odd)" in reason["found"]


def test_code_that_is_not_here_does_not_fail_the_instance() -> None:
    driver = Driver(an_app(before))
    driver.start("orchestration")
    for app in (App(), an_app(before, version="2")):
        reason = blocked(driver, app)
        assert reason["kind"] == "missing_orchestration"
        assert "orchestration" in reason["message"]


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


def spins(ctx: Context) -> None:
    while True:
        len(ctx.instance_id)


async def runs_on(ctx: Context) -> None:
    spins(ctx)


def naps() -> None:
    while True:
        time.sleep(0.01)


async def blocks_its_process(ctx: Context) -> None:
    naps()


async def takes_steps(ctx: Context) -> None:
    while True:
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("after", "limits", "body", "text"),
    [
        (runs_on, Limits(seconds=0.3), spins, "len(ctx.instance_id)"),
        (blocks_its_process, Limits(blocked_seconds=0.3), naps, "time.sleep(0.01)"),
        (takes_steps, Limits(callbacks=1000), takes_steps, "await asyncio.sleep(0)"),
    ],
    ids=["runs", "blocks", "steps"],
)
def test_code_that_never_yields_on_replay_is_shown_with_its_line(
    after: Body, limits: Limits, body: Any, text: str
) -> None:
    driver = Driver(an_app(before), limits=limits)
    driver.start("orchestration")
    reason = blocked(driver, an_app(after))
    assert (reason["kind"], reason["expected"], reason["found"]) == ("never_yields", None, None)
    found = reason["line"]
    # Of a loop of two lines, the one or the other.
    assert f", in {body.__name__}: " in found
    assert text in found or "while True:" in found
