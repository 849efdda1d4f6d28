"""The test environment that holdfast.testing gives to authors of orchestrations."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from holdfast import App, Context, Retry
from holdfast.errors import Conflict, HoldfastError, InvalidRequest, NonDeterminism, OrchestrationFailed, Rejected
from holdfast.testing import TestEnvironment, replay

made = App()


@made.activity
async def charge(order: str) -> str:
    raise AssertionError("the real one is not to be called")


@made.activity
def ship(line: str) -> str:
    return f"shipped {line}"


@made.orchestration
async def checkout(ctx: Context, order: str) -> list[str]:
    receipt = await ctx.call(charge, order, retry=Retry(max_attempts=3))
    async with asyncio.timeout(3600):
        by = await ctx.event("approved", str)
    shipped = await asyncio.gather(*(ctx.call(ship, line) for line in ("a", "b")))
    return [receipt, by, *shipped]


@made.orchestration
async def twice(ctx: Context, order: str) -> list[str]:
    await asyncio.sleep(24 * 60 * 60)
    return [await ctx.sub(nap, order), await ctx.sub(nap, order)]


@made.orchestration
async def nap(ctx: Context, order: str) -> str:
    ctx.set_status("asleep")
    await asyncio.sleep(60)
    return f"{order} at {ctx.now():%H:%M}"


@made.orchestration(requests={"add": int}, mailboxes=["notes"])
async def cart(ctx: Context) -> int:
    total = 0
    while True:
        request = await ctx.request("add")
        if request.data < 0:
            request.reject("Nothing can be taken out.")
        elif request.data == 0:
            await asyncio.sleep(60)
            request.reply(total)
        else:
            total += request.data
            request.reply(total)
        if total > 9:
            return total


@pytest.fixture
def app() -> App:
    return made


async def test_an_orchestration_runs_with_fakes(orchestration_env: TestEnvironment) -> None:
    tried: list[str] = []

    def charged(order: str) -> str:
        tried.append(order)
        if len(tried) < 3:
            raise ValueError("declined")
        return f"receipt of {order}"

    orchestration_env.fake(charge, charged)
    run = orchestration_env.start(checkout, "o-1")
    await orchestration_env.advance(600)
    assert len(tried) == 3
    await run.raise_event("approved", "ann")
    assert run.result() == ["receipt of o-1", "ann", "shipped a", "shipped b"]
    replay(made, {"instance_id": run.instance_id, "events": [event.dump() for event in run._history]})


async def test_time_is_skipped_and_not_waited_for(orchestration_env: TestEnvironment) -> None:
    began = time.monotonic()
    assert await orchestration_env.run(twice, "x") == ["x at 00:01", "x at 00:02"]
    assert time.monotonic() - began < 10


async def test_what_nobody_sends_is_named(orchestration_env: TestEnvironment) -> None:
    async def charged(order: str) -> str:
        return order

    orchestration_env.fake("charge", charged)
    run = orchestration_env.start(checkout, "o-1")
    await run.run_until_idle()
    with pytest.raises(HoldfastError, match="the event approved"):
        run.result()
    await orchestration_env.advance(3600)
    with pytest.raises(OrchestrationFailed, match="TimeoutError"):
        run.result()


async def test_what_goes_round_for_ever_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.testing.environment.MAX_STEPS", 50)
    app = App()

    @app.activity
    def poll() -> bool:
        return False

    @app.orchestration
    async def busy(ctx: Context) -> None:
        while not await ctx.call(poll):
            pass

    @app.orchestration
    async def patient(ctx: Context) -> None:
        while True:
            await asyncio.sleep(60)

    with TestEnvironment(app) as orchestration_env, pytest.raises(HoldfastError, match="not idle after 50 calls"):
        await orchestration_env.run(busy)
    with TestEnvironment(app) as orchestration_env, pytest.raises(HoldfastError, match="not ended after 50 timers"):
        await orchestration_env.run(patient)


async def test_code_that_does_something_else_is_told_so() -> None:
    def app_that(does: str) -> App:
        app = App()

        @app.activity
        def first(value: str) -> str:
            return value

        @app.activity
        def second(value: str) -> str:
            return value

        @app.orchestration
        async def changing(ctx: Context, value: str) -> str:
            chosen: Any = first if does == "first" else second
            await ctx.call(chosen, value)
            return value

        return app

    with TestEnvironment(app_that("first")) as orchestration_env:
        run = orchestration_env.start("changing", "x")
        await run.run_until_idle()
        recorded = {"instance_id": run.instance_id, "events": [event.dump() for event in run._history]}
    replay(app_that("first"), recorded)
    with pytest.raises(NonDeterminism, match="second"):
        replay(app_that("second"), recorded)


async def test_requests_have_replies(orchestration_env: TestEnvironment) -> None:
    run = orchestration_env.start(cart)
    assert await run.request("add", 3, request_id="first") == 3
    assert await run.request("add", 4) == 7
    assert await run.request("add", 5, request_id="first") == 3
    with pytest.raises(Rejected, match="Nothing can be taken out"):
        await run.request("add", -1)
    with pytest.raises(InvalidRequest, match="the request add"):
        await run.request("add", "much")
    with pytest.raises(TimeoutError, match="it waits for 20"):
        await run.request("add", 0, request_id="slow")
    await orchestration_env.advance(60)
    assert run.reply("slow") == 7
    with pytest.raises(TimeoutError, match="it waits for the request add"):
        run.reply("unknown")
    assert await run.request("add", 5) == 12
    with pytest.raises(Conflict):
        await run.request("add", 5)
    assert run.result() == 12


async def test_an_event_says_whether_it_was_delivered(orchestration_env: TestEnvironment) -> None:
    run = orchestration_env.start(cart)
    assert await run.raise_event("notes", "kept")
    assert not await run.raise_event("unheard-of")
