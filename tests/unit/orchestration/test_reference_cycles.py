"""An instance that has completed leaves memory at once: a server completes many, and collects garbage rarely."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import App, Context
from holdfast.orchestration.core.commands import Command, Commands
from holdfast.orchestration.core.execution import Execution
from holdfast.orchestration.loop.loop import ReplayLoop
from holdfast.orchestration.loop.ordered_tasks import Promise
from tests.unit.orchestration.driver import Driver

if TYPE_CHECKING:
    from collections.abc import Iterator

KINDS = (ReplayLoop, Execution, Commands, Command, Promise)

app = App()


@app.activity
async def double(number: int) -> int: ...


@app.orchestration
async def results(ctx: Context) -> Any:
    first = await ctx.call(double, 1)
    return [first, await asyncio.gather(ctx.call(double, 2), ctx.call(double, 3)), await ctx.event("go")]


@app.orchestration
async def limited(ctx: Context) -> Any:
    async with asyncio.timeout(3600):
        return await ctx.event("go")


@pytest.fixture(autouse=True)
def uncollected() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def alive() -> int:
    return sum(isinstance(found, KINDS) for found in gc.get_objects())


@pytest.mark.parametrize(("name", "calls"), [("results", (2, 4, 5)), ("limited", ())])
def test_nothing_is_left_to_the_garbage_collector(name: str, calls: tuple[int, ...]) -> None:
    before = alive()
    driver = Driver(app)
    driver.start(name)
    for seq in calls:
        driver.complete(seq, 7)
    assert alive() > before
    driver.raise_event("go", "on")
    assert driver.output == ([7, [7, 7], "on"] if calls else "on")
    driver.instance.close()
    del driver
    assert alive() == before
