"""The same code on an ordinary loop and in an orchestration, kept or rebuilt at every step: the same happens."""

from __future__ import annotations

import asyncio
import contextvars
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import App
from holdfast.runtime.simulated.loop import VirtualTimeLoop
from tests.unit.orchestration.driver import Driver
from tests.unit.orchestration.snippets import SNIPPETS, UNORDERED, failing, later, snippet, traced, unordered

if TYPE_CHECKING:
    from holdfast import Context
    from tests.unit.orchestration.snippets import Snippet, Trace


@snippet
async def sleeps_one_after_the_other(trace: Trace) -> None:
    for seconds in (1, 0, 0.5, -3):
        trace(await asyncio.sleep(seconds, f"slept {seconds}"))


@snippet
async def gather_keeps_the_order_of_its_arguments(trace: Trace) -> None:
    trace(await asyncio.gather(later(trace, "a", 3), later(trace, "b", 1), later(trace, "c", 2)))


@snippet
@unordered
async def gather_of_equal_times(trace: Trace) -> None:
    trace(await asyncio.gather(*(later(trace, str(number), 1) for number in range(20))))


@snippet
async def gather_raises_the_first_failure_and_lets_the_others_run(trace: Trace) -> None:
    slow = asyncio.create_task(later(trace, "slow", 5))
    try:
        await asyncio.gather(slow, failing(trace, "bad", 1), failing(trace, "worse", 2))
    except ValueError as error:
        trace("caught", error)
    trace(await slow)


@snippet
async def gather_returns_exceptions(trace: Trace) -> None:
    results = await asyncio.gather(failing(trace, "bad", 1), later(trace, "good", 2), return_exceptions=True)
    trace([repr(result) for result in results])


@snippet
async def cancelling_a_gather_cancels_its_children(trace: Trace) -> None:
    together = asyncio.gather(later(trace, "a", 5), later(trace, "b", 6))
    asyncio.get_running_loop().call_later(1, together.cancel)
    try:
        await together
    except asyncio.CancelledError:
        trace("cancelled")


@snippet
async def wait_for_the_first(trace: Trace) -> None:
    tasks = [asyncio.create_task(later(trace, name, seconds)) for name, seconds in (("a", 2), ("b", 1), ("c", 3))]
    while tasks:
        done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        trace(sorted(task.result() for task in done), len(pending))
        tasks = list(pending)


@snippet
async def wait_until_one_fails(trace: Trace) -> None:
    tasks = {asyncio.create_task(failing(trace, "bad", 2)), asyncio.create_task(later(trace, "good", 1))}
    tasks.add(asyncio.create_task(later(trace, "slow", 9)))
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    trace(len(done), len(pending), sorted(repr(task.exception()) for task in done))


@snippet
@unordered
async def wait_with_a_time_limit(trace: Trace) -> None:
    for limit in (0, 1.5):
        tasks = [asyncio.create_task(later(trace, name, seconds)) for name, seconds in (("a", 1), ("b", 2))]
        done, pending = await asyncio.wait(tasks, timeout=limit)
        trace(limit, len(done), len(pending))
        for task in pending:
            task.cancel()
        await asyncio.wait(tasks)


@snippet
async def as_they_are_completed(trace: Trace) -> None:
    tasks = [later(trace, name, seconds) for name, seconds in (("a", 3), ("b", 1), ("c", 2))]
    for following in asyncio.as_completed(tasks):
        trace(await following)


@snippet
async def as_they_are_completed_with_a_time_limit(trace: Trace) -> None:
    tasks = [asyncio.create_task(later(trace, name, seconds)) for name, seconds in (("a", 3), ("b", 1))]
    for following in asyncio.as_completed(tasks, timeout=2):
        try:
            trace(await following)
        except TimeoutError:
            trace("too late")


@snippet
async def a_task_group_waits_for_all(trace: Trace) -> None:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(later(trace, name, seconds)) for name, seconds in (("a", 2), ("b", 1))]
        trace("inside")
    trace([task.result() for task in tasks])


@snippet
@unordered
async def a_task_group_cancels_the_others_when_one_fails(trace: Trace) -> None:
    async with asyncio.TaskGroup() as group:
        for number in range(6):
            group.create_task(later(trace, f"slow {number}", 9))
        group.create_task(failing(trace, "bad", 1))
        await later(trace, "body", 5)


@snippet
async def a_task_group_gathers_failures_of_clean_up(trace: Trace) -> None:
    async def cleaning(name: str) -> None:
        try:
            await asyncio.sleep(9)
        finally:
            await asyncio.sleep(1)
            raise OSError(name)

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(cleaning("x"))
            group.create_task(cleaning("y"))
            group.create_task(failing(trace, "bad", 1))
    except* OSError as errors:
        trace("clean-up", sorted(str(error) for error in errors.exceptions))
    except* ValueError as errors:
        trace("cause", [str(error) for error in errors.exceptions])


@snippet
@unordered
async def nested_task_groups(trace: Trace) -> None:
    async def inner() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(later(trace, "inner slow", 9))
            group.create_task(failing(trace, "inner bad", 2))

    async with asyncio.TaskGroup() as group:
        group.create_task(inner())
        group.create_task(later(trace, "outer slow", 9))


@snippet
async def a_timeout_that_passes(trace: Trace) -> None:
    try:
        async with asyncio.timeout(2) as limit:
            await later(trace, "slow", 5)
    except TimeoutError:
        trace("timed out", limit.expired())


@snippet
async def a_timeout_that_does_not_pass(trace: Trace) -> None:
    async with asyncio.timeout(2) as limit:
        trace(await later(trace, "quick", 1))
    trace(limit.expired())
    await asyncio.sleep(5)


@snippet
async def timeouts_inside_each_other(trace: Trace) -> None:
    for outer, inner in ((1, 2), (2, 1)):
        try:
            async with asyncio.timeout(outer):
                try:
                    async with asyncio.timeout(inner):
                        await later(trace, "slow", 5)
                except TimeoutError:
                    trace("inner")
        except TimeoutError:
            trace("outer")


@snippet
async def a_timeout_is_put_off(trace: Trace) -> None:
    try:
        async with asyncio.timeout(None) as limit:
            limit.reschedule(asyncio.get_running_loop().time() + 1)
            await asyncio.sleep(0.5)
            limit.reschedule(asyncio.get_running_loop().time() + 3)
            await later(trace, "slow", 9)
    except TimeoutError:
        trace("timed out")


@snippet
async def a_timeout_at_a_moment(trace: Trace) -> None:
    for ahead in (-1, 0, 1):
        try:
            async with asyncio.timeout_at(asyncio.get_running_loop().time() + ahead):
                await later(trace, "slow", 9)
        except TimeoutError:
            trace("timed out", ahead)


@snippet
async def a_timeout_and_a_sleep_of_the_same_length(trace: Trace) -> None:
    try:
        async with asyncio.timeout(1):
            await later(trace, "same", 1)
    except TimeoutError:
        trace("timed out")


@snippet
async def wait_for_something(trace: Trace) -> None:
    trace(await asyncio.wait_for(later(trace, "quick", 1), timeout=2))
    for limit in (0, 2):
        try:
            await asyncio.wait_for(later(trace, "slow", 5), timeout=limit)
        except TimeoutError:
            trace("timed out", limit)


@snippet
async def a_shielded_task_goes_on(trace: Trace) -> None:
    task = asyncio.create_task(later(trace, "shielded", 3))
    try:
        await asyncio.wait_for(asyncio.shield(task), timeout=1)
    except TimeoutError:
        trace("timed out")
    trace(await task)


@snippet
async def cancellation_can_be_refused_and_cleaned_up_after(trace: Trace) -> None:
    async def stubborn() -> str:
        try:
            await asyncio.sleep(9)
        except asyncio.CancelledError as cancellation:
            trace("refused", cancellation.args)
        try:
            await asyncio.sleep(9)
        finally:
            await asyncio.sleep(1)
            trace("cleaned up")
        return "never"

    task = asyncio.create_task(stubborn())
    await asyncio.sleep(1)
    task.cancel("first")
    await asyncio.sleep(1)
    trace(task.done(), task.cancelling())
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        trace("cancelled", task.cancelled())


@snippet
async def a_task_that_is_cancelled_before_it_begins(trace: Trace) -> None:
    task = asyncio.create_task(later(trace, "never", 1))
    task.cancel()
    trace(await asyncio.gather(task, return_exceptions=True))


@snippet
async def an_event(trace: Trace) -> None:
    event = asyncio.Event()

    async def waiting(name: str) -> None:
        await event.wait()
        trace(name)

    async with asyncio.TaskGroup() as group:
        for name in "abc":
            group.create_task(waiting(name))
        await asyncio.sleep(1)
        trace("set")
        event.set()


@snippet
async def a_lock_is_given_in_turn(trace: Trace) -> None:
    lock = asyncio.Lock()

    async def using(name: str) -> None:
        async with lock:
            await later(trace, name, 1)

    await asyncio.gather(*(using(name) for name in "abc"))


@snippet
async def a_semaphore_lets_two_in(trace: Trace) -> None:
    semaphore = asyncio.Semaphore(2)

    async def using(name: str) -> None:
        async with semaphore:
            await later(trace, name, 1)

    await asyncio.gather(*(using(name) for name in "abcde"))


@snippet
async def a_condition(trace: Trace) -> None:
    condition = asyncio.Condition()
    store: list[int] = []

    async def taking(name: str) -> None:
        async with condition:
            await condition.wait_for(lambda: bool(store))
            trace(name, store.pop())

    async with asyncio.TaskGroup() as group:
        for name in "ab":
            group.create_task(taking(name))
        for number in range(2):
            await asyncio.sleep(1)
            async with condition:
                store.append(number)
                condition.notify()


@snippet
async def a_barrier(trace: Trace) -> None:
    barrier = asyncio.Barrier(3)

    async def arriving(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await barrier.wait()
        trace(name)

    await asyncio.gather(arriving("a", 1), arriving("b", 3), arriving("c", 2))


@snippet
async def a_queue_with_workers(trace: Trace) -> None:
    queue: asyncio.Queue[int] = asyncio.Queue(maxsize=2)

    async def worker(name: str) -> None:
        while True:
            number = await queue.get()
            await asyncio.sleep(number)
            trace(name, number)
            queue.task_done()

    workers = [asyncio.create_task(worker(name)) for name in "ab"]
    for number in (3, 1, 1, 2, 1):
        await queue.put(number)
        trace("put", number)
    await queue.join()
    for task in workers:
        task.cancel()
    trace(await asyncio.gather(*workers, return_exceptions=True))


@snippet
async def variables_belong_to_their_task(trace: Trace) -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="none")

    async def changing(name: str) -> None:
        trace(name, "sees", variable.get())
        variable.set(name)
        await asyncio.sleep(1)
        trace(name, "has", variable.get())

    variable.set("main")
    await asyncio.gather(changing("a"), changing("b"))
    trace("main has", variable.get())


@snippet
async def callbacks_in_their_order(trace: Trace) -> None:
    loop = asyncio.get_running_loop()
    task = asyncio.create_task(later(trace, "task", 1))
    task.add_done_callback(lambda _: trace("done callback"))
    loop.call_soon(trace, "soon")
    loop.call_later(0, trace, "later at once")
    loop.call_later(2, trace, "later")
    loop.call_at(loop.time() + 1, trace, "at")
    loop.call_soon(lambda: loop.call_soon(trace, "soon after"))
    loop.call_later(1, trace, "never").cancel()
    trace("begins")
    await asyncio.sleep(3)


@snippet
async def who_is_running(trace: Trace) -> None:
    async def child() -> None:
        task = asyncio.current_task()
        assert task is not None
        trace(task.get_name(), len(asyncio.all_tasks()))
        await asyncio.sleep(1)
        assert asyncio.current_task() is task

    main = asyncio.current_task()
    await asyncio.gather(asyncio.create_task(child(), name="first"), asyncio.create_task(child(), name="second"))
    trace(asyncio.current_task() is main, len(asyncio.all_tasks()))


@snippet
async def an_async_generator_is_closed(trace: Trace) -> None:
    async def numbers() -> Any:
        try:
            for number in range(9):
                await asyncio.sleep(1)
                yield number
        finally:
            await asyncio.sleep(0)
            trace("closed")

    async for number in numbers():
        trace(number)
        if number == 2:
            break
    await asyncio.sleep(1)


@snippet
async def a_future_of_ones_own(trace: Trace) -> None:
    future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(2, future.set_result, "resolved")
    trace(await future)


@pytest.mark.parametrize("cold", [False, True], ids=["kept", "rebuilt"])
@pytest.mark.parametrize("snippet", SNIPPETS, ids=lambda snippet: snippet.__name__)
def test_it_is_as_on_an_ordinary_loop(snippet: Snippet, cold: bool) -> None:
    app = App()

    @app.orchestration
    async def orchestration(ctx: Context) -> list[str]:
        return await traced(snippet)

    driver = Driver(app, cold=cold)
    driver.start("orchestration")
    here, there = driver.run(), VirtualTimeLoop.run(traced(snippet))
    if snippet in UNORDERED:
        here, there = sorted(here), sorted(there)
    assert here == there
    assert len(here) > 0
