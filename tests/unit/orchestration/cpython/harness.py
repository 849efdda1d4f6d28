"""Runs one of CPython's tests as the code of an orchestration.

Tests that are coroutines are awaited. Others call ``loop.run_until_complete``: they run in a greenlet, and each such
call lets the orchestration await what the test wants done, and then goes on in the test.
"""

from __future__ import annotations

import asyncio
import inspect
import unittest
from typing import TYPE_CHECKING, Any

from greenlet import getcurrent, greenlet

from holdfast import App
from holdfast.orchestration.loop.ordered_tasks import OrderedFuture, OrderedTask

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast import Context

#: What asyncio.new_event_loop() and the like give during a test: it begins outside of any loop.
_loop: Any = None


def an_app() -> App:
    app = App()

    @app.orchestration
    async def cpython(ctx: Context, name: str) -> str:
        case = find(name)
        method = getattr(case, case._testMethodName)
        if any(getattr(one, "__unittest_skip__", False) for one in (method, type(case))):
            return "skipped"
        try:
            await (
                _awaited(case, method) if isinstance(case, unittest.IsolatedAsyncioTestCase) else _called(case, method)
            )
        except unittest.SkipTest:
            return "skipped"
        return "passed"

    return app


def find(name: str) -> Any:
    [case] = unittest.defaultTestLoader.loadTestsFromName(name)
    return case


def names_of(module: str, classes: list[str]) -> list[str]:
    loader = unittest.defaultTestLoader
    imported = __import__(module, fromlist=["*"])
    return [
        f"{module}.{one}.{method}"
        for one in classes
        if hasattr(imported, one)
        for method in loader.getTestCaseNames(getattr(imported, one))
    ]


async def _awaited(case: Any, method: Callable[[], Any]) -> None:
    try:
        for part in (case.setUp, case.asyncSetUp, method, case.asyncTearDown, case.tearDown):
            outcome = part()
            if inspect.isawaitable(outcome):
                await outcome
    finally:
        while case._cleanups:
            cleanup, args, options = case._cleanups.pop()
            outcome = cleanup(*args, **options)
            if inspect.isawaitable(outcome):
                await outcome


async def _called(case: Any, method: Callable[[], Any]) -> None:
    global _loop
    loop: Any = asyncio.get_running_loop()
    task = asyncio.current_task()
    hub = getcurrent()

    def body() -> None:
        failure: BaseException | None = None
        case.setUp()
        try:
            method()
        except BaseException as error:
            # Kept for later: tearDown checks that no error is being handled.
            failure = error
        case.tearDown()
        case.doCleanups()
        if failure is not None:
            raise failure

    def run_until_complete(wanted: Any) -> Any:
        future = asyncio.ensure_future(wanted, loop=loop)
        hub.switch(future)
        if not future.done():
            raise RuntimeError("Event loop stopped before Future completed.")
        return future.result()

    def run_forever() -> None:
        loop.stopped = loop.create_future()
        hub.switch(loop.stopped)

    def stop() -> None:
        if not loop.stopped.done():
            loop.stopped.set_result(None)

    def go_on() -> Any:
        """In the test, outside of any loop, up to where it wants something run."""
        asyncio.tasks._leave_task(loop, task)  # type: ignore[arg-type]
        asyncio._set_running_loop(None)
        try:
            return test.switch()
        finally:
            asyncio._set_running_loop(loop)
            asyncio.tasks._enter_task(loop, task)  # type: ignore[arg-type]

    def set_task_factory(factory: Any) -> None:
        loop.__dict__.pop("create_task", None)
        if factory is not None:
            loop.create_task = lambda coro, **options: factory(loop, coro, **options)

    # On the instance they hide what the class refuses.
    loop.set_task_factory = set_task_factory
    loop.run_until_complete, loop.run_forever, loop.stop = run_until_complete, run_forever, stop
    loop.close = lambda: None
    # Time is the history's, and passes by itself when all waits.
    loop.advance_time = lambda seconds: None
    loop.shutdown_asyncgens = _nothing
    test = greenlet(body)
    _loop = loop
    try:
        wanted = go_on()
        while not test.dead:
            await _End(wanted)
            wanted = go_on()
    finally:
        if not test.dead:
            test.throw()


class _End:
    """Awaits the end of a future, and leaves its outcome, which can be asked for once only, to the test."""

    _asyncio_future_blocking = False

    def __init__(self, future: Any) -> None:
        self._future = future

    def __await__(self) -> Any:
        self._asyncio_future_blocking = True
        yield self

    def get_loop(self) -> Any:
        return _loop

    def add_done_callback(self, callback: Callable[[Any], Any], *, context: Any = None) -> None:
        self._future.add_done_callback(lambda _: callback(self), context=context)

    def result(self) -> None:
        return None

    def cancel(self, *_: Any) -> bool:
        return False


async def _nothing() -> None: ...


def prepare() -> None:
    """Makes CPython's tests use the loop of their orchestration. Only for a process that does nothing else."""
    import test.test_asyncio.utils as utils
    from test.test_asyncio import test_futures, test_tasks

    def new_test_loop(self: Any, gen: Any = None) -> Any:
        return _loop

    utils.TestCase.new_test_loop = new_test_loop
    utils.TestCase.close_loop = staticmethod(lambda loop: None)
    utils.TestLoop = lambda gen=None: _loop
    asyncio.new_event_loop = lambda: _loop
    # What create_task and create_future make.
    test_tasks.CTask_CFuture_SubclassTests.Task = OrderedTask
    test_tasks.CTask_CFuture_SubclassTests.Future = OrderedFuture
    test_futures.CSubFutureTests.cls = OrderedFuture
    test_futures.CSubFutureDoneCallbackTests._new_future = lambda self: OrderedFuture(loop=self.loop)
