"""Recorded values that no longer fit the type the code declares: the instance is BLOCKED, and names value and field."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from holdfast import App, Context
from tests.support.simulated import on_simulated_host
from tests.unit.orchestration.redeployment import ROWS, Stage


class Order(BaseModel):
    total: int


class Dated(Order):
    day: str


LETTERS = 200
MISSING = "it does not fit its type: day: Field required"


def an_app(kind: Any = Order) -> App:
    app = App()

    @app.activity
    async def price() -> kind: ...

    @app.orchestration
    async def of_input(ctx: Context, order: kind) -> Any:
        return [order.total, await ctx.event("go")]

    @app.orchestration
    async def of_result(ctx: Context) -> Any:
        order = await ctx.call(price)
        return [order.total, await ctx.event("go")]

    @app.orchestration
    async def of_caught_result(ctx: Context) -> Any:
        try:
            order = await ctx.call(price)
        except Exception:
            return [None, await ctx.event("go")]
        return [order.total, await ctx.event("go")]

    @app.orchestration
    async def of_gathered_result(ctx: Context) -> Any:
        [order, data] = await asyncio.gather(ctx.call(price), ctx.event("go"), return_exceptions=True)
        return [order.total if isinstance(order, Order) else None, data]

    @app.orchestration
    async def offspring(ctx: Context) -> kind:
        return kind(total=1, day="today")

    @app.orchestration
    async def of_child(ctx: Context) -> Any:
        order = await ctx.sub(offspring)
        return [order.total, await ctx.event("go")]

    @app.orchestration
    async def of_event(ctx: Context) -> Any:
        order = await ctx.event("order", kind)
        return [order.total, await ctx.event("go")]

    @app.orchestration(mailboxes=["orders"])
    async def of_mail(ctx: Context) -> Any:
        order = await ctx.receive("orders", kind)
        return [order.total, await ctx.event("go")]

    @app.orchestration(mailboxes=["orders"])
    async def of_skipped_mail(ctx: Context) -> Any:
        """Mail that does not fit is passed over."""
        found: list[int] = []
        while True:
            try:
                order = await ctx.receive("orders", kind)
            except ValidationError:
                continue
            found.append(order.total)
            if order.total == 0:
                return found

    @app.orchestration(mailboxes=["orders"])
    async def one_each(ctx: Context, order: kind) -> Any:
        """One mail in each execution."""
        if order.total == 0:
            await ctx.event("go")
        await ctx.receive("orders")
        if order.total < LETTERS - 1:
            ctx.continue_as_new(kind(total=order.total + 1))
        return await ctx.event("end")

    return app


on_stage = on_simulated_host(partial(Stage, an_app))


async def give(stage: Stage, name: str) -> None:
    if "result" in name:
        [item] = await stage.take()
        await stage.outcome(item, '{"total": 1}')
    elif "event" in name:
        await stage.recorded("i", "RaiseEvent", name="order", data={"total": 1})
    elif "mail" in name:
        await stage.recorded("i", "RaiseEvent", name="orders", data={"total": 1})


@pytest.mark.parametrize(
    ("name", "place", "line"),
    [
        ("of_input", "event 1, OrchestrationStarted (of_input)", "in of_input: @app.orchestration"),
        ("of_result", "event 3, ActivityCompleted (price)", "await ctx.call(price)"),
        ("of_caught_result", "event 3, ActivityCompleted (price)", "await ctx.call(price)"),
        ("of_gathered_result", "event 4, ActivityCompleted (price)", "asyncio.gather(ctx.call(price)"),
        ("of_child", "event 3, SubOrchestrationCompleted (offspring)", "await ctx.sub(offspring)"),
        ("of_event", "event 3, EventRaised (order)", 'await ctx.event("order", kind)'),
        ("of_mail", "mail 1, in the mailbox orders", 'await ctx.receive("orders", kind)'),
        ("of_skipped_mail", "mail 1, in the mailbox orders", 'await ctx.receive("orders", kind)'),
    ],
)
def test_the_value_the_field_and_the_line_are_named(name: str, place: str, line: str) -> None:
    async def body(stage: Stage) -> None:
        await stage.begin("i", name, {"total": 1} if name == "of_input" else None)
        await give(stage, name)
        await asyncio.sleep(2)
        await stage.deploy(an_app(Dated))
        reason = await stage.reason("i")
        assert (reason["kind"], reason["expected"], reason["found"]) == ("unfit_value", place, MISSING)
        assert f"({place})" in reason["message"]
        assert "day: Field required." in reason["message"]
        assert "test_blocked_values.py" in reason["line"]
        assert line in reason["line"]
        await stage.deploy()
        if name == "of_skipped_mail":
            await stage.recorded("i", "RaiseEvent", name="orders", data={"total": 0})
        else:
            await stage.recorded("i", "RaiseEvent", name="go", data="on")
        output = (await stage.ask("i", "Status"))["output"]
        assert output == ([1, 0] if name == "of_skipped_mail" else [1, "on"])

    on_stage(body)()


@on_stage
async def test_the_input_of_an_execution_that_has_yet_to_begin(stage: Stage) -> None:
    storage = stage.host.storage
    await stage.begin("i", "one_each", {"total": 0})
    for _ in range(LETTERS):
        await stage.recorded("i", "RaiseEvent", name="orders")
    saved: list[dict[str, Any]] = []
    storage.committed = lambda _: saved.append(dict(storage.rows))
    await stage.recorded("i", "RaiseEvent", name="go")
    await stage.host.stop()
    [*_, storage.rows] = [rows for rows in saved if b'"first_step_done":false' in rows[f"{ROWS}i||instance"][0]]
    await stage.deploy(an_app(Dated))
    await asyncio.sleep(2)
    reason = await stage.reason("i")
    assert (reason["kind"], reason["expected"]) == ("unfit_value", "event 1, OrchestrationStarted (one_each)")
    await stage.deploy()
    await stage.recorded("i", "RaiseEvent", name="end", data="all")
    assert (await stage.ask("i", "Status"))["output"] == "all"


@on_stage
async def test_a_result_that_came_during_a_suspension(stage: Stage) -> None:
    await stage.begin("i", "of_result")
    await stage.recorded("i", "Suspend")
    await give(stage, "of_result")
    await stage.deploy(an_app(Dated))
    assert await stage.status("i") == "SUSPENDED"
    await stage.recorded("i", "Resume")
    assert (await stage.reason("i"))["kind"] == "unfit_value"
    await stage.deploy()
    await stage.recorded("i", "RaiseEvent", name="go", data="on")
    assert (await stage.ask("i", "Status"))["output"] == [1, "on"]


@on_stage
async def test_a_result_that_does_not_fit_when_it_comes_raises_in_the_code_then_and_on_each_replay(
    stage: Stage,
) -> None:
    await stage.begin("i", "of_caught_result")
    [item] = await stage.take()
    await stage.outcome(item, '{"sum": 1}')
    for _ in range(2):
        await stage.deploy()
        assert await stage.status("i") == "RUNNING"
    await stage.recorded("i", "RaiseEvent", name="go", data="on")
    assert (await stage.ask("i", "Status"))["output"] == [None, "on"]
    assert (await stage.types("i")).count("ValueRefused") == 1


@on_stage
async def test_mail_that_does_not_fit_is_passed_over_then_and_on_each_replay(stage: Stage) -> None:
    await stage.begin("i", "of_skipped_mail")
    for data in ({"total": 1}, {"sum": 2}, {"total": 3}):
        await stage.recorded("i", "RaiseEvent", name="orders", data=data)
    for _ in range(2):
        await stage.deploy()
        assert await stage.status("i") == "RUNNING"
    await stage.recorded("i", "RaiseEvent", name="orders", data={"total": 0})
    assert (await stage.ask("i", "Status"))["output"] == [1, 3, 0]


@on_stage
async def test_mail_that_was_passed_over_and_now_fits_is_a_departure(stage: Stage) -> None:
    await stage.deploy(an_app(Dated))
    await stage.begin("i", "of_skipped_mail")
    await stage.recorded("i", "RaiseEvent", name="orders", data={"total": 1})
    await stage.deploy()
    reason = await stage.reason("i")
    assert (reason["kind"], reason["expected"]) == (
        "non_determinism",
        "event 3, ValueRefused (mail 1, in the mailbox orders)",
    )
