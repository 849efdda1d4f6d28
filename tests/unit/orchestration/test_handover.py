"""The handover of one execution to the next: unread mail, and a cancellation that the code did not see."""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from pydantic_core import from_json

from holdfast import App
from holdfast.orchestration.core import history
from holdfast.orchestration.core.instance import Verdict
from holdfast.orchestration.core.messages import Cancel, RaiseEvent, Resume, Suspend
from holdfast.orchestration.status import Status
from tests.unit.orchestration.driver import Driver

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast import Context

STEPS = 60


def perpetual(body: Callable[[Context, Any], Any], given: Any, cold: bool) -> Driver:
    app = App()

    @app.orchestration(mailboxes=["mail", "other"])
    async def orchestration(ctx: Context, given: Any) -> Any:
        return await body(ctx, given)

    driver = Driver(app, cold=cold)
    driver.start("orchestration", given)
    return driver


async def collector(ctx: Context, taken: list[Any]) -> list[Any]:
    """Takes one message in each execution, until one says "end"."""
    taken.append(await ctx.receive("mail"))
    if taken[-1] != "end":
        ctx.continue_as_new(taken)
    return taken


def test_mail_that_was_held_while_suspended_reaches_the_next_executions(cold: bool) -> None:
    driver = perpetual(collector, [], cold)
    driver.deliver(Suspend())
    for letter in ("a", "b", "c"):
        assert driver.raise_event("mail", letter, letter) is Verdict.RECORDED
    driver.deliver(Resume())
    assert driver.raise_event("mail", "b", "b") is Verdict.DUPLICATE
    driver.raise_event("mail", "end")
    assert driver.output == ["a", "b", "c", "end"]


def test_mail_of_one_batch_is_kept_when_its_first_message_ends_the_execution(cold: bool) -> None:
    driver = perpetual(collector, [], cold)
    letters = [RaiseEvent(name="mail", data=f'"{letter}"') for letter in ("a", "b", "c", "end")]
    assert driver.deliver(Suspend(), *letters[:3], Resume(), letters[3]) == [Verdict.RECORDED] * 6
    assert driver.output == ["a", "b", "c", "end"]


def test_a_cancel_of_a_suspended_one_reaches_the_next_execution(cold: bool) -> None:
    driver = perpetual(collector, [], cold)
    driver.deliver(Suspend())
    driver.raise_event("mail", "a")
    assert driver.deliver(Cancel(reason="enough")) == [Verdict.RECORDED]
    assert driver.status is Status.CANCELLED
    assert isinstance(driver.instance.ending, history.OrchestrationCancelled)
    assert driver.instance.ending.reason == "enough"
    assert driver.instance.execution_id == 2


def test_the_next_execution_may_refuse_the_cancel_it_is_handed(cold: bool) -> None:
    async def stubborn(ctx: Context, taken: list[Any]) -> list[Any]:
        try:
            return await collector(ctx, taken)
        except asyncio.CancelledError:
            ctx.continue_as_new([*taken, "refused"])

    driver = perpetual(stubborn, [], cold)
    driver.deliver(Suspend())
    driver.raise_event("mail", "a")
    driver.deliver(Cancel())
    assert driver.status is Status.RUNNING
    driver.raise_event("mail", "end")
    assert driver.output == ["a", "refused", "end"]


@pytest.mark.parametrize("grouped", [False, True])
def test_a_cancel_that_meets_only_clean_up_reaches_the_next_execution(cold: bool, grouped: bool) -> None:
    async def careful(ctx: Context, given: int) -> None:
        async def background() -> None:
            try:
                await ctx.event("never")
            finally:
                await ctx.call("clean up")

        if ctx.execution_id > 1:
            await ctx.event("never")
        if grouped:
            async with asyncio.TaskGroup() as group:
                group.create_task(background())
                await asyncio.sleep(0)
                ctx.continue_as_new(given)
        task = asyncio.create_task(background())
        await asyncio.sleep(0)
        assert not task.done()
        ctx.continue_as_new(given)

    driver = perpetual(careful, 0, cold)
    clean_up = driver.history[-1]
    assert isinstance(clean_up, history.ActivityScheduled)
    assert driver.deliver(Cancel(reason="now")) == [Verdict.RECORDED]
    if driver.status is Status.RUNNING:
        driver.complete(clean_up.seq)
    assert driver.status is Status.CANCELLED
    assert isinstance(driver.instance.ending, history.OrchestrationCancelled)
    assert driver.instance.ending.reason == "now"


def test_a_cancel_that_the_code_has_refused_is_not_handed_on(cold: bool) -> None:
    async def stubborn(ctx: Context, given: int) -> str:
        try:
            await ctx.event("word")
        except asyncio.CancelledError:
            ctx.continue_as_new(given + 1)
        return f"execution {ctx.execution_id}"

    driver = perpetual(stubborn, 0, cold)
    driver.deliver(Cancel())
    assert driver.status is Status.RUNNING
    driver.raise_event("word")
    assert driver.output == "execution 2"


@pytest.mark.parametrize("seed", range(150))
def test_no_interleaving_loses_mail_or_a_cancel(seed: int, cold: bool) -> None:
    """Suspend, resume, mail, answers of activities and a cancel in any order."""
    random = Random(seed)

    async def worker(ctx: Context, taken: list[int]) -> list[int]:
        ctx.set_status(taken)
        for _ in range(given["takes"]):
            taken.append(await ctx.receive("mail", int))
            ctx.set_status(taken)
            if given["calls"]:
                await ctx.call("step")
        ctx.continue_as_new(taken)

    given = {"takes": random.randrange(1, 4), "calls": random.random() < 0.5}
    driver = perpetual(worker, [], cold)
    sent: list[int] = []
    answered: set[tuple[int, int]] = set()

    def calls() -> list[history.ActivityScheduled]:
        return [
            event
            for event in driver.history
            if isinstance(event, history.ActivityScheduled) and (event.execution_id, event.seq) not in answered
        ]

    def answer() -> None:
        if found := calls():
            answered.add((found[0].execution_id, found[0].seq))
            driver.complete(found[0].seq)

    for _ in range(STEPS):
        step = random.choice(["mail", "mail", "mail", "suspend", "resume", "answer", "answer"])
        if step == "mail":
            sent.append(len(sent))
            assert driver.raise_event("mail", sent[-1], str(sent[-1])) is Verdict.RECORDED
        elif step == "answer":
            answer()
        else:
            driver.deliver(Suspend() if step == "suspend" else Resume())
    cancelled = random.random() < 0.5
    if cancelled:
        assert driver.deliver(Cancel()) == [Verdict.RECORDED]
        assert driver.status is Status.CANCELLED
        return
    driver.deliver(Resume())
    while calls():
        answer()
    assert from_json(driver.instance.custom_status or "null") == sent
