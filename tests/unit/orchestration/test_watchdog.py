"""Code that never waits is stopped, and nothing else suffers."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from holdfast import App
from holdfast.errors import TooLarge
from holdfast.orchestration.core.instance import Blocked
from holdfast.orchestration.core.limits import Limits
from holdfast.orchestration.status import Status
from tests.unit.orchestration.driver import Driver

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
        # Far longer than the limit, but the processor does nothing meanwhile.
        time.sleep(1.5)  # noqa: ASYNC251
        return "done"

    driver = driven(slow, Limits(seconds=0.5))
    driver.complete(2)
    assert driver.output == "done"


def test_what_blocks_for_ever_is_stopped_and_said(caplog: pytest.LogCaptureFixture) -> None:
    async def blocked(ctx: Context) -> None:
        while True:
            time.sleep(0.01)  # noqa: ASYNC251

    driver = driven(blocked, Limits(seconds=0.5, blocked_seconds=1.5))
    driver.complete(2)
    assert driver.error.kind == "never_yields"
    assert "blocked its process for more than 1.5 seconds" in driver.error.message
    [warning] = [record.getMessage() for record in caplog.records if record.name.endswith("watchdog")]
    assert "orchestration test has run or blocked" in warning
    assert "time.sleep(0.01)" in warning


STOPPED = """
import time
from holdfast.orchestration.loop.watchdog import watchdog
from tests.unit.orchestration.test_watchdog import Limits, driven

async def step(ctx):
    [watch] = watchdog._watches.values()
    while watch.began_at is None:
        time.sleep(0.01)
    # From here on the watchdog measures. The process may be stopped as soon as the line is written.
    before = time.monotonic()
    print("in the step", flush=True)
    # Runs until the process was stopped, and then until the watchdog has looked again.
    while (now := time.monotonic()) - before < 1:
        before = now
        time.sleep(0.01)
    looked, passed = 0, watch.passed
    while looked < 2:
        time.sleep(0.01)
        looked, passed = looked + (watch.passed > passed), watch.passed
    return "done"

driver = driven(step, Limits(seconds=2, blocked_seconds=5))
driver.complete(2)
print(driver.instance.ending)
"""


def test_a_process_that_is_stopped_in_a_step_goes_on() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", STOPPED],
        env={"PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "in the step\n"
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        # For longer than the code may run, or block its process.
        time.sleep(6)
        process.send_signal(signal.SIGCONT)
        assert '"done"' in process.communicate(timeout=60)[0]


def test_what_never_ends_when_it_is_rebuilt_is_blocked() -> None:
    runs: list[int] = []

    async def sometimes(ctx: Context) -> None:
        runs.append(1)
        while len(runs) > 1:
            pass
        await asyncio.sleep(10)

    driver = driven(sometimes, Limits(seconds=0.05))
    driver.complete(2)
    with pytest.raises(Blocked) as blocked:
        driver.rebuild()
    assert blocked.value.reason["kind"] == "never_yields"


@pytest.mark.parametrize("cold", [False, True], ids=["kept", "rebuilt"])
def test_a_step_that_asks_for_more_than_can_be_saved_together_fails(cold: bool) -> None:
    async def fan_out(ctx: Context) -> None:
        await asyncio.gather(*(ctx.call("resize", "x" * 1000) for _ in range(1000)))

    driver = driven(fan_out, Limits(stored_bytes=100_000), cold=cold)
    driver.complete(2)
    assert (driver.status, driver.error.type) == (Status.FAILED, "TooLarge")
    for said in ("its first 43 activities", "bytes in the store", "one step may take 100,000", "sub-orchestrations"):
        assert said in driver.error.message
    # Nothing of the step was recorded, so nothing is sent.
    assert driver.types == ["OrchestrationStarted", "ActivityScheduled", "ActivityCompleted", "OrchestrationFailed"]
    assert len(driver.effects) == 1


@pytest.mark.parametrize("cold", [False, True], ids=["kept", "rebuilt"])
def test_code_may_ask_for_less_when_a_step_was_too_large(cold: bool) -> None:
    async def fan_out(ctx: Context) -> int:
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(1000):
                    group.create_task(ctx.call("resize", "x" * 1000))
        except* TooLarge:
            pass
        return int(await ctx.call("report"))

    driver = driven(fan_out, Limits(stored_bytes=100_000), cold=cold)
    driver.complete(2)
    assert driver.types[3:] == ["ActivityScheduled"]
    driver.complete(4, 7)
    assert driver.output == 7


def test_timers_that_were_cancelled_are_not_counted() -> None:
    async def hurried(ctx: Context) -> str:
        for _ in range(1000):
            asyncio.get_running_loop().call_later(5, print).cancel()
        return "done"

    driver = driven(hurried, Limits(stored_bytes=10_000))
    driver.complete(2)
    assert driver.output == "done"


def test_timers_count() -> None:
    async def sleepy(ctx: Context) -> None:
        await asyncio.gather(*(asyncio.sleep(number + 1) for number in range(1000)))

    driver = driven(sleepy, Limits(stored_bytes=10_000))
    driver.complete(2)
    assert driver.error.type == "TooLarge"


@pytest.mark.parametrize("text", ["x" * 5000, '"' * 5000, "\\" * 5000, "é" * 5000, "\U0001f600\n" * 1000], ids=repr)
def test_what_a_step_takes_in_the_store_is_not_underestimated(text: str) -> None:
    app = App()

    @app.orchestration
    async def child(ctx: Context, text: str) -> None: ...

    @app.orchestration
    async def orchestration(ctx: Context) -> None:
        await asyncio.gather(ctx.call("a" * 100, text), ctx.sub(child, text, instance_id="c" * 100), ctx.event("e"))

    driver = Driver(app, "p" * 200)
    driver.start("orchestration")
    stored = [*driver.history[1:], *driver.effects]
    size = sum(len(orjson.dumps(one.dump())) for one in stored)
    execution = driver.instance._execution
    assert execution is not None
    assert size <= execution.commands.recorded_bytes <= 2 * size
