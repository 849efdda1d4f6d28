"""Threads of sync activities, and the exit of a process whose activities do not end."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable

    from prometheus_client import Gauge

#: The prefix of the names of threads and tasks that run activities.
NAME = "activity"
_SECONDS = 2.0


class Threads:
    """A thread pool for ``size`` concurrent activities.

    Python cannot end a thread. The thread of an activity that timed out is abandoned: it runs until its function
    returns, and another thread takes its place. The pool is exhausted while ``most_abandoned`` threads are
    abandoned; the worker then starts no sync activity.
    """

    def __init__(self, size: int, most_abandoned: int, gauge: Gauge) -> None:
        self._most_abandoned = most_abandoned
        self._gauge = gauge
        self.abandoned = 0
        self._executor = ThreadPoolExecutor(size + most_abandoned, thread_name_prefix=NAME)

    @property
    def exhausted(self) -> bool:
        return self.abandoned >= self._most_abandoned

    async def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Calls the function in a thread and returns its result. A cancellation abandons the thread."""
        call = self._executor.submit(contextvars.copy_context().run, function, *arguments)
        try:
            return await asyncio.wrap_future(call)
        except asyncio.CancelledError:
            if not call.done():
                self._abandon(call)
            raise

    def shut_down(self) -> None:
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _abandon(self, call: Future[Any]) -> None:
        loop = asyncio.get_running_loop()

        def ended(_: Future[Any]) -> None:
            # The loop may have ended before the thread.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._count, -1)

        self._count(1)
        call.add_done_callback(ended)

    def _count(self, change: int) -> None:
        self.abandoned += change
        self._gauge.inc(change)


def leave_tasks() -> None:
    """Exits the process if cancelled async activities still run. Call it last: asyncio would wait for them."""
    if any(task.get_name() == NAME for task in asyncio.all_tasks()):
        _end_process()


def exit_past_threads() -> None:
    """Exits the process even if threads still run activities, which were abandoned to their queue already."""
    until = time.monotonic() + _SECONDS
    running = [thread for thread in threading.enumerate() if thread.name.startswith(NAME)]
    for thread in running:
        thread.join(max(0.0, until - time.monotonic()))
    if any(thread.is_alive() for thread in running):
        _end_process()


def _end_process() -> NoReturn:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
