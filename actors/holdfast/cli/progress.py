"""A progress bar for work that takes long."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def progress_bar() -> Iterator[Callable[[str, int, int | None], None]]:
    """Shows a progress bar on a terminal only. Yields what updates it: what is done, how much, and of how much."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description:<28}"), BarColumn(), TimeElapsedColumn())
    # Through a copy of standard error, which itself is redirected while Java starts.
    with (
        os.fdopen(os.dup(sys.__stderr__.fileno() if sys.__stderr__ else 2), "w", encoding="utf-8") as terminal,
        Progress(*columns, console=Console(file=terminal), disable=not terminal.isatty(), transient=True) as bar,
    ):
        task = bar.add_task("", total=None)

        def report(doing: str, done: int, of: int | None) -> None:
            bar.update(task, description=doing, completed=done, total=of)

        yield report
