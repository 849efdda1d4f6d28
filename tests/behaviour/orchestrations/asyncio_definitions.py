"""Orchestrations that use asyncio in ways that a replay could repeat differently, or could leave unfinished."""

from __future__ import annotations

import asyncio
import gc
import time
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from holdfast import App, Context
from holdfast.errors import NotInOrchestrations
from tests.behaviour.orchestrations.definitions import FOLDER, effect

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from pathlib import Path

app = App()

#: How long code in one step may wait for the test, in seconds.
PATIENCE = 30.0


@app.activity
async def release(name: str) -> None:
    effect(name)


@app.activity
def collect_garbage() -> None:
    """Runs in the process of the instances that call it."""
    gc.collect()


async def numbers(ctx: Context, name: str) -> AsyncGenerator[int, None]:
    """Releases something in the end."""
    try:
        for number in range(9):
            yield number
    finally:
        await ctx.call(release, name)


class Cycle:
    """Refers to itself, so that only the cyclic garbage collector finds it."""

    def __init__(self, held: Any) -> None:
        self.held = held
        self.itself = self


@app.orchestration
async def losing_a_generator(ctx: Context) -> str:
    generator = numbers(ctx, "lost")
    await anext(generator)
    Cycle(generator)
    del generator
    await ctx.call(collect_garbage)
    await ctx.event("go")
    return "done"


@app.orchestration
async def leaving_generators(ctx: Context) -> str:
    """Ends while two generators are suspended."""
    generators = [numbers(ctx, name) for name in ("first", "second")]
    for generator in reversed(generators):
        await anext(generator)
    ctx.kept = generators  # type: ignore[attr-defined]
    return "done"


@app.orchestration
async def leaving_tasks(ctx: Context) -> list[Any]:
    """Ends while tasks run that it has made by their class; each has something to clean up."""

    async def child(number: int) -> None:
        try:
            await asyncio.Future()
        finally:
            await ctx.call(release, f"task {number}")

    tasks = {asyncio.Task(child(number)) for number in range(4)}
    await ctx.event("go")
    return [asyncio.all_tasks() == {*tasks, asyncio.current_task()}, sorted(task.get_name() for task in tasks)]


def _touched(file: Path) -> bool:
    file.touch()
    return True


OUTSIDE: dict[str, Callable[[Path], Any]] = {
    "thread": lambda file: anyio.to_thread.run_sync(_touched, file),
    "path": lambda file: anyio.Path(file).touch(),
    "asyncio": lambda file: asyncio.to_thread(_touched, file),
}


@app.orchestration
async def reaching_out(ctx: Context, how: str) -> None:
    await OUTSIDE[how](FOLDER / f"touched-{ctx.instance_id}")


@app.orchestration
async def meddling(ctx: Context) -> list[Any]:
    """Tries to close its loop, sets timers whose moments have passed, and looks at a task."""
    loop = asyncio.get_running_loop()
    seen: list[Any] = []
    for name in ("close", "stop"):
        try:
            getattr(loop, name)()
        except NotInOrchestrations:
            seen.append(name)
    for seconds in (-1, -3, -2):
        loop.call_later(seconds, seen.append, seconds)
    await ctx.event("go")
    return [*seen, repr(asyncio.current_task()).split()[0]]


@app.orchestration
async def interrupted(ctx: Context) -> str:
    """One step, until its process was stopped for two seconds. The watchdog looks at it before and after."""
    _stay(1)
    before = time.monotonic()
    # The process may be stopped as soon as the file is there.
    (FOLDER / f"in-the-step-{ctx.instance_id}").touch()
    until = before + PATIENCE
    while (now := time.monotonic()) - before < 2:
        if now > until:
            return "not interrupted"
        before = now
        time.sleep(0.01)  # noqa: ASYNC251
    _stay(1)
    return "done"


def _stay(seconds: float) -> None:
    """Waits without giving way to the event loop."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(0.01)
