"""Cancelling, suspending and resuming."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from holdfast import App
from holdfast.orchestration.core import history
from holdfast.orchestration.core.effects import CancelActivity, CancelSubOrchestration
from holdfast.orchestration.core.instance import Verdict
from holdfast.orchestration.core.messages import Cancel, Resume, Suspend
from holdfast.orchestration.status import Status
from tests.unit.orchestration.driver import Driver

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast import Context


def driven(body: Callable[[Context], Any], cold: bool) -> Driver:
    app = App()

    @app.orchestration
    async def child(ctx: Context) -> None: ...

    @app.orchestration(mailboxes=["mail"])
    async def orchestration(ctx: Context) -> Any:
        return await body(ctx)

    driver = Driver(app, cold=cold)
    driver.start("orchestration")
    return driver


def test_cancelling_raises_where_the_code_waits(cold: bool) -> None:
    async def body(ctx: Context) -> None:
        try:
            await asyncio.gather(ctx.call("slow"), ctx.sub("child", instance_id="c"), ctx.event("never"))
        except asyncio.CancelledError:
            await ctx.call("clean up")
            raise

    driver = driven(body, cold)
    assert driver.deliver(Cancel(reason="changed my mind"), Cancel()) == [Verdict.RECORDED, Verdict.DUPLICATE]
    assert driver.status is Status.RUNNING
    kinds = [type(effect) for effect in driver.effects]
    assert kinds.count(CancelActivity) == 1
    assert kinds.count(CancelSubOrchestration) == 1
    assert driver.deliver(Cancel()) == [Verdict.DUPLICATE]
    driver.complete(driver.history[-1].seq)
    assert driver.status is Status.CANCELLED
    assert isinstance(driver.instance.ending, history.OrchestrationCancelled)
    assert driver.instance.ending.reason == "changed my mind"


def test_what_refuses_to_be_cancelled_goes_on(cold: bool) -> None:
    async def body(ctx: Context) -> str:
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError as cancellation:
            return f"ended early: {cancellation.args[0]}"
        return "slept"

    driver = driven(body, cold)
    driver.deliver(Cancel(reason="now"))
    assert driver.output == "ended early: now"


def test_a_failure_while_cleaning_up_is_a_failure(cold: bool) -> None:
    async def body(ctx: Context) -> None:
        try:
            await asyncio.sleep(100)
        finally:
            raise ValueError("in clean-up")

    driver = driven(body, cold)
    driver.deliver(Cancel())
    assert driver.error.message == "in clean-up"


def test_what_still_runs_at_the_end_is_cancelled(cold: bool) -> None:
    async def body(ctx: Context) -> None:
        await asyncio.gather(asyncio.shield(ctx.sub("child", instance_id="c")), ctx.call("break"))

    driver = driven(body, cold)
    driver.fail(driver.history[-1].seq, ValueError("broken"))
    assert driver.status is Status.FAILED
    cancel = driver.effects[-1]
    assert isinstance(cancel, CancelSubOrchestration)
    assert cancel.instance_id == "c"


def test_a_suspended_one_keeps_what_comes_and_does_nothing(cold: bool) -> None:
    async def body(ctx: Context) -> list[Any]:
        called = asyncio.create_task(ctx.call("a"))
        results = [await ctx.event("word"), await called]
        await asyncio.sleep(10)
        results.append(await ctx.receive("mail"))
        return [*results, await ctx.call("b")]

    driver = driven(body, cold)
    assert driver.deliver(Suspend(reason="lunch"), Suspend()) == [Verdict.RECORDED, Verdict.DUPLICATE]
    assert driver.status is Status.SUSPENDED
    driver.now += 1
    assert driver.raise_event("word", "first") is Verdict.RECORDED
    assert driver.raise_event("word", "second") is Verdict.NO_SUBSCRIBER
    assert driver.raise_event("mail", "letter") is Verdict.RECORDED
    call = next(event for event in driver.history if isinstance(event, history.ActivityScheduled))
    assert driver.complete(call.seq, "done") is Verdict.RECORDED
    assert driver.complete(call.seq, "done") is Verdict.DUPLICATE
    events = len(driver.events)
    driver.pass_time(1000)
    assert len(driver.events) == events
    assert driver.instance.next_moment is None
    assert driver.deliver(Resume(), Resume()) == [Verdict.RECORDED, Verdict.DUPLICATE]
    assert driver.status is Status.RUNNING
    timer = driver.history[-1]
    assert isinstance(timer, history.TimerCreated)
    assert timer.fire_at == driver.now + 10
    driver.wait()
    driver.complete(driver.history[-1].seq, "b")
    assert driver.output == ["first", "done", "letter", "b"]


def test_timers_that_fell_due_fire_when_it_is_resumed(cold: bool) -> None:
    async def body(ctx: Context) -> float:
        begin = asyncio.get_running_loop().time()
        await asyncio.gather(asyncio.sleep(5), asyncio.sleep(6))
        return asyncio.get_running_loop().time() - begin

    driver = driven(body, cold)
    driver.deliver(Suspend())
    driver.pass_time(100)
    assert driver.status is Status.SUSPENDED
    driver.deliver(Resume())
    assert driver.output == 100


def test_a_suspended_one_can_be_cancelled(cold: bool) -> None:
    async def body(ctx: Context) -> None:
        await ctx.event("never")

    driver = driven(body, cold)
    driver.deliver(Suspend())
    driver.deliver(Cancel())
    assert driver.status is Status.CANCELLED


def test_what_was_held_may_end_it_before_it_is_cancelled(cold: bool) -> None:
    async def body(ctx: Context) -> str:
        return str(await ctx.event("word"))

    driver = driven(body, cold)
    driver.deliver(Suspend())
    driver.raise_event("word", "said")
    driver.deliver(Cancel())
    assert driver.output == "said"
