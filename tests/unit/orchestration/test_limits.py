"""Code that never waits is stopped, and nothing else suffers."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import App
from holdfast.orchestration.instance import Status
from holdfast.orchestration.limits import Limits
from unit.orchestration.driver import Driver

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast import Context


def driven(body: Callable[[Context], Any], limits: Limits, *, cold: bool = False) -> Driver:
    app = App()

    @app.orchestration
    async def orchestration(ctx: Context) -> Any:
        await ctx.call("step")
        return await body(ctx)

    driver = Driver(app, cold=cold, limits=limits)
    driver.start("orchestration")
    return driver


@pytest.mark.parametrize("cold", [False, True], ids=["kept", "rebuilt"])
def test_what_always_has_something_to_do_is_stopped(cold: bool) -> None:
    async def spinning(ctx: Context) -> None:
        while True:
            await asyncio.sleep(0)

    driver = driven(spinning, Limits(callbacks=1000), cold=cold)
    driver.complete(2)
    assert driver.error.kind == "never_yields"
    assert "1,000 steps" in driver.error.message


async def _endless(ctx: Context) -> None:
    while True:
        pass


async def _endless_whatever_is_raised(ctx: Context) -> None:
    while True:
        with contextlib.suppress(Exception):
            [].clear()


async def _endless_in_a_task(ctx: Context) -> None:
    await asyncio.gather(_endless(ctx), asyncio.sleep(1), return_exceptions=True)


async def _endless_in_a_callback(ctx: Context) -> None:
    def callback() -> None:
        while True:
            pass

    asyncio.get_running_loop().call_soon(callback)
    await asyncio.sleep(1)


async def _endless_in_clean_up(ctx: Context) -> None:
    try:
        await _endless(ctx)
    finally:
        await _endless(ctx)


@pytest.mark.parametrize(
    "body",
    [_endless, _endless_whatever_is_raised, _endless_in_a_task, _endless_in_a_callback, _endless_in_clean_up],
)
async def test_what_never_awaits_is_stopped(body: Callable[[Context], Any]) -> None:
    driver = driven(body, Limits(seconds=0.05))
    driver.complete(2)
    assert driver.error.kind == "never_yields"
    assert "0.05 seconds" in driver.error.message
    assert driver.types[-2:] == ["ActivityCompleted", "OrchestrationFailed"]
    # The loop that this test runs on goes on, and nothing is thrown into it later.
    end = time.monotonic() + 0.6
    while time.monotonic() < end:
        await asyncio.sleep(0)


def test_what_only_takes_its_time_goes_on() -> None:
    async def slow(ctx: Context) -> str:
        time.sleep(0.3)  # noqa: ASYNC251
        return "done"

    driver = driven(slow, Limits(seconds=5))
    driver.complete(2)
    assert driver.output == "done"


def test_what_never_ends_when_it_is_rebuilt_fails_then() -> None:
    runs: list[int] = []

    async def sometimes(ctx: Context) -> None:
        runs.append(1)
        while len(runs) > 1:
            pass
        await asyncio.sleep(10)

    driver = driven(sometimes, Limits(seconds=0.05))
    driver.complete(2)
    driver.rebuild()
    assert driver.status is Status.RUNNING
    driver.deliver()
    assert driver.error.kind == "never_yields"
