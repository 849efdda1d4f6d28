"""The test environment does what a server would: it replays every run, ends slow activities, keeps causes."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import App, Context, Retry
from holdfast.errors import ActivityFailed, InvalidRequest, NonDeterminism, OrchestrationFailed, SubOrchestrationFailed
from holdfast.testing import TestEnvironment

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Body = Callable[[Context], Awaitable[Any]]


def made_of(body: Body) -> App:
    app = App()

    @app.activity
    async def double(number: float) -> float:
        return 2 * number

    app.orchestration(name="body")(body)
    return app


counter = itertools.count()


async def random_input(ctx: Context) -> Any:
    return await ctx.call("double", random.random())


async def random_output(ctx: Context) -> float:
    await asyncio.sleep(1)
    return random.random()


async def random_delay(ctx: Context) -> None:
    await asyncio.sleep(1 + random.random())


async def changing_branch(ctx: Context) -> None:
    if next(counter) % 2 == 0:
        await ctx.call("double", 1)
    await asyncio.sleep(1)


async def changing_error(ctx: Context) -> None:
    raise ValueError(str(next(counter)))


async def next_input(ctx: Context) -> None:
    if ctx.execution_id < 3:
        ctx.continue_as_new()
    await ctx.call("double", time.perf_counter_ns())


@pytest.mark.parametrize(
    "body", [random_input, random_output, random_delay, changing_branch, changing_error, next_input]
)
async def test_code_that_is_not_deterministic_fails_its_first_test(body: Body) -> None:
    async def test() -> None:
        with TestEnvironment(made_of(body)) as environment:
            environment.start("body")
            await environment.advance(3)

    with pytest.raises(NonDeterminism):
        await test()


async def test_one_that_waits_at_the_end_of_the_test_is_replayed_too() -> None:
    async def body(ctx: Context) -> None:
        await ctx.event("go")
        await ctx.call("double", random.random())
        await ctx.event("go")

    environment = TestEnvironment(made_of(body))
    run = environment.start("body")
    run._replays._replayed = 100
    await run.raise_event("go")
    run._replays._replayed = 0
    with pytest.raises(NonDeterminism):
        environment.close()


async def test_a_failed_test_is_not_hidden_by_its_replay() -> None:
    def test() -> None:
        with TestEnvironment(made_of(random_input)) as environment:
            environment.start("body")
            raise AssertionError("of the test")

    with pytest.raises(AssertionError, match="of the test"):
        test()


async def test_what_ctx_gives_is_deterministic() -> None:
    async def body(ctx: Context) -> list[Any]:
        ctx.set_tags({"drawn": str(ctx.random())})
        return [await ctx.call("double", ctx.random()), str(ctx.uuid()), ctx.now().isoformat(), ctx.patched("a")]

    with TestEnvironment(made_of(body)) as environment:
        assert (await environment.run("body"))[-1] is True


async def test_a_slow_activity_fails_with_kind_timeout_and_is_retried() -> None:
    app = App()
    attempts = itertools.count(1)

    @app.activity(timeout=0.05)
    async def slow() -> int:
        attempt = next(attempts)
        await asyncio.sleep(0 if attempt == 3 else 60)
        return attempt

    @app.activity(timeout=0.05)
    def in_thread() -> None:
        time.sleep(0.2)

    @app.activity(timeout=60)
    async def raises() -> None:
        raise TimeoutError("of a service")

    @app.orchestration
    async def calling(ctx: Context) -> list[Any]:
        kinds = []
        for activity in ("in_thread", "raises"):
            try:
                await ctx.call(activity)
            except ActivityFailed as error:
                kinds.append(error.kind)
        return [await ctx.call(slow, retry=Retry(max_attempts=3)), *kinds]

    with TestEnvironment(app) as environment:
        assert await environment.run(calling) == [3, "timeout", "error"]


async def test_failures_keep_their_causes() -> None:
    app = App()
    original = ValueError("no such card")

    @app.activity
    async def charge() -> None:
        raise original

    @app.orchestration
    async def child(ctx: Context) -> None:
        await ctx.call(charge)

    @app.orchestration
    async def parent(ctx: Context) -> None:
        await ctx.sub(child)

    with TestEnvironment(app) as environment:
        with pytest.raises(OrchestrationFailed) as failed:
            await environment.run(parent)
        of_child = failed.value.__cause__
        assert isinstance(of_child, SubOrchestrationFailed)
        of_activity = of_child.__cause__
        assert isinstance(of_activity, ActivityFailed)
        assert of_activity.__cause__ is original


async def test_starts_have_the_options_of_the_client() -> None:
    app = App()

    @app.orchestration(mailboxes=["notes"], timeout_seconds=7200)
    async def reading(ctx: Context) -> Any:
        return [ctx.now().hour, await ctx.receive("notes"), await ctx.receive("notes")]

    with TestEnvironment(app, now=datetime(2024, 1, 1, tzinfo=UTC)) as environment:
        run = environment.start(
            reading,
            instance_id="r",
            tags={"a": "b"},
            start_at=environment.now + timedelta(hours=2),
            event={"name": "notes", "data": 1},
        )
        assert (run.status, run.tags) == ("PENDING", {"a": "b"})
        again = environment.start(reading, instance_id="r", event={"name": "notes", "data": 2})
        assert again is run
        await environment.advance(7200)
        assert run.result() == [2, 1, 2]
        late = environment.start(reading)
        await environment.advance(7200)
        with pytest.raises(OrchestrationFailed, match="timeout_seconds are over"):
            late.result()
        with pytest.raises(InvalidRequest):
            environment.start(reading, tags={"a b": "c"})
