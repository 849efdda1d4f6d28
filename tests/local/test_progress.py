"""Progress is one line on a terminal, and few lines elsewhere."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from holdfast.local.progress import TerminalProgress

if TYPE_CHECKING:
    from collections.abc import Iterator


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    yield now
    monkeypatch.undo()


def test_a_log_gets_a_line_now_and_then(clock: list[float]) -> None:
    written = io.StringIO()
    with TerminalProgress(written) as progress:
        for second in range(80):
            clock[0] = 100.0 + second
            progress(f"step {second}")
    assert written.getvalue().splitlines() == [
        "step 0 (0 s)",
        "step 15 (15 s)",
        "step 30 (30 s)",
        "step 45 (45 s)",
        "step 60 (1 min 0 s)",
        "step 75 (1 min 15 s)",
        "done in 1 min 19 s",
    ]


def test_a_terminal_shows_one_line_that_goes_at_the_end(clock: list[float]) -> None:
    written = Terminal()
    with TerminalProgress(written) as progress:
        progress("first")
        clock[0] += 1
        progress("second")
    assert written.getvalue() == "\r\x1b[Kfirst (0 s)\r\x1b[Ksecond (1 s)\r\x1b[Kdone in 1 s\n"


def test_a_line_never_wraps(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    written = Terminal()
    TerminalProgress(written)("a description of what is being done that is longer than the terminal is wide")
    assert written.getvalue() == "\r\x1b[Ka description of wh"


def test_nothing_is_shown_when_nothing_was_done() -> None:
    written = Terminal()
    with TerminalProgress(written):
        pass
    assert written.getvalue() == ""


def test_a_failure_is_not_called_done(clock: list[float]) -> None:
    written = io.StringIO()

    def fail() -> None:
        with TerminalProgress(written) as progress:
            progress("first")
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        fail()
    assert written.getvalue() == "first (0 s)\n"
