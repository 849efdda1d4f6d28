"""The event loop of an orchestration: asyncio as documented, but the same code always does the same in the same order.

Its time is that of the history. It runs only inside ``with loop.running()``, in whichever loop's turn that is, and
stops when nothing is ready. Timers that lie ahead are handed to whoever keeps them, and fire when they are told to.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import sys
import threading
from collections import deque
from math import isnan
from typing import TYPE_CHECKING, Any, TypeVarTuple
from zlib import crc32

from holdfast.errors import NeverYields, NotInOrchestrations
from holdfast.orchestration.outside import NothingOutside
from holdfast.orchestration.tasks import NumberedFuture, NumberedTask, Promise, install
from holdfast.orchestration.watchdog import Overrun, Watch, watchdog

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine
    from contextvars import Context

    from holdfast.orchestration.limits import Limits

Arguments = TypeVarTuple("Arguments")

log = logging.getLogger(__name__)

#: The last second of the year 9999, which is as far as a date goes. A timer beyond it never fires.
FOREVER = 253_402_300_799.0

#: How often a coroutine that is dropped may wait in its clean-up before it is left where it is.
_DROPPING_ATTEMPTS = 100

# From Python 3.14 on the current task belongs to the thread, no longer to the loop; 3.11 knows no swapping, and needs
# none.
_swap = getattr(asyncio.tasks, "_swap_current_task", None)

install()


class Dropped(BaseException):
    """The instance leaves memory. Its code goes on where it is loaded again; here it ends."""


class ReplayLoop(NothingOutside):
    """An event loop without an outside."""

    def __init__(self, name: str, keep_timer: Callable[[asyncio.TimerHandle], None], limits: Limits) -> None:
        # The numbers are hashes, and asyncio keeps the tasks of all loops in one set: those of two loops must differ.
        # The lower bits, by which small sets are ordered, are left to what is numbered.
        self._first_number = crc32(name.encode()) << 24
        self._name = name
        self._keep_timer = keep_timer
        self._limits = limits
        self._now = 0.0
        self._numbers = 0
        self._task_numbers = 0
        self._ready: deque[asyncio.Handle] = deque()
        #: Timers that are due already; as in asyncio they come after all that is ready in this round.
        self._due: list[asyncio.TimerHandle] = []
        #: asyncio itself holds tasks weakly: one that nobody else holds would end when the garbage collector likes.
        self._tasks: dict[int, NumberedTask[Any]] = {}
        self._thread: int | None = None
        self._closed = False
        self._overrun = False
        #: While the code does again what it did before.
        self.silent = False

    # Running

    def running(self) -> _Running:
        """Makes this the running loop of the thread for a while, whichever was so before."""
        return _Running(self)

    def run_ready(self) -> None:
        """Until everything waits. Raises NeverYields when that takes too long."""
        watch = watchdog.begin(self._limits.seconds)
        try:
            self._run_ready(watch)
        except Overrun:
            # It came when the code had just ended by itself.
            pass
        finally:
            watchdog.end(watch)
            self._overrun = watch.overrun
        if watch.overrun:
            raise NeverYields(
                f"The orchestration ran for more than {self._limits.seconds:g} seconds without waiting for anything. "
                "What takes long belongs into an activity."
            )

    def _run_ready(self, watch: Watch) -> None:
        ready, due = self._ready, self._due
        left = self._limits.callbacks
        while ready or due:
            if due:
                ready.extend(handle for handle in due if not handle.cancelled())
                due.clear()
            left -= len(ready)
            if left < 0:
                raise NeverYields(
                    f"The orchestration took more than {self._limits.callbacks:,} steps without waiting for anything "
                    "that takes time: an activity, a timer or an event."
                )
            for _ in range(len(ready)):
                handle = ready.popleft()
                if not handle.cancelled():
                    handle._run()
                if watch.overrun:
                    return

    def fire(self, handle: asyncio.TimerHandle) -> None:
        """The moment of a timer that was kept has come."""
        if not handle.cancelled():
            self._ready.append(handle)

    def advance(self, now: float) -> None:
        self._now = now

    def live_tasks(self) -> list[NumberedTask[Any]]:
        """All that have not ended, in the order they were made in."""
        return [task for task in self._tasks.values() if not task.done()]

    def close(self) -> None:
        """Drops all that waits. Clean-up in ``finally`` runs as far as it does not wait, and reaches nobody."""
        if self._closed:
            return
        self._closed = True
        self._ready.clear()
        self._due.clear()
        watch = watchdog.begin(self._limits.seconds)
        try:
            with self.running():
                for task in reversed(self.live_tasks()):
                    # The clean-up of what has run on and on may do so as well.
                    if self._overrun or watch.overrun or not self._drop(task):
                        _keep_for_good(task)
        finally:
            watchdog.end(watch)
        self._tasks.clear()

    def is_inside(self) -> bool:
        """Whether something may be scheduled: not when all is dropped. Raises when it is asked from outside."""
        if self._thread == threading.get_ident():
            return not self._closed
        raise NotInOrchestrations(
            "Something of an orchestration (a future, a task, an asyncio.Event) was used from outside of it. "
            "What happens outside reaches an orchestration as an event (raise_event) or as the result of an activity."
        )

    # What asyncio asks of a loop

    def is_running(self) -> bool:
        return self._thread is not None

    def is_closed(self) -> bool:
        return self._closed

    def get_debug(self) -> bool:
        return False

    def set_debug(self, enabled: bool) -> None:
        """Nothing: what debugging measures are the real seconds a callback takes."""

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
            raise ValueError("A timer needs a moment that is a number.")
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        if self.is_inside():
            if when <= self._now:
                self._due.append(handle)
            elif when <= FOREVER:
                self._keep_timer(handle)
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Nothing: whoever keeps the timer asks it."""

    def create_future(self) -> asyncio.Future[Any]:
        return NumberedFuture(self.next_number(), loop=self)

    def create_promise(self) -> Promise:
        return Promise(self.next_number(), loop=self)

    def create_task(self, coro: Coroutine[Any, Any, Any], **options: Any) -> asyncio.Task[Any]:  # type: ignore[override]
        if not self.is_inside():
            # In the clean-up of what is dropped: a task that never begins.
            coro.close()
        self._task_numbers += 1
        if options.get("name") is None:
            # asyncio itself counts the tasks of all loops of the process.
            options["name"] = f"Task-{self._task_numbers}"
        number = self._first_number + self._task_numbers
        task: NumberedTask[Any] = NumberedTask(number, coro, loop=self, **options)
        if not task.done():
            self._tasks[task.number] = task
            task.add_done_callback(self._task_done)
        return task

    def get_task_factory(self) -> None:
        return None

    def get_exception_handler(self) -> None:
        return None

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.call_exception_handler(context)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        # Also called by what the garbage collector finds, at any moment, when the loop is long closed.
        if not self._closed and not self.silent:
            log.error(
                "In the orchestration %s: %s", self._name, context.get("message"), exc_info=context.get("exception")
            )

    # Inside

    def _drop(self, task: NumberedTask[Any]) -> bool:
        """Ends a coroutine where it waits. Answers whether it let that happen."""
        coro: Any = task.get_coro()
        asyncio.tasks._enter_task(self, task)
        try:
            # Not close(): that throws GeneratorExit, and a coroutine inside a coroutine that waits in its clean-up, as
            # a TaskGroup does for its tasks, is then left behind for the garbage collector to complain about.
            for _ in range(_DROPPING_ATTEMPTS):
                coro.throw(Dropped())
        except BaseException as error:
            if not isinstance(error, Dropped):
                log.debug("Clean-up of an orchestration that leaves memory: %r", error)
            return True
        finally:
            asyncio.tasks._leave_task(self, task)
        return False

    def _task_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(hash(task), None)

    def _generator_begins(self, generator: AsyncGenerator[Any, Any]) -> None:
        """Nothing to do, but the loop outside must not hear of it."""

    def _generator_dropped(self, generator: AsyncGenerator[Any, Any]) -> None:
        # Otherwise it leaves memory with its instance, and goes on where that is loaded again.
        if self._thread == threading.get_ident() and not self._closed:
            self.create_task(generator.aclose())


def _keep_for_good(task: NumberedTask[Any]) -> None:
    # One reference more than there is: otherwise the garbage collector, or the end of the process, would close the
    # coroutine, and code that lets nothing end it would run on in there.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(task))


class _Running:
    """A class, as every step of an instance goes through here: a generator takes three times as long."""

    def __init__(self, loop: ReplayLoop) -> None:
        self._loop = loop

    def __enter__(self) -> None:
        loop = self._loop
        self._outer = asyncio._get_running_loop()
        self._outer_task = None if self._outer is None or _swap is None else asyncio.current_task(self._outer)
        self._thread = loop._thread
        self._hooks = sys.get_asyncgen_hooks()
        if _swap is not None and self._outer_task is not None:
            _swap(self._outer, None)
        sys.set_asyncgen_hooks(firstiter=loop._generator_begins, finalizer=loop._generator_dropped)
        asyncio._set_running_loop(loop)
        loop._thread = threading.get_ident()

    def __exit__(self, *failure: object) -> None:
        self._loop._thread = self._thread
        asyncio._set_running_loop(self._outer)
        sys.set_asyncgen_hooks(*self._hooks)
        if _swap is not None and self._outer_task is not None:
            _swap(self._outer, self._outer_task)
