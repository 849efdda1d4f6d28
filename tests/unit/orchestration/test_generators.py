"""Async generators that are left in the middle: closed in the same order in every replay, and never skipped."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import App
from holdfast.orchestration.status import Status
from tests.unit.orchestration.driver import Driver

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator

    from holdfast import Context


def an_app(body: Callable[[Context], Any]) -> App:
    app = App()

    @app.activity
    async def act(given: Any) -> Any: ...

    @app.orchestration
    async def orchestration(ctx: Context) -> Any:
        return await body(ctx)

    return app


def given_to(driver: Driver) -> list[Any]:
    """Returns the inputs of the activities, in their order."""
    return [event.input for event in driver.history if event.type == "ActivityScheduled"]  # type: ignore[attr-defined]


async def numbers(ctx: Context, name: str) -> AsyncGenerator[int, None]:
    try:
        for number in range(9):
            yield number
    finally:
        await ctx.call("act", name)


class Node:
    """Refers to itself, so that only the cyclic garbage collector finds it."""

    def __init__(self, held: Any) -> None:
        self.held = held
        self.itself = self


async def lost_in_a_cycle(ctx: Context) -> str:
    generator = numbers(ctx, "release")
    await anext(generator)
    Node(generator)
    del generator
    for step in range(3):
        await ctx.call("act", step)
    return "done"


@pytest.fixture
def collect() -> Iterator[Callable[[], None]]:
    """Nothing is collected but by this."""
    gc.collect()
    gc.disable()
    yield lambda: gc.collect() and None
    gc.enable()


@pytest.mark.parametrize("when", [None, 0, 1, 2])
def test_when_the_collector_finds_it_makes_no_difference(collect: Callable[[], None], when: int | None) -> None:
    driver = Driver(an_app(lost_in_a_cycle))
    driver.start("orchestration")
    for step in range(3):
        if step == when:
            collect()
        driver.complete(driver.history[-1].seq)
    assert given_to(driver) == ["0", "1", "2", '"release"']
    # Another process takes it up, whose collector ran at other moments.
    driver.rebuild()
    driver.complete(driver.history[-1].seq)
    assert driver.output == "done"


def test_a_collection_that_the_code_asks_for_changes_nothing_either(cold: bool) -> None:
    async def body(ctx: Context) -> str:
        generator = numbers(ctx, "release")
        await anext(generator)
        Node(generator)
        del generator
        await ctx.call("act", 0)
        gc.collect()
        await ctx.call("act", 1)
        return "done"

    driver = Driver(an_app(body), cold=cold)
    driver.start("orchestration")
    # On a replay it is the code's own collection that finds it, before it is this one.
    gc.collect()
    assert driver.run(lambda effect: None) == "done"
    assert given_to(driver) == ["0", "1", '"release"']


def test_nothing_is_collected_inside_a_step() -> None:
    collections: list[int] = []

    def count(phase: str, _: Any) -> None:
        collections.append(threading.get_ident())

    async def body(ctx: Context) -> str:
        gc.callbacks.append(count)
        try:
            for _ in range(20_000):
                Node(None)
                await asyncio.sleep(0)
        finally:
            gc.callbacks.remove(count)
        return "done"

    driver = Driver(an_app(body))
    driver.start("orchestration")
    assert driver.output == "done"
    assert threading.get_ident() not in collections
    assert gc.isenabled()


def test_where_collection_is_turned_off_it_stays_off() -> None:
    gc.disable()
    try:
        driver = Driver(an_app(lost_in_a_cycle))
        driver.start("orchestration")
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_those_in_use_at_the_end_are_closed_in_the_order_they_began_in(cold: bool) -> None:
    async def body(ctx: Context) -> str:
        generators = [numbers(ctx, f"release {number}") for number in range(5)]
        for number in (3, 0, 4, 1, 2):
            await anext(generators[number])
            await ctx.call("act", number)
        ctx.kept = generators  # type: ignore[attr-defined]
        return "done"

    driver = Driver(an_app(body), cold=cold)
    driver.start("orchestration")
    assert driver.run(lambda effect: None) == "done"
    assert given_to(driver)[5:] == [f'"release {number}"' for number in (3, 0, 4, 1, 2)]


def test_one_that_was_just_lost_is_closed_before_the_end(cold: bool) -> None:
    async def body(ctx: Context) -> str:
        async for number in numbers(ctx, "release"):
            if number == 2:
                break
        return "done"

    driver = Driver(an_app(body), cold=cold)
    driver.start("orchestration")
    assert driver.run(lambda effect: None) == "done"
    assert given_to(driver) == ['"release"']


def test_one_that_fails_to_close_ends_nothing(cold: bool, caplog: pytest.LogCaptureFixture) -> None:
    async def failing() -> AsyncGenerator[int, None]:
        try:
            yield 1
        finally:
            raise OSError("the disk is full")

    async def body(ctx: Context) -> str:
        ctx.kept = [failing(), numbers(ctx, "release")]  # type: ignore[attr-defined]
        for generator in ctx.kept:  # type: ignore[attr-defined]
            await anext(generator)
        return "done"

    driver = Driver(an_app(body), cold=cold)
    driver.start("orchestration")
    assert driver.run(lambda effect: None) == "done"
    assert given_to(driver) == ['"release"']
    assert [record.exc_info[1].args for record in caplog.records if record.exc_info] == [("the disk is full",)]  # type: ignore[union-attr]


def test_tasks_end_before_generators_are_closed(cold: bool) -> None:
    async def body(ctx: Context) -> str:
        async def task() -> None:
            try:
                await asyncio.sleep(1000)
            finally:
                await ctx.call("act", "task")

        ctx.kept = [numbers(ctx, "generator")]  # type: ignore[attr-defined]
        await anext(ctx.kept[0])  # type: ignore[attr-defined]
        asyncio.create_task(task())
        await asyncio.sleep(1)
        raise ValueError("the order is empty")

    driver = Driver(an_app(body), cold=cold)
    driver.start("orchestration")
    driver.wait()
    for _ in range(2):
        assert driver.status is Status.RUNNING
        driver.complete(driver.history[-1].seq)
    assert driver.error.message == "the order is empty"
    assert given_to(driver) == ['"task"', '"generator"']


def test_clean_up_of_a_generator_can_be_cancelled(cold: bool) -> None:
    from holdfast.orchestration.core.messages import Cancel

    async def body(ctx: Context) -> str:
        ctx.kept = [numbers(ctx, "release")]  # type: ignore[attr-defined]
        await anext(ctx.kept[0])  # type: ignore[attr-defined]
        return "done"

    driver = Driver(an_app(body), cold=cold)
    driver.start("orchestration")
    assert driver.status is Status.RUNNING
    driver.deliver(Cancel(reason="enough"))
    assert driver.output == "done"


def test_many_that_ended_by_themselves_leave_nothing_behind() -> None:
    async def one() -> AsyncGenerator[int, None]:
        yield 1

    async def body(ctx: Context) -> int:
        for _ in range(500):
            async for _number in one():
                pass
        return len(asyncio.get_running_loop()._generators._entries)  # type: ignore[attr-defined]

    driver = Driver(an_app(body))
    driver.start("orchestration")
    assert driver.output <= 64
