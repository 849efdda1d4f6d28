"""``timeout_seconds``: the code is cancelled when they are over, may clean up for a minute, and the instance fails."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.orchestration.core import history
from holdfast.orchestration.core.effects import CancelActivity, CancelSubOrchestration, NotifyParent
from holdfast.orchestration.core.json_records import Parent
from holdfast.orchestration.core.messages import Cancel, Start, Suspend
from holdfast.orchestration.core.replayer import verify_history
from holdfast.orchestration.status import Status
from tests.unit.orchestration.driver import BEGINNING, Driver

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast import App, Context

    Body = Callable[[Context], Awaitable[Any]]

LIMIT = 100.0


@pytest.fixture
def begin(app: App, cold: bool) -> Callable[..., Driver]:
    def begin(body: Body, **options: Any) -> Driver:
        app.orchestration(name="limited", timeout_seconds=LIMIT)(body)
        driver = Driver(app, cold=cold)
        driver.deliver(Start(name="limited", input="null", seed="seed", **options))
        return driver

    return begin


def failed(driver: Driver, at: float) -> None:
    """Asserts that the instance failed with kind ``timeout`` at this time, and that its history replays."""
    assert (driver.error.kind, driver.events[-1].timestamp) == ("timeout", BEGINNING + at)
    assert driver.instance.next_moment is None
    verify_history(driver.app.registry, "test", driver.history)


async def waiting(ctx: Context) -> None:
    await ctx.event("never")


async def swallowing(ctx: Context) -> None:
    while True:
        try:
            await ctx.event("never")
        except asyncio.CancelledError:
            ctx.set_status("swallowed")


def test_it_is_cancelled_and_fails(begin: Callable[..., Driver]) -> None:
    driver = begin(waiting)
    driver.pass_time(LIMIT - 0.001)
    assert driver.status is Status.RUNNING
    driver.wait()
    failed(driver, LIMIT)
    assert str(driver.error) == "TimeoutError: Its timeout_seconds are over."
    assert driver.types[-2:] == ["CancelRequested", "OrchestrationFailed"]


def test_without_a_limit_it_waits(app: App) -> None:
    app.orchestration(waiting)
    driver = Driver(app)
    driver.start("waiting")
    assert driver.instance.next_moment is None


def test_what_it_awaits_is_cancelled_and_its_parent_is_told(begin: Callable[..., Driver]) -> None:
    async def calling(ctx: Context) -> None:
        await asyncio.gather(ctx.call("work"), ctx.sub("limited"))

    parent = Parent(instance_id="parent", execution_id=1, scheduled_seq=2, incarnation="x")
    driver = begin(calling, parent=parent)
    driver.wait()
    failed(driver, LIMIT)
    assert {type(effect) for effect in driver.effects} >= {CancelActivity, CancelSubOrchestration}
    [told] = [effect for effect in driver.effects if isinstance(effect, NotifyParent)]
    assert told.error is not None
    assert told.error.kind == "timeout"


def test_it_may_clean_up_for_a_minute(begin: Callable[..., Driver]) -> None:
    async def cleaning(ctx: Context) -> None:
        try:
            await ctx.event("never")
        finally:
            await ctx.call("release")

    driver = begin(cleaning)
    driver.wait()
    assert driver.status is Status.RUNNING
    driver.now += 59
    driver.complete(driver.history[-1].seq)
    failed(driver, LIMIT + 59)
    assert driver.types[-3:] == ["ActivityScheduled", "ActivityCompleted", "OrchestrationFailed"]


def test_an_error_of_the_clean_up_is_shown(begin: Callable[..., Driver]) -> None:
    async def failing(ctx: Context) -> None:
        try:
            await ctx.event("never")
        finally:
            raise ValueError("no way to release it")

    driver = begin(failing)
    driver.wait()
    failed(driver, LIMIT)
    assert str(driver.error) == "ValueError: no way to release it"


@pytest.mark.parametrize("late", [0.0, 1000.0])
def test_code_that_swallows_the_cancellation_is_ended_a_minute_later(begin: Callable[..., Driver], late: float) -> None:
    driver = begin(swallowing)
    driver.pass_time(LIMIT + late)
    driver.raise_event("unknown")
    driver.pass_time(59)
    assert driver.status is Status.RUNNING
    driver.wait()
    failed(driver, LIMIT + late + 60)
    assert "did not end within a minute" in driver.error.message


def test_neither_a_result_nor_a_next_execution_of_then_counts(app: App, cold: bool) -> None:
    @app.orchestration(timeout_seconds=LIMIT)
    async def returning(ctx: Context) -> int:
        try:
            return await ctx.event("never", int)
        except asyncio.CancelledError:
            return 7

    @app.orchestration(timeout_seconds=LIMIT)
    async def continuing(ctx: Context) -> None:
        try:
            await ctx.event("never")
        except asyncio.CancelledError:
            ctx.continue_as_new()

    for name in ("returning", "continuing"):
        driver = Driver(app, cold=cold)
        driver.start(name)
        driver.wait()
        failed(driver, LIMIT)


def test_a_suspended_one_fails_too(begin: Callable[..., Driver]) -> None:
    driver = begin(waiting)
    driver.deliver(Suspend())
    driver.wait()
    failed(driver, LIMIT)


def test_one_that_was_cancelled_before_may_end_as_cancelled(begin: Callable[..., Driver]) -> None:
    async def cleaning(ctx: Context) -> None:
        try:
            await ctx.event("never")
        finally:
            await asyncio.sleep(30)

    driver = begin(cleaning)
    driver.pass_time(LIMIT - 10)
    driver.deliver(Cancel(reason="enough"))
    driver.wait()
    assert (driver.status, driver.now) == (Status.CANCELLED, BEGINNING + LIMIT + 20)


def test_one_that_was_cancelled_and_goes_on_is_ended_at_the_limit(begin: Callable[..., Driver]) -> None:
    driver = begin(swallowing)
    driver.deliver(Cancel())
    driver.wait()
    failed(driver, LIMIT + 60)


def test_the_limit_is_that_of_all_executions(app: App, cold: bool) -> None:
    @app.orchestration(timeout_seconds=LIMIT)
    async def perpetual(ctx: Context) -> None:
        await asyncio.sleep(40)
        ctx.continue_as_new()

    driver = Driver(app, cold=cold)
    driver.start("perpetual")
    driver.wait()
    driver.wait()
    driver.wait()
    failed(driver, LIMIT)
    assert driver.instance.execution_id == 3


def test_the_limit_of_a_delayed_one_begins_with_its_code(begin: Callable[..., Driver]) -> None:
    driver = begin(waiting, start_at=BEGINNING + 50)
    driver.wait()
    assert driver.now == BEGINNING + 50
    driver.wait()
    failed(driver, LIMIT + 50)


def test_timers_of_before_the_limit_fire_before_it_also_when_the_host_was_down(begin: Callable[..., Driver]) -> None:
    async def napping(ctx: Context) -> None:
        await asyncio.sleep(90)
        ctx.set_status("awake")
        try:
            await asyncio.sleep(20)
        finally:
            await asyncio.sleep(5)

    driver = begin(napping)
    driver.pass_time(1000)
    assert driver.types == [
        "OrchestrationStarted",
        "TimerCreated",
        "TimerFired",
        "TimerCreated",
        "CancelRequested",
        "TimerCreated",
    ]
    driver.wait()
    failed(driver, 1005)


def test_a_completion_in_time_counts(begin: Callable[..., Driver]) -> None:
    async def napping(ctx: Context) -> str:
        await asyncio.sleep(LIMIT)
        return "done"

    driver = begin(napping)
    driver.pass_time(1000)
    assert driver.output == "done"


@pytest.mark.parametrize("wrong", [0, -1, float("nan"), float("inf")])
def test_a_limit_is_a_positive_number(app: App, wrong: float) -> None:
    with pytest.raises(ValueError, match="timeout_seconds of waiting: has to be a positive number of seconds"):
        app.orchestration(timeout_seconds=wrong)(waiting)


def test_an_old_history_without_a_limit_has_none(app: App) -> None:
    app.orchestration(waiting)
    driver = Driver(app)
    driver.start("waiting")
    started = driver.history[0]
    assert isinstance(started, history.OrchestrationStarted)
    assert started.deadline is None
