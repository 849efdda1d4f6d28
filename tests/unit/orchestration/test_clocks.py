"""Timers when the host's clock was wrong for a while: the history's time goes on, timers go by the host's clock."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import App
from holdfast.orchestration.core import history
from holdfast.orchestration.core.messages import Resume, Suspend
from holdfast.orchestration.status import Status
from tests.unit.orchestration.driver import BEGINNING, Driver

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast import Context

DAY = 86400.0


def driven(body: Callable[[Context], Any], cold: bool) -> Driver:
    app = App()

    @app.orchestration(mailboxes=["mail"])
    async def orchestration(ctx: Context) -> Any:
        return await body(ctx)

    driver = Driver(app, cold=cold)
    driver.start("orchestration")
    return driver


def jump(driver: Driver) -> None:
    """The clock is a day ahead for one turn."""
    driver.now += DAY
    driver.raise_event("mail", "raised on a machine whose clock is a day ahead")
    driver.now -= DAY


def test_a_sleep_after_a_clock_was_ahead_takes_as_long_as_it_says(cold: bool) -> None:
    async def body(ctx: Context) -> list[float]:
        await ctx.receive("mail")
        times = [ctx.now().timestamp()]
        for _ in range(2):
            await ctx.event("go")
            await asyncio.sleep(60)
            times.append(ctx.now().timestamp())
        return times

    driver = driven(body, cold)
    jump(driver)
    for waited in (10.0, 100.0):
        driver.now += waited
        driver.raise_event("go")
        assert driver.instance.next_moment == driver.now + 60
        driver.pass_time(59.9)
        assert driver.types[-1] == "TimerCreated"
        driver.pass_time(0.1)
    # The history's time does not go back, and moves by what was slept.
    first, second, third = driver.output
    assert first == BEGINNING + DAY
    assert second == first + 60
    assert third == second + 60


def test_a_timer_does_not_fire_early_once_the_clock_is_right_again(cold: bool) -> None:
    async def body(ctx: Context) -> str:
        await asyncio.sleep(DAY / 2)
        return "slept"

    driver = driven(body, cold)
    driver.deliver(Suspend())
    jump(driver)
    driver.deliver(Resume())
    driver.pass_time(DAY / 2 - 1)
    assert driver.status is Status.RUNNING
    driver.wait()
    assert driver.now == BEGINNING + DAY / 2
    assert driver.output == "slept"


def test_a_loop_until_a_deadline_ends_when_the_deadline_has_come(cold: bool) -> None:
    async def body(ctx: Context) -> int:
        await ctx.receive("mail")
        await ctx.event("go")
        loop = asyncio.get_running_loop()
        deadline, rounds = loop.time() + 60, 0
        while loop.time() < deadline:
            await asyncio.sleep(deadline - loop.time())
            rounds += 1
        return rounds

    driver = driven(body, cold)
    jump(driver)
    driver.raise_event("go")
    driver.wait()
    assert driver.now == BEGINNING + 60
    assert driver.output == 1


def test_timers_of_a_suspended_one_and_of_the_next_execution_go_by_the_clock(cold: bool) -> None:
    async def body(ctx: Context) -> str:
        if ctx.execution_id == 1:
            await ctx.receive("mail")
            ctx.continue_as_new()
        await asyncio.sleep(60)
        return "slept"

    driver = driven(body, cold)
    jump(driver)
    assert driver.instance.execution_id == 2
    created = driver.history[-1]
    assert isinstance(created, history.TimerCreated)
    # It was created while the clock was ahead: nothing told that it was.
    assert created.fire_at == BEGINNING + DAY + 60
    driver.deliver(Suspend())
    driver.pass_time(120)
    driver.deliver(Resume())
    assert driver.status is Status.RUNNING
    driver.wait()
    assert driver.output == "slept"


def test_the_skew_is_recorded_only_where_there_is_one(cold: bool) -> None:
    async def body(ctx: Context) -> None:
        await asyncio.sleep(60)
        await ctx.receive("mail")
        await asyncio.sleep(0.3)

    driver = driven(body, cold)
    driver.wait()
    driver.now -= 0.7
    driver.raise_event("mail")
    first, second = [event for event in driver.history if isinstance(event, history.TimerCreated)]
    assert "skew" not in first.dump()
    assert first.fire_at == BEGINNING + 60
    assert second.skew == BEGINNING + 60 - driver.now
    assert second.fire_at == pytest.approx(driver.now + 0.3)
    driver.wait()
    assert driver.status is Status.COMPLETED
