"""Stops code that runs without awaiting anything, which would block its process forever.

The watchdog measures the processor time of the code's thread, not wall-clock time: a stopped process (SIGSTOP) or a
paused or busy machine is not the fault of the code.
"""

from __future__ import annotations

import ctypes
import linecache
import logging
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from holdfast.logs import about
from holdfast.orchestration.loop.source_lines import line_of_thread

if TYPE_CHECKING:
    from holdfast.orchestration.core.limits import Limits

log = logging.getLogger(__name__)

# The time between two measurements, in seconds.
_INTERVAL = 0.25
# The most that one interval counts: if it took longer, the process did not run meanwhile.
_MOST = 2 * _INTERVAL

# macOS and Windows have no processor clock of other threads. There all time counts in which this process ran.
_clock_of_thread = getattr(time, "pthread_getcpuclockid", None)


class Overrun(BaseException):
    """Raised in code that has run for too long. Not an Exception, so that ``except Exception`` does not catch it."""


@dataclass(slots=True, eq=False)
class Watch:
    """The measurements of code that runs in a thread."""

    name: str
    thread: int
    limits: Limits
    #: The processor time of the thread at the first measurement.
    began_at: float | None = field(default=None)
    #: Seconds in which this process ran, including time in which the thread waited.
    passed: float = field(default=0.0)
    #: The exceeded limit: of processor time, or of time blocked without yielding to the event loop.
    overrun: Literal["ran", "blocked"] | None = field(default=None)
    #: The source line that ran when a limit was exceeded.
    line: str | None = field(default=None)
    warned: bool = field(default=False)


class Watchdog:
    """A thread that periodically measures the code running in other threads. It starts with the first watch."""

    def __init__(self) -> None:
        self._watches: dict[int, Watch] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def begin(self, name: str, limits: Limits) -> Watch:
        watch = Watch(name, threading.get_ident(), limits)
        # While the interpreter shuts down, threads stop with their locks held, and starting one never returns.
        if not sys.is_finalizing():
            if self._thread is None or not self._thread.is_alive():
                self._start()
            self._watches[watch.thread] = watch
        return watch

    def end(self, watch: Watch) -> None:
        """Ends a watch. On return no Overrun will be raised in this thread."""
        while self._watches.get(watch.thread) is watch:
            try:
                with self._lock:
                    self._watches.pop(watch.thread, None)
            except Overrun:
                # Raised just now, after the code had ended.
                continue
        if watch.overrun:
            # Revoke an Overrun that is pending because the code ended before it was raised.
            _throw(watch.thread, None)

    def _start(self) -> None:
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._look, name="holdfast-watchdog", daemon=True)
                self._thread.start()

    def _look(self) -> None:
        looked_at = time.monotonic()
        while True:
            time.sleep(_INTERVAL)
            now = time.monotonic()
            passed, looked_at = min(now - looked_at, _MOST), now
            for watch in list(self._watches.values()):
                with self._lock:
                    # While the lock is held, the code cannot end and its thread exists.
                    if self._watches.get(watch.thread) is watch:
                        self._measure(watch, passed)
                        if watch.overrun:
                            watch.line = watch.line or line_of_thread(watch.thread)
                            # At every interval, because the code may catch it.
                            _throw(watch.thread, Overrun)
                if watch.passed >= watch.limits.seconds and not watch.overrun and not watch.warned:
                    watch.warned = True
                    _warn(watch)

    def _measure(self, watch: Watch, passed: float) -> None:
        if watch.began_at is None:
            # The code may have begun just now, so the interval before does not count.
            watch.began_at = _ran(watch)
            return
        watch.passed += passed
        if _ran(watch) - watch.began_at >= watch.limits.seconds:
            watch.overrun = watch.overrun or "ran"
        elif watch.passed >= watch.limits.blocked_seconds:
            watch.overrun = watch.overrun or "blocked"


def _ran(watch: Watch) -> float:
    """Returns the processor time of the thread so far."""
    return watch.passed if _clock_of_thread is None else time.clock_gettime(_clock_of_thread(watch.thread))


def _warn(watch: Watch) -> None:
    """Logs which code blocks the process. Code that blocks in a system call cannot be interrupted."""
    frame = sys._current_frames().get(watch.thread)
    if frame is None:
        return
    file, line = frame.f_code.co_filename, frame.f_lineno
    log.warning(
        "orchestration %s has run or blocked for %g seconds without awaiting anything, and blocks its process: "
        "%s:%d, in %s: %s",
        watch.name,
        watch.passed,
        file,
        line,
        frame.f_code.co_name,
        linecache.getline(file, line).strip(),
        extra=about(instance_id=watch.name),
    )


def _throw(thread: int, error: type[BaseException] | None) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread), None if error is None else ctypes.py_object(error)
    )


watchdog = Watchdog()
