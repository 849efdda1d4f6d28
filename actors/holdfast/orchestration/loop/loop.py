"""The event loop of an orchestration: asyncio as documented, but deterministic.

Its time is the time of the history. It runs only inside ``with loop.running()``, nested in the running loop, and stops
when no callback is ready. Future timers are passed to ``keep_timer``, and fire when :meth:`ReplayLoop.fire` is called.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
import re
import sys
import threading
from collections import deque
from math import isnan
from typing import TYPE_CHECKING, Any, TypeVarTuple
from zlib import crc32

from holdfast.errors import NeverYields, NotInOrchestrations
from holdfast.orchestration.loop.generators import Generators, collector
from holdfast.orchestration.loop.ordered_tasks import OrderedFuture, OrderedTask, OrderingLoop, Promise
from holdfast.orchestration.loop.sandbox import SandboxedLoop
from holdfast.orchestration.loop.source_lines import line_of_waiting
from holdfast.orchestration.loop.step_patches import begin_step, end_step
from holdfast.orchestration.loop.watchdog import Overrun, Watch, watchdog

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine
    from contextvars import Context

    from holdfast.orchestration.core.limits import Limits

Arguments = TypeVarTuple("Arguments")

log = logging.getLogger(__name__)

#: The last second of the year 9999, the maximum of ``datetime``. A timer beyond it never fires.
FOREVER = 253_402_300_799.0

#: How often a dropped coroutine may await in its clean-up before it is left suspended.
_DROPPING_ATTEMPTS = 100

# Since Python 3.14 the current task belongs to the thread, not to the loop, and has to be swapped. Python 3.11 has no
# such function, and needs none.
_swap = getattr(asyncio.tasks, "_swap_current_task", None)

# The original class: while a step runs, the name is replaced.
_Task = asyncio.Task

# The default task names of asyncio, which are numbered per process.
_DEFAULT_NAME = re.compile(r"Task-\d+")


class Dropped(BaseException):
    """Raised in the code of an instance that is evicted from memory. The code continues when it is loaded again."""


class ReplayLoop(SandboxedLoop, OrderingLoop):
    """A deterministic event loop without I/O, threads or a clock of its own."""

    def __init__(self, name: str, keep_timer: Callable[[asyncio.TimerHandle], None], limits: Limits) -> None:
        # The numbers serve as hashes, and asyncio keeps the tasks of all loops in one set, so they must differ between
        # loops. The lower bits, which order small sets, are left to the counter.
        self._first_number = crc32(name.encode()) << 24
        self._name = name
        self._keep_timer = keep_timer
        self._limits = limits
        self._now = 0.0
        self._numbers = 0
        self._task_numbers = 0
        self._ready: deque[asyncio.Handle] = deque()
        #: Timers that are due already; as in asyncio they run after the callbacks that are ready in this round.
        self._due: list[asyncio.TimerHandle] = []
        #: Tasks by address, in the order of creation. asyncio itself holds tasks weakly: the garbage collector would
        #: end a task without another reference.
        self._tasks: dict[int, asyncio.Task[Any]] = {}
        self._generators = Generators()
        #: Tasks that close generators, by address.
        self._closings: dict[int, asyncio.Task[Any]] = {}
        self._thread: int | None = None
        self._closed = False
        self._overrun = False
        collector.watch()
        #: True during a replay.
        self.silent = False

    # Running

    def running(self) -> _Running:
        """A context in which this is the running loop of the thread, in place of the outer one."""
        return _Running(self)

    def run_ready(self) -> None:
        """Runs callbacks until every task waits. Raises NeverYields when that takes too long."""
        watch = watchdog.begin(self._name, self._limits)
        try:
            self._run_ready(watch)
        except Overrun:
            # Raised just after the code had ended.
            pass
        finally:
            watchdog.end(watch)
            self._overrun = watch.overrun is not None
        if watch.overrun == "ran":
            raise NeverYields(
                f"The orchestration ran for more than {self._limits.seconds:g} seconds without waiting for anything. "
                "Move long computations into an activity.",
                line=watch.line,
            )
        if watch.overrun == "blocked":
            raise NeverYields(
                f"The orchestration blocked its process for more than {self._limits.blocked_seconds:g} seconds. Move "
                "blocking calls (time.sleep, a lock, a request, a file) into an activity.",
                line=watch.line,
            )

    def _run_ready(self, watch: Watch) -> None:
        ready, due, tasks = self._ready, self._due, self._tasks
        left = self._limits.callbacks
        owner: Any = None
        while ready or due:
            if due:
                # A stable sort: timers with the same due time stay in the order of creation.
                due.sort(key=asyncio.TimerHandle.when)
                ready.extend(handle for handle in due if not handle.cancelled())
                due.clear()
            left -= len(ready)
            if left < 0:
                raise NeverYields(
                    f"The orchestration took more than {self._limits.callbacks:,} steps without waiting for anything "
                    "that takes time: an activity, a timer or an event.",
                    line=line_of_waiting(owner) if isinstance(owner, _Task) else None,
                )
            for _ in range(len(ready)):
                handle = ready.popleft()
                if not handle.cancelled():
                    handle._run()
                    # A task ends only in a callback of its own, so it is removed here without a done callback, which
                    # asyncio would show in the task's repr.
                    owner = getattr(handle._callback, "__self__", None)  # type: ignore[attr-defined]
                    if id(owner) in tasks and owner.done():
                        del tasks[id(owner)]
                if watch.overrun:
                    return

    def fire(self, handle: asyncio.TimerHandle) -> None:
        """Schedules the callback of a timer that is due."""
        if not handle.cancelled():
            self._ready.append(handle)

    def advance(self, now: float) -> None:
        self._now = now

    def live_tasks(self) -> list[asyncio.Task[Any]]:
        return [task for task in self._tasks.values() if not task.done()]

    def closing_tasks(self) -> list[asyncio.Task[Any]]:
        """Returns the tasks that close async generators and have not ended."""
        self._closings = {key: task for key, task in self._closings.items() if not task.done()}
        return list(self._closings.values())

    def close_generators(self) -> None:
        """Closes all async generators that have not finished, as ``shutdown_asyncgens`` does."""
        if generators := self._generators.take_open():
            self._add_closing(self.create_task(self._close_all(generators)))

    def discard(self) -> None:
        """Closes the loop and ends its tasks. Clean-up in ``finally`` runs until it awaits, and has no effects."""
        if self._closed:
            return
        self._closed = True
        # It belongs to the commands, which have timers of this loop.
        self._keep_timer = _keep_none
        self._ready.clear()
        self._due.clear()
        self._generators.clear()
        watch = watchdog.begin(self._name, self._limits)
        try:
            with self.running():
                for task in reversed(self.live_tasks()):
                    # After an overrun the clean-up may overrun as well, so it is skipped.
                    if self._overrun or watch.overrun or not self._drop(task):
                        _keep_for_good(task)
        finally:
            watchdog.end(watch)
        self._tasks.clear()
        self._closings.clear()

    def is_inside(self) -> bool:
        """Returns whether callbacks may be scheduled: False once closed. Raises NotInOrchestrations from outside."""
        if self._closed:
            # Also called by coroutines that the garbage collector ends after the loop was closed.
            return False
        if self._thread == threading.get_ident():
            return True
        raise NotInOrchestrations(
            "An object of an orchestration (a future, a task, an asyncio.Event) was used outside of it. "
            "Send data to an orchestration as an event (raise_event) or as the result of an activity."
        )

    # The interface of an asyncio loop

    def is_running(self) -> bool:
        return self._thread is not None

    def is_closed(self) -> bool:
        return self._closed

    def get_debug(self) -> bool:
        return False

    def set_debug(self, enabled: bool) -> None:
        """Does nothing: asyncio's debug mode measures real time."""

    def time(self) -> float:
        return self._now

    def next_number(self) -> int:
        self._numbers += 1
        return self._first_number + self._numbers

    def call_soon(
        self, callback: Callable[[*Arguments], object], *args: *Arguments, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        if self.is_inside():
            owner = getattr(callback, "__self__", None)
            if isinstance(owner, _Task) and id(owner) not in self._tasks and not owner.done():
                self._adopt(owner)
            self._ready.append(handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[*Arguments], object], *args: *Arguments, context: Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self, delay: float, callback: Callable[[*Arguments], object], *args: *Arguments, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[*Arguments], object], *args: *Arguments, context: Context | None = None
    ) -> asyncio.TimerHandle:
        if isnan(when):
            raise ValueError("The due time of a timer must be a number, not NaN.")
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        if self.is_inside():
            if when <= self._now:
                self._due.append(handle)
            elif when <= FOREVER:
                self._keep_timer(handle)
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Does nothing: the timers of the execution check for cancellation themselves."""

    def create_future(self) -> asyncio.Future[Any]:
        return OrderedFuture(loop=self)

    def create_promise(self) -> Promise:
        return Promise(loop=self)

    def create_task(self, coro: Coroutine[Any, Any, Any], **options: Any) -> asyncio.Task[Any]:  # type: ignore[override]
        if not self.is_inside():
            # In the clean-up of an evicted instance a new task never begins.
            coro.close()
        if options.get("name") is None:
            options["name"] = self._next_task_name()
        task: OrderedTask[Any] = OrderedTask(coro, loop=self, **options)
        if not task.done():
            self._keep(task)
        return task

    def get_task_factory(self) -> None:
        return None

    def get_exception_handler(self) -> None:
        return None

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.call_exception_handler(context)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        # Also called when the garbage collector finds an object, possibly after the loop was closed.
        if not self._closed and not self.silent:
            log.error("orchestration %s: %s", self._name, context.get("message"), exc_info=context.get("exception"))

    # Internals

    def _drop(self, task: asyncio.Task[Any]) -> bool:
        """Ends a coroutine where it waits. Returns False if it continued to await in its clean-up."""
        coro: Any = task.get_coro()
        asyncio.tasks._enter_task(self, task)
        try:
            # Not close(): that throws GeneratorExit, and an inner coroutine that awaits in its clean-up, as a TaskGroup
            # awaits its tasks, would be left to the garbage collector, which logs an error.
            for _ in range(_DROPPING_ATTEMPTS):
                coro.throw(Dropped())
        except BaseException as error:
            if not isinstance(error, Dropped):
                log.debug("orchestration %s: error in the clean-up at its eviction: %r", self._name, error)
            return True
        finally:
            asyncio.tasks._leave_task(self, task)
        return False

    def _next_task_name(self) -> str:
        # asyncio's own names count the tasks of all loops of the process.
        self._task_numbers += 1
        return f"Task-{self._task_numbers}"

    def _adopt(self, task: asyncio.Task[Any]) -> None:
        """Registers a task that is scheduled for the first time, including one not made by create_task."""
        if type(task) is not OrderedTask and _DEFAULT_NAME.fullmatch(task.get_name()):
            task.set_name(self._next_task_name())
        self._keep(task)

    def _keep(self, task: asyncio.Task[Any]) -> None:
        # No warning about pending tasks: an evicted instance drops them, and they are recreated by a replay.
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        self._tasks[id(task)] = task

    def _generator_begins(self, generator: AsyncGenerator[Any, Any]) -> None:
        if not self._closed:
            self._generators.begin(generator)

    def _generator_lost(self, generator: AsyncGenerator[Any, Any]) -> None:
        # A generator of a closed loop is dropped with its instance, and recreated by a replay.
        if self._closed:
            return
        if self._thread == threading.get_ident() and not collector.is_at_work_here():
            self._generators.dropped(generator)
            self.call_soon(self._close_generator, generator)
        else:
            self._generators.found(generator)

    def _close_generator(self, generator: AsyncGenerator[Any, Any]) -> None:
        self._add_closing(self.create_task(generator.aclose()))

    def _add_closing(self, task: asyncio.Task[Any]) -> None:
        self.closing_tasks()
        self._closings[id(task)] = task

    async def _close_all(self, generators: list[AsyncGenerator[Any, Any]]) -> None:
        results = await asyncio.gather(*(generator.aclose() for generator in generators), return_exceptions=True)
        for generator, result in zip(generators, results, strict=True):
            if isinstance(result, Exception):
                message = f"an error occurred while the asynchronous generator {generator!r} was closed"
                self.call_exception_handler({"message": message, "exception": result, "asyncgen": generator})


def _keep_none(timer: asyncio.TimerHandle) -> None:
    """Stands for the timers of a loop that was closed."""


def _keep_for_good(task: asyncio.Task[Any]) -> None:
    # An extra reference keeps the task alive forever. Otherwise the garbage collector, or the end of the process, would
    # close the coroutine, and code that cannot be ended would run there.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(task))


class _Running:
    """The context of :meth:`ReplayLoop.running`. A class, because a generator takes three times as long per step."""

    def __init__(self, loop: ReplayLoop) -> None:
        self._loop = loop

    def __enter__(self) -> None:
        loop = self._loop
        self._outer = asyncio._get_running_loop()
        self._outer_task = None if self._outer is None or _swap is None else asyncio.current_task(self._outer)
        self._thread = loop._thread
        self._hooks = sys.get_asyncgen_hooks()
        # The garbage collector would run clean-up code at a different point in each replay.
        self._collects = gc.isenabled()
        gc.disable()
        begin_step()
        if _swap is not None and self._outer_task is not None:
            _swap(self._outer, None)
        sys.set_asyncgen_hooks(firstiter=loop._generator_begins, finalizer=loop._generator_lost)
        asyncio._set_running_loop(loop)
        loop._thread = threading.get_ident()

    def __exit__(self, *failure: object) -> None:
        self._loop._thread = self._thread
        asyncio._set_running_loop(self._outer)
        sys.set_asyncgen_hooks(*self._hooks)
        end_step()
        if self._collects:
            gc.enable()
        if _swap is not None and self._outer_task is not None:
            _swap(self._outer, self._outer_task)
