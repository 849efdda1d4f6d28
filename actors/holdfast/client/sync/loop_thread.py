"""A thread with an event loop that owns an open client and runs its calls for other threads."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextlib
import os
import threading
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.errors import ClientClosed

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from holdfast.client import Client
    from holdfast.client.api.connection import Connection

Result = TypeVar("Result")


@dataclass(frozen=True)
class _Running:
    loop: asyncio.AbstractEventLoop
    stop: asyncio.Event
    thread: threading.Thread
    pid: int

    def stop_soon(self) -> None:
        """Begins to cancel running calls, to close the client and to end the thread."""
        # After a fork the loop and its sockets belong to the parent.
        if self.pid == os.getpid():
            with contextlib.suppress(RuntimeError):  # it has ended
                self.loop.call_soon_threadsafe(self.stop.set)


class LoopThread:
    """Starts with the first call, and ends with :meth:`close`, the garbage collection of its owner or the process."""

    def __init__(self, client: Client, connection: Connection) -> None:
        self._client = client
        self._connection = connection
        self._lock = threading.Lock()
        self._running: _Running | None = None
        self._closed = False
        _THREADS.add(self)

    def open(self) -> None:
        """Starts the thread, also after a close."""
        with self._lock:
            self._closed = False
            self._started()

    def close(self) -> None:
        """Cancels running calls, which raise ``ClientClosed``, and ends the thread. Later calls raise it too."""
        with self._lock:
            self._closed = True
            running, self._running = self._running, None
        if running is not None:
            running.stop_soon()
            if threading.current_thread() is not running.thread:
                running.thread.join()

    def call(self, work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """Runs the coroutine of ``work`` in the thread and returns its result.

        An exception that interrupts the waiting, such as ``KeyboardInterrupt``, cancels the coroutine.
        """
        return self.result(self.submit(work))

    def submit(self, work: Callable[[], Coroutine[Any, Any, Result]]) -> concurrent.futures.Future[Result]:
        """Begins a call whose result :meth:`result` returns."""
        with self._lock:
            if self._closed:
                raise ClientClosed
            running = self._started()
            if threading.current_thread() is running.thread:
                raise RuntimeError(
                    "A callback of SyncClient cannot make calls with the same client: it would wait for itself."
                )
            # Under the lock, so that close() cannot stop the loop before it has the coroutine.
            return asyncio.run_coroutine_threadsafe(work(), running.loop)

    def result(self, call: concurrent.futures.Future[Result]) -> Result:
        try:
            return call.result()
        except concurrent.futures.CancelledError:
            raise ClientClosed from None
        finally:
            call.cancel()

    def forget(self) -> None:
        """Leaves the thread and its loop to the parent process, in a child that was just forked."""
        self._lock = threading.Lock()
        if self._running is not None:
            _OF_PARENT.append((self._running, self._connection.leave_to_parent()))
            self._running = None

    def _started(self) -> _Running:
        if self._running is None:
            self._running = _start(self._client)
            # Does not wait for the thread: the garbage collector may run in it, or where a lock is held that it needs.
            weakref.finalize(self, self._running.stop_soon).atexit = False
        return self._running


_THREADS: weakref.WeakSet[LoopThread] = weakref.WeakSet()
# What a forked child has from its parent. It is kept, because to collect it would close sockets that the parent uses.
_OF_PARENT: list[object] = []


@atexit.register
def _close_all() -> None:
    for thread in list(_THREADS):
        thread.close()


def _forget_all() -> None:
    for thread in list(_THREADS):
        thread.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)


def _start(client: Client) -> _Running:
    started: concurrent.futures.Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = concurrent.futures.Future()
    thread = threading.Thread(target=_run, args=(client, started), name="holdfast client", daemon=True)
    thread.start()
    loop, stop = started.result()
    return _Running(loop, stop, thread, os.getpid())


def _run(client: Client, started: concurrent.futures.Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]]) -> None:
    try:
        asyncio.run(_hold_open(client, started))
    except BaseException as error:
        if started.done():
            raise
        started.set_exception(error)


async def _hold_open(
    client: Client, started: concurrent.futures.Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]]
) -> None:
    stop = asyncio.Event()
    async with client:
        started.set_result((asyncio.get_running_loop(), stop))
        await stop.wait()
        # Before the client is closed: cancelled calls give back the items they hold.
        calls = asyncio.all_tasks() - {asyncio.current_task()}
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
