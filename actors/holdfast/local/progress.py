"""Shows the current step and the elapsed time of long work on a terminal."""

from __future__ import annotations

import shutil
import sys
import time
from typing import TYPE_CHECKING, Self, TextIO

if TYPE_CHECKING:
    from types import TracebackType

_SECONDS_BETWEEN_LINES = 15.0
_SECONDS_BETWEEN_FRAMES = 0.2


class TerminalProgress:
    """Updates one line on a terminal; elsewhere prints a line every few seconds.

    `with TerminalProgress() as progress: progress("building")`. Shows nothing when it is never called.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._overwrites = self._stream.isatty()
        self._started: float | None = None
        self._shown_at = 0.0
        self._shown = ""

    def __call__(self, doing: str) -> None:
        now = time.monotonic()
        if self._started is None:
            self._started = now
        pause = _SECONDS_BETWEEN_FRAMES if self._overwrites else _SECONDS_BETWEEN_LINES
        if self._shown and now - self._shown_at < pause:
            return
        self._show(f"{doing} ({_spoken(now - self._started)})", now)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._started is None:
            return
        if self._overwrites:
            self._stream.write("\r\x1b[K")
        if error is None:
            self._stream.write(f"done in {_spoken(time.monotonic() - self._started)}\n")
        self._stream.flush()

    def _show(self, line: str, now: float) -> None:
        if self._overwrites:
            # A line that wraps could not be overwritten.
            self._stream.write(f"\r\x1b[K{line[: shutil.get_terminal_size().columns - 1]}")
        else:
            self._stream.write(f"{line}\n")
        self._stream.flush()
        self._shown, self._shown_at = line, now


def _spoken(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
