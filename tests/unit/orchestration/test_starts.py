"""A start in the engine: when the code begins, and the event that comes with it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.errors import InvalidRequest
from holdfast.orchestration.core.effects import RunActivity
from holdfast.orchestration.core.instance import Verdict
from holdfast.orchestration.core.messages import Cancel, RaiseEvent, Resume, Start, Suspend
from holdfast.orchestration.status import Status
from tests.unit.orchestration.driver import BEGINNING, Driver

if TYPE_CHECKING:
    from holdfast import App, Context


def _start(driver: Driver, name: str, **options: Any) -> Any:
    [reply] = driver.deliver(Start(name=name, input="null", seed="seed", **options))
    return reply


@pytest.fixture
def driver(app: App, cold: bool) -> Driver:
    @app.orchestration(mailboxes=["mail"])
    async def reading(ctx: Context) -> list[Any]:
        return [ctx.now().timestamp(), await ctx.receive("mail")]

    @app.orchestration
    async def waiting(ctx: Context) -> int:
        return await ctx.event("go", int)

    @app.orchestration
    async def calling(ctx: Context) -> None:
        await asyncio.gather(ctx.call("a"), ctx.call("b", priority=0), ctx.call("c", priority=7))

    return Driver(app, cold=cold)


def test_a_delayed_one_is_pending_until_its_time(driver: Driver) -> None:
    at = BEGINNING + 100.123456
    assert _start(driver, "reading", start_at=at) is Verdict.RECORDED
    assert (driver.status, driver.instance.next_moment) == (Status.PENDING, at)
    driver.raise_event("mail", "early")
    driver.pass_time(50)
    assert driver.status is Status.PENDING
    driver.wait()
    assert driver.output == [at, "early"]


def test_a_delayed_one_that_is_suspended_and_resumed_is_pending_again(driver: Driver) -> None:
    _start(driver, "waiting", start_at=BEGINNING + 100)
    driver.deliver(Suspend())
    assert (driver.status, driver.instance.next_moment) == (Status.SUSPENDED, None)
    driver.deliver(Resume())
    assert (driver.status, driver.instance.next_moment) == (Status.PENDING, BEGINNING + 100)
    driver.deliver(Suspend())
    driver.pass_time(200)
    driver.deliver(Resume())
    assert driver.types[-1] == "EventSubscribed"


def test_a_cancelled_one_never_begins(driver: Driver) -> None:
    _start(driver, "waiting", start_at=BEGINNING + 100)
    driver.deliver(Cancel(reason="not wanted"))
    assert driver.status is Status.CANCELLED
    assert driver.types == ["OrchestrationStarted", "TimerCreated", "CancelRequested", "OrchestrationCancelled"]


def test_the_next_execution_is_not_delayed_again(app: App, cold: bool) -> None:
    @app.orchestration
    async def again(ctx: Context) -> int:
        if ctx.execution_id == 1:
            ctx.continue_as_new()
        return ctx.execution_id

    driver = Driver(app, cold=cold)
    _start(driver, "again", start_at=BEGINNING + 100)
    driver.wait()
    assert driver.output == 2
    assert driver.types == ["OrchestrationStarted", "OrchestrationCompleted"]


def test_an_event_of_the_wrong_type_undoes_the_start(driver: Driver) -> None:
    refused = _start(driver, "waiting", event=RaiseEvent(name="go", data='"text"'))
    assert isinstance(refused, InvalidRequest)
    assert (driver.events, driver.effects, driver.status) == ([], [], Status.PENDING)
    assert _start(driver, "waiting", event=RaiseEvent(name="go", data="7")) is Verdict.RECORDED
    assert driver.output == 7


def test_a_second_start_leaves_its_event_to_the_caller(driver: Driver) -> None:
    _start(driver, "waiting")
    assert _start(driver, "waiting", event=RaiseEvent(name="go", data="7")) is Verdict.DUPLICATE
    assert driver.status is Status.RUNNING


def test_priorities(driver: Driver) -> None:
    _start(driver, "calling", priority=3)
    calls = {call.name: call.priority for call in driver.effects if isinstance(call, RunActivity)}
    assert calls == {"a": 3, "b": None, "c": 7}


@pytest.mark.parametrize("wrong", [-1, 2**31, True, 1.0, "1"])
def test_a_priority_that_is_none_fails_where_it_is_given(app: App, cold: bool, wrong: Any) -> None:
    @app.orchestration
    async def calling(ctx: Context) -> None:
        await ctx.call("a", priority=wrong)

    driver = Driver(app, cold=cold)
    _start(driver, "calling")
    assert (driver.error.type, driver.effects) == ("ValueError", [])
