"""The loop beside another one that runs, and leaving no noise behind."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import gc
import logging
import os
import subprocess
import sys
import threading
import warnings
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import pytest

from holdfast import App
from holdfast.errors import NotInOrchestrations
from holdfast.orchestration.status import Status
from tests.unit.orchestration.driver import Driver

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast import Context


def an_app(body: Callable[[Context], Any]) -> App:
    app = App()

    @app.activity
    async def act(given: Any) -> Any: ...

    @app.orchestration
    async def orchestration(ctx: Context) -> Any:
        return await body(ctx)

    return app


async def test_it_runs_inside_another_loop_and_leaves_that_as_it_was() -> None:
    seen: list[Any] = []

    async def body(ctx: Context) -> str:
        seen.append(asyncio.get_running_loop())
        seen.append(asyncio.current_task())
        await asyncio.sleep(1)
        return "done"

    outer_loop, outer_task = asyncio.get_running_loop(), asyncio.current_task()
    hooks = sys.get_asyncgen_hooks()
    driver = Driver(an_app(body))
    driver.start("orchestration")
    assert asyncio.get_running_loop() is outer_loop
    assert asyncio.current_task() is outer_task
    assert sys.get_asyncgen_hooks() == hooks
    await asyncio.sleep(0)
    driver.wait()
    assert driver.output == "done"
    assert seen[0] is not outer_loop
    assert seen[1] is not outer_task
    assert outer_task in asyncio.all_tasks()


async def test_what_is_set_outside_is_not_seen_inside() -> None:
    from contextvars import ContextVar

    variable: ContextVar[str] = ContextVar("variable", default="untouched")
    variable.set("of the caller")

    async def body(ctx: Context) -> str:
        return variable.get()

    driver = Driver(an_app(body))
    driver.start("orchestration")
    assert driver.output == "untouched"


async def test_two_instances_take_turns() -> None:
    async def body(ctx: Context) -> list[float]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(ctx.call("act", number)) for number in range(2)]
        return [task.result() for task in tasks]

    app = an_app(body)
    first, second = Driver(app, "first"), Driver(app, "second")
    for driver in (first, second):
        driver.start("orchestration")
    for seq in (2, 3):
        for driver in (second, first):
            driver.complete(seq, f"{driver.instance.instance_id} {seq}")
    assert (first.output, second.output) == (["first 2", "first 3"], ["second 2", "second 3"])


OUTSIDE: dict[str, Callable[[], Any]] = {
    "a thread": lambda: asyncio.to_thread(print),
    "an executor": lambda: asyncio.get_running_loop().run_in_executor(None, print),
    "a connection": lambda: asyncio.open_connection("127.0.0.1", 1),
    "a server": lambda: asyncio.start_server(print, "127.0.0.1", 0),
    "a datagram": lambda: asyncio.get_running_loop().create_datagram_endpoint(asyncio.DatagramProtocol),
    "a name": lambda: asyncio.get_running_loop().getaddrinfo("localhost", 1),
    "a process": lambda: asyncio.create_subprocess_exec("true"),
    "a shell": lambda: asyncio.create_subprocess_shell("true"),
    "a signal": lambda: asyncio.get_running_loop().add_signal_handler(10, print),
    "a reader": lambda: asyncio.get_running_loop().add_reader(0, print),
    "a thread of anyio": lambda: anyio.to_thread.run_sync(REACHED.append, 1),
    "a thread of anyio with a limiter": lambda: anyio.to_thread.run_sync(
        REACHED.append, 1, limiter=anyio.CapacityLimiter(1)
    ),
    "a path of anyio": lambda: anyio.Path("/").exists(),
    "a file of anyio": lambda: anyio.open_file("/dev/null"),
    "a process of anyio": lambda: anyio.run_process("true"),
    "a future of an executor": lambda: asyncio.wrap_future(concurrent.futures.Future()),
}
#: What ran although it was refused.
REACHED: list[int] = []


@pytest.mark.parametrize("outside", OUTSIDE)
def test_nothing_outside_can_be_reached(outside: str) -> None:
    async def body(ctx: Context) -> None:
        result = OUTSIDE[outside]()
        if result is not None:
            await result

    driver = Driver(an_app(body))
    driver.start("orchestration")
    assert driver.error.type == "NotInOrchestrations"
    assert "in an activity" in driver.error.message
    assert REACHED == []


async def test_threads_of_anyio_work_elsewhere_also_after_a_step() -> None:
    async def body(ctx: Context) -> None:
        with contextlib.suppress(NotInOrchestrations):
            await anyio.to_thread.run_sync(threading.get_ident)
        await asyncio.sleep(1)

    driver = Driver(an_app(body))
    driver.start("orchestration")
    assert await anyio.to_thread.run_sync(threading.get_ident) != threading.get_ident()
    driver.run()


def test_anyio_otherwise_works(cold: bool) -> None:
    async def body(ctx: Context) -> list[str]:
        seen: list[str] = []

        async def child(name: str, seconds: float) -> None:
            await anyio.sleep(seconds)
            seen.append(name)

        with anyio.move_on_after(5):
            async with anyio.create_task_group() as group:
                group.start_soon(child, "slow", 9)
                group.start_soon(child, "b", 2)
                group.start_soon(child, "a", 1)
        return seen

    driver = Driver(an_app(body), cold=cold)
    driver.start("orchestration")
    assert driver.run() == ["a", "b"]


@pytest.mark.parametrize("name", ["stop", "close", "run_forever", "shutdown_asyncgens"])
def test_the_loop_cannot_be_changed(name: str) -> None:
    async def body(ctx: Context) -> str:
        with pytest.raises(NotInOrchestrations, match="belongs to Holdfast"):
            getattr(asyncio.get_running_loop(), name)()
        # And nothing has been changed.
        await asyncio.sleep(1)
        return "done"

    driver = Driver(an_app(body))
    driver.start("orchestration")
    assert driver.run() == "done"


def test_what_belongs_to_an_orchestration_cannot_be_used_from_outside() -> None:
    kept: list[asyncio.Event] = []

    async def body(ctx: Context) -> None:
        kept.append(asyncio.Event())
        await kept[0].wait()

    driver = Driver(an_app(body))
    driver.start("orchestration")
    with pytest.raises(NotInOrchestrations, match="raise_event"):
        kept[0].set()


def test_another_thread_cannot_reach_in() -> None:
    refused: list[Exception] = []

    async def body(ctx: Context) -> None:
        loop = asyncio.get_running_loop()

        def elsewhere() -> None:
            try:
                loop.call_soon_threadsafe(print)
            except NotInOrchestrations as error:
                refused.append(error)

        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()

    driver = Driver(an_app(body))
    driver.start("orchestration")
    assert len(refused) == 1


def test_a_task_that_nobody_holds_is_not_lost() -> None:
    async def body(ctx: Context) -> list[str]:
        reached: list[str] = []

        async def forgotten() -> None:
            # No reference outside this cycle holds the future and the task.
            await asyncio.shield(asyncio.sleep(1))
            reached.append("end")

        asyncio.create_task(forgotten())
        await asyncio.sleep(2)
        return reached

    driver = Driver(an_app(body))
    driver.start("orchestration")
    gc.collect()
    assert driver.run() == ["end"]


class TestDropped:
    """An instance that leaves memory takes its tasks with it, in silence."""

    async def body(self, ctx: Context) -> None:
        async def child(seconds: float) -> None:
            try:
                await asyncio.sleep(seconds)
            finally:
                await ctx.call("act", "clean-up of a child")

        async def failing() -> None:
            raise ValueError("that is never retrieved")

        asyncio.create_task(failing())
        try:
            async with asyncio.timeout(100), asyncio.TaskGroup() as group:
                group.create_task(child(50))
                group.create_task(asyncio.wait_for(child(60), 70))
                await asyncio.gather(ctx.event("never"), ctx.call("act", 1))
        finally:
            ctx.log("clean-up")
            ctx.set_status("clean-up")
            await asyncio.sleep(1)
            await ctx.call("act", "clean-up")

    def test_it_says_nothing(
        self, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
    ) -> None:
        unraisable: list[Any] = []
        monkeypatch.setattr(sys, "unraisablehook", unraisable.append)
        warnings.simplefilter("always")
        driver = Driver(an_app(self.body))
        driver.start("orchestration")
        # As in asyncio, an exception that was never retrieved is logged when its task is collected.
        caplog.clear()
        events = len(driver.events)
        with caplog.at_level(logging.INFO):
            driver.instance.close()
            driver.instance = None  # type: ignore[assignment]
            gc.collect()
        assert caplog.records == []
        assert unraisable == []
        assert [str(warning.message) for warning in recwarn] == []
        assert len(driver.events) == events

    def test_what_lets_nothing_end_it_is_left_alone(self) -> None:
        code = (
            "import asyncio, gc\n"
            "from tests.unit.orchestration.test_loop import *\n"
            "async def sleeping(ctx):\n"
            "    while True:\n"
            "        try: await asyncio.sleep(10)\n"
            "        except BaseException: pass\n"
            "async def calling(ctx):\n"
            "    while True:\n"
            "        try: await ctx.call('act', 1)\n"
            "        except BaseException: pass\n"
            "for body in (sleeping, calling):\n"
            "    driver = Driver(an_app(body)); driver.start('orchestration'); driver.rebuild(); gc.collect()\n"
            "    print(driver.status)\n"
        )
        path = {"PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run([sys.executable, "-c", code], env=path, capture_output=True, text=True, timeout=60)
        assert (done.stdout, done.stderr) == ("RUNNING\nRUNNING\n", "")

    def test_it_goes_on_where_it_was(self) -> None:
        driver = Driver(an_app(self.body), cold=True)
        driver.start("orchestration")
        driver.raise_event("never", 1)
        driver.complete(driver.history[-2].seq)
        assert driver.status is Status.RUNNING

    def test_a_process_that_ends_says_nothing_either(self) -> None:
        code = (
            "from tests.unit.orchestration.test_loop import *\n"
            "driver = Driver(an_app(TestDropped().body)); driver.start('orchestration'); print(driver.status)\n"
        )
        path = {"PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(
            [sys.executable, "-X", "dev", "-c", code], env=path, capture_output=True, text=True, timeout=60
        )
        assert done.stdout == "RUNNING\n"
        assert "destroyed" not in done.stderr
        assert "ignored" not in done.stderr
        assert "never awaited" not in done.stderr
