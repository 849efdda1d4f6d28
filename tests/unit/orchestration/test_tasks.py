"""Tasks and futures, however they are made: all known to the loop, and in the same order in every process."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import App
from tests.unit.orchestration.driver import Driver

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast import Context


def run(body: Callable[[Context], Any], *, cold: bool = False) -> Any:
    app = App()

    @app.activity
    async def act(given: Any) -> Any: ...

    @app.orchestration
    async def orchestration(ctx: Context) -> Any:
        return await body(ctx)

    driver = Driver(app, cold=cold)
    driver.start("orchestration")
    return driver.run(lambda effect: None)


#: The class of asyncio, as a module has it that says ``from asyncio import Task``.
Task = asyncio.Task


@pytest.mark.parametrize("of", ["asyncio", "a module"])
def test_a_task_made_by_its_class_is_known(cold: bool, of: str) -> None:
    async def body(ctx: Context) -> Any:
        kind: Any = asyncio.Task if of == "asyncio" else Task

        async def child() -> None:
            await asyncio.sleep(5)

        tasks = [kind(child()), asyncio.create_task(child()), kind(child(), name="named")]
        await asyncio.sleep(1)
        known = asyncio.all_tasks() == {*tasks, asyncio.current_task()}
        await asyncio.gather(*tasks)
        return [known, [task.get_name() for task in tasks], len(asyncio.all_tasks())]

    assert run(body, cold=cold) == [True, ["Task-2", "Task-3", "named"], 1]


@pytest.mark.parametrize("of", ["asyncio", "a module"])
def test_a_task_made_by_its_class_is_cancelled_at_the_end(cold: bool, of: str) -> None:
    async def body(ctx: Context) -> str:
        async def child(number: int) -> None:
            try:
                await asyncio.sleep(1000)
            finally:
                await ctx.call("act", number)

        kind: Any = asyncio.Task if of == "asyncio" else Task
        for number in range(5):
            kind(child(number))
        await asyncio.sleep(1)
        return "done"

    app = App()

    @app.activity
    async def act(given: Any) -> Any: ...

    app.orchestration(body)
    driver = Driver(app, cold=cold)
    driver.start("body")
    assert driver.run(lambda effect: None) == "done"
    given = [event.input for event in driver.history if event.type == "ActivityScheduled"]  # type: ignore[attr-defined]
    assert given == ["0", "1", "2", "3", "4"]


async def made_directly(ctx: Context) -> list[list[int]]:
    async def nothing() -> None:
        await asyncio.sleep(1)

    # What else lies on the heap differs between processes.
    holes = [object.__new__(object) for _ in range(1000)]
    orders = []
    for make in (asyncio.Future, lambda: asyncio.Task(nothing()), lambda: asyncio.gather(asyncio.Future())):
        made: list[Any] = []
        for number in range(30):
            made.append(make())
            del holes[number :: 7 + number]
        orders.append([made.index(one) for one in set(made)])
        orders.append([made.index(one) for one in {made[number] for number in range(29, -1, -1)}])
    for one in asyncio.as_completed([_numbered(number) for number in range(30)]):
        orders[0].append(await one)
    return orders


async def _numbered(number: int) -> int:
    return number


def test_their_order_in_sets_is_the_same_everywhere() -> None:
    code = (
        "import sys, os; keep = [bytearray(int.from_bytes(os.urandom(2), 'big')) for _ in range(500)]\n"
        "from tests.unit.orchestration.test_tasks import made_directly, run\n"
        "print(run(made_directly))\n"
    )
    here = run(made_directly)
    for _ in range(2):
        there = subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        assert there.stdout == f"{here}\n"


def test_they_are_shown_as_asyncio_shows_them() -> None:
    async def child() -> None:
        await asyncio.sleep(1)

    async def body(ctx: Context) -> list[str]:
        made = [asyncio.create_task(child(), name="a"), asyncio.Task(child(), name="b"), asyncio.Future()]
        shown = [repr(one) for one in (*made, asyncio.get_running_loop().create_future())]
        await asyncio.gather(*made[:2])
        return [text.replace(repr(made[0].get_coro()), "").split(" coro=")[0] for text in shown]

    assert run(body) == ["<Task pending name='a'", "<Task pending name='b'", "<Future pending>", "<Future pending>"]


def test_a_task_shows_no_callback_that_the_code_has_not_added() -> None:
    async def child() -> None:
        await asyncio.sleep(1)

    async def body(ctx: Context) -> bool:
        task = asyncio.create_task(child())
        shown = repr(task)
        await task
        return " cb=" in shown

    assert run(body) is False


def test_classes_inside_are_as_outside() -> None:
    async def body(ctx: Context) -> list[bool]:
        class Own(asyncio.Future[int]):
            pass

        own, task = Own(), asyncio.current_task()
        return [
            isinstance(own, asyncio.Future),
            isinstance(own, Own),
            not isinstance(asyncio.Future(), Own),
            isinstance(task, asyncio.Task),
            isinstance(task, Task),
            isinstance(task, asyncio.Future),
            not isinstance(3, asyncio.Future),
            issubclass(Task, asyncio.Task),
            issubclass(Own, asyncio.Future),
            not issubclass(int, asyncio.Future),
        ]

    assert all(run(body))


class TestOtherLoops:
    """The patches of asyncio apply to orchestrations only."""

    NAMES = ("Future", "Task", "all_tasks", "wrap_future", "gather", "wait", "as_completed")

    def test_nothing_is_replaced_between_steps(self) -> None:
        before = [getattr(asyncio, name) for name in self.NAMES], asyncio.tasks._GatheringFuture  # type: ignore[attr-defined]

        async def body(ctx: Context) -> bool:
            inside = asyncio.Future is not before[0][0]
            await asyncio.sleep(1)
            return inside

        assert run(body) is True
        assert ([getattr(asyncio, name) for name in self.NAMES], asyncio.tasks._GatheringFuture) == before  # type: ignore[attr-defined]
        assert getattr(asyncio.tasks, "set", set) is set

    def test_a_thread_that_runs_another_loop_during_a_step_notices_nothing(self) -> None:
        plain = asyncio.Future, asyncio.Task
        seen: list[Any] = []

        async def elsewhere() -> None:
            async def child() -> int:
                return 1

            future: asyncio.Future[int] = asyncio.Future()
            task = asyncio.Task(child())
            seen.append((type(future), type(task)))
            seen.append(asyncio.all_tasks() == {task, asyncio.current_task()})
            seen.append(await asyncio.gather(task, child()))
            done, _ = await asyncio.wait([task])
            seen.append(done == {task})
            seen.append(hash(future) == object.__hash__(future))
            seen.append(await asyncio.to_thread(lambda: 7))

        async def body(ctx: Context) -> None:
            thread = threading.Thread(target=asyncio.run, args=(elsewhere(),))
            thread.start()
            thread.join()

        run(body)
        assert seen == [plain, True, [1, 1], True, True, 7]

    def test_a_loop_that_has_attributes_of_ours_is_not_taken_for_one(self) -> None:
        class Loop(asyncio.SelectorEventLoop):
            live_tasks = next_number = None

        async def main() -> int:
            await asyncio.gather(asyncio.sleep(0), asyncio.sleep(0))
            return len(asyncio.all_tasks())

        def elsewhere() -> None:
            with contextlib.closing(Loop()) as loop:
                found.append(loop.run_until_complete(main()))

        async def body(ctx: Context) -> None:
            # While a step runs, asyncio's names are replaced in other threads too.
            thread = threading.Thread(target=elsewhere)
            thread.start()
            thread.join()

        found: list[int] = []
        run(body)
        assert found == [1]


def test_timers_of_past_moments_fire_in_the_order_of_their_moments(cold: bool) -> None:
    async def body(ctx: Context) -> list[Any]:
        fired: list[Any] = []
        loop = asyncio.get_running_loop()
        loop.call_soon(fired.append, "soon")
        for seconds in (-1, -3, 0, -2, -3):
            loop.call_later(seconds, fired.append, seconds)
        await asyncio.sleep(1)
        return fired

    assert run(body, cold=cold) == ["soon", -3, -3, -2, -1, 0]
