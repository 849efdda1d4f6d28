"""The verdict on each message: a duplicate of a recorded message changes nothing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from pydantic import BaseModel

from holdfast import App
from holdfast.errors import InvalidRequest, NotFound, OrchestrationEnded, UnknownOrchestration
from holdfast.orchestration.core import history
from holdfast.orchestration.core.effects import RunActivity
from holdfast.orchestration.core.instance import Verdict
from holdfast.orchestration.core.messages import ActivityOutcome, Cancel, RaiseEvent, Resume, Start, Suspend
from holdfast.orchestration.status import Status
from tests.unit.orchestration.driver import BEGINNING, Driver

if TYPE_CHECKING:
    from holdfast import Context

app = App()


class Order(BaseModel):
    id: int
    lines: list[str] = []


@app.activity
async def charge(order: Order) -> str: ...


@app.orchestration
async def checkout(ctx: Context, order: Order) -> str:
    receipt = await ctx.call(charge, order)
    approval: str = await ctx.event("approved", str)
    await asyncio.sleep(10)
    return f"{receipt} {approval} {order.id}"


@pytest.fixture(params=[False, True], ids=["kept", "rebuilt"])
def driver(request: pytest.FixtureRequest) -> Driver:
    return Driver(app, cold=request.param)


def test_one_after_the_other(driver: Driver) -> None:
    assert driver.status is Status.PENDING
    assert driver.start("checkout", {"id": 7}) is Verdict.RECORDED
    assert driver.effects == [
        RunActivity(
            execution_id=1,
            scheduled_seq=2,
            name="charge",
            input='{"id":7,"lines":[]}',
            queue="activities",
            attempt=1,
        )
    ]
    assert driver.status is Status.RUNNING
    assert driver.complete(2, "paid") is Verdict.RECORDED
    assert driver.raise_event("approved", "by ann") is Verdict.RECORDED
    assert driver.instance.next_moment == BEGINNING + 10
    driver.pass_time(9.99)
    assert driver.status is Status.RUNNING
    driver.pass_time(0.01)
    assert driver.output == "paid by ann 7"
    assert driver.status is Status.COMPLETED
    assert driver.instance.next_moment is None
    assert driver.types == [
        "OrchestrationStarted",
        "ActivityScheduled",
        "ActivityCompleted",
        "EventSubscribed",
        "EventRaised",
        "TimerCreated",
        "TimerFired",
        "OrchestrationCompleted",
    ]
    assert [event.seq for event in driver.history] == list(range(1, 9))


def test_a_second_start_changes_nothing(driver: Driver) -> None:
    driver.start("checkout", {"id": 7})
    events = len(driver.events)
    assert driver.start("checkout", {"id": 8}) is Verdict.DUPLICATE
    assert len(driver.events) == events


def test_an_unknown_name_is_not_found(driver: Driver) -> None:
    for reply in (driver.start("nonsense"), driver.start("checkout", {"id": 7}, version="2")):
        assert isinstance(reply, UnknownOrchestration)
        assert reply.status == 404
    assert driver.events == []
    assert driver.status is Status.PENDING


def test_an_input_of_the_wrong_shape_is_refused(driver: Driver) -> None:
    reply = driver.start("checkout", {"id": "seven"})
    assert isinstance(reply, InvalidRequest)
    assert "input: id:" in str(reply)
    assert driver.events == []
    assert driver.start("checkout", {"id": 7}) is Verdict.RECORDED


def test_a_completion_that_comes_again_changes_nothing(driver: Driver) -> None:
    driver.start("checkout", {"id": 7})
    first = driver.completion(2, "paid")
    assert driver.deliver(first, first) == [Verdict.RECORDED, Verdict.DUPLICATE]
    events = list(driver.events)
    assert driver.deliver(first, driver.completion(2, "paid twice")) == [Verdict.DUPLICATE] * 2
    assert driver.fail(2, ValueError("late")) is Verdict.DUPLICATE
    assert driver.events == events


def test_a_completion_nobody_scheduled_changes_nothing(driver: Driver) -> None:
    driver.start("checkout", {"id": 7})
    events = list(driver.events)
    assert driver.complete(99, "?") is Verdict.NEVER_SCHEDULED
    assert driver.complete(0, "?") is Verdict.NEVER_SCHEDULED
    assert driver.complete(1, "?") is Verdict.DUPLICATE
    assert driver.complete_sub(2, "of another kind") is Verdict.DUPLICATE
    assert driver.events == events


def test_a_message_of_another_execution_changes_nothing(driver: Driver) -> None:
    driver.start("checkout", {"id": 7})
    events = list(driver.events)
    for execution_id in (0, 2):
        message = ActivityOutcome(execution_id=execution_id, scheduled_seq=2, result='"paid"')
        assert driver.deliver(message) == [Verdict.OTHER_EXECUTION]
    assert driver.events == events


def test_an_event_nobody_waits_for_is_dropped(driver: Driver) -> None:
    driver.start("checkout", {"id": 7})
    assert driver.raise_event("approved", "too early") is Verdict.NO_SUBSCRIBER
    driver.complete(2, "paid")
    assert driver.raise_event("refused", "another name") is Verdict.NO_SUBSCRIBER
    assert driver.raise_event("approved", "in time") is Verdict.RECORDED
    assert driver.raise_event("approved", "too late") is Verdict.NO_SUBSCRIBER
    assert "EventRaised" in driver.types
    driver.wait()
    assert driver.output == "paid in time 7"


def test_an_event_of_the_wrong_shape_is_refused_and_waited_for_further(driver: Driver) -> None:
    driver.start("checkout", {"id": 7})
    driver.complete(2, "paid")
    reply = driver.raise_event("approved", {"not": "a string"})
    assert isinstance(reply, InvalidRequest)
    assert "the event approved" in str(reply)
    assert driver.raise_event("approved", "ann") is Verdict.RECORDED


def test_messages_in_one_delivery_are_taken_in_their_order(driver: Driver) -> None:
    driver.deliver(Start(name="checkout", input='{"id":7}', seed="x"))
    replies = driver.deliver(
        RaiseEvent(name="approved", data='"too early"'),
        driver.completion(2, "paid"),
        RaiseEvent(name="approved", data='"in time"'),
        RaiseEvent(name="approved", data='"too late"'),
    )
    assert replies == [Verdict.NO_SUBSCRIBER, Verdict.RECORDED, Verdict.RECORDED, Verdict.NO_SUBSCRIBER]


def test_what_is_not_there_is_not_found(driver: Driver) -> None:
    for message in (driver.completion(2), RaiseEvent(name="a", data="1"), Cancel(), Suspend(), Resume()):
        [reply] = driver.deliver(message)
        assert isinstance(reply, NotFound)
    assert driver.events == []


def test_what_has_ended_stays_as_it_is(driver: Driver) -> None:
    driver.start("checkout", {"id": 7})
    driver.fail(2, ValueError("no money"))
    assert driver.status is Status.FAILED
    events = list(driver.events)
    assert driver.complete(2, "paid after all") is Verdict.DUPLICATE
    assert driver.start("checkout", {"id": 7}) is Verdict.DUPLICATE
    for message in (RaiseEvent(name="approved", data="1"), Cancel(), Suspend(), Resume()):
        [reply] = driver.deliver(message)
        assert isinstance(reply, OrchestrationEnded)
        assert reply.status == 409
    driver.pass_time(1000)
    assert driver.events == events


def test_a_clock_that_is_put_back_does_not_put_back_the_history(driver: Driver) -> None:
    driver.start("checkout", {"id": 7})
    driver.now -= 100
    driver.complete(2, "paid")
    driver.raise_event("approved", "x")
    assert [event.timestamp for event in driver.history] == [BEGINNING] * 6
    driver.pass_time(9)
    assert driver.status is Status.RUNNING


def test_timers_that_are_due_come_before_messages(driver: Driver) -> None:
    app = App()

    @app.orchestration
    async def patient(ctx: Context) -> str:
        try:
            async with asyncio.timeout(5):
                return str(await ctx.event("word"))
        except TimeoutError:
            return "too late"

    driver = Driver(app, cold=driver.cold)
    driver.start("patient")
    driver.now += 6
    assert driver.raise_event("word", "sent in time, came late") != Verdict.RECORDED
    assert driver.output == "too late"


def test_the_result_of_what_was_given_up_is_still_recorded(driver: Driver) -> None:
    app = App()

    @app.orchestration
    async def impatient(ctx: Context) -> str:
        try:
            async with asyncio.timeout(5):
                await ctx.call("slow")
        except TimeoutError:
            await asyncio.sleep(60)
        return "done"

    driver = Driver(app, cold=driver.cold)
    driver.start("impatient")
    assert driver.instance.waits_for_activity(1, 3)
    driver.wait()
    assert not driver.instance.waits_for_activity(1, 3)
    assert [effect.type for effect in driver.effects] == ["RunActivity", "CancelActivity"]
    assert driver.complete(3, "late") is Verdict.RECORDED
    assert isinstance(driver.history[-1], history.ActivityCompleted)
    assert driver.complete(3, "late") is Verdict.DUPLICATE
    driver.wait()
    assert driver.output == "done"


def test_the_cost_of_a_delivery_is_that_of_its_message(driver: Driver) -> None:
    """A turn returns only new events, however long the history is."""
    app = App()

    @app.orchestration
    async def long(ctx: Context) -> None:
        for number in range(50):
            await ctx.call("step", number)

    driver = Driver(app, cold=driver.cold)
    driver.start("long")
    for number in range(49):
        delivery = driver.instance.deliver([driver.completion(2 + 2 * number)], driver.now)
        assert [event.type for event in delivery.events] == ["ActivityCompleted", "ActivityScheduled"]
        assert len(delivery.effects) == 1
