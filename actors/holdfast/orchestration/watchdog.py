"""Stops code that runs on and on: one that awaits nothing would keep its process from doing anything else, for ever."""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# How late it may notice.
_INTERVAL = 0.25


class Overrun(BaseException):
    """The code has run for too long. Not an Exception, so that a loop that catches those ends."""


@dataclass(slots=True, eq=False)
class Watch:
    """Code that runs in a thread until a moment of the monotonic clock."""

    thread: int
    until: float
    overrun: bool = field(default=False)


class Watchdog:
    """One thread that looks now and then at what runs in the others. It begins with the first watch."""

    def __init__(self) -> None:
        self._watches: dict[int, Watch] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def begin(self, seconds: float) -> Watch:
        watch = Watch(threading.get_ident(), time.monotonic() + seconds)
        # When the process ends, threads stop where they are, with what they hold, and starting one never returns.
        if not sys.is_finalizing():
            if self._thread is None or not self._thread.is_alive():
                self._start()
            self._watches[watch.thread] = watch
        return watch

    def end(self, watch: Watch) -> None:
        """Afterwards nothing is thrown into this thread any more."""
        while self._watches.get(watch.thread) is watch:
            try:
                with self._lock:
                    self._watches.pop(watch.thread, None)
            except Overrun:
                # Thrown just now, when the code had ended by itself.
                continue
        if watch.overrun:
            # What was thrown, and has not arrived because the code ended by itself, is called back.
            _throw(watch.thread, None)

    def _start(self) -> None:
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._look, name="holdfast-watchdog", daemon=True)
                self._thread.start()

    def _look(self) -> None:
        while True:
            time.sleep(_INTERVAL)
            for watch in self._late():
                with self._lock:
                    # Again and again: what is thrown may be caught.
                    if self._watches.get(watch.thread) is watch:
                        watch.overrun = True
                        _throw(watch.thread, Overrun)

    def _late(self) -> Iterator[Watch]:
        now = time.monotonic()
        return (watch for watch in list(self._watches.values()) if watch.until < now)


def _throw(thread: int, error: type[BaseException] | None) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread), None if error is None else ctypes.py_object(error)
    )


watchdog = Watchdog()
