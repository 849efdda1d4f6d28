"""Reads the items of ``holdfast queue push``: JSON arguments or JSON lines."""

from __future__ import annotations

import os
import stat
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO

import click

from holdfast.runtime.serialization import load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


def from_arguments(arguments: Iterable[str]) -> Iterator[bytes]:
    for argument in arguments:
        try:
            load(argument)
        except ValueError as error:
            raise click.UsageError(
                f"{argument!r} is not JSON ({error}). A string needs its quotes: '\"text\"'."
            ) from error
        yield argument.encode()


def field_of(item: bytes, field: str) -> str:
    """Returns the value of an item's field, to be used as its dedup id."""
    value = load(item)
    found = value.get(field) if isinstance(value, dict) else None
    if isinstance(found, bool) or not isinstance(found, str | int) or found == "":
        raise click.UsageError(
            f"An item has no field {field!r} with a text or an integer: {item[:100].decode(errors='replace')}"
        )
    return str(found)


class Lines:
    """Iterates over JSON lines and counts the bytes read. Empty lines are skipped."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.bytes_read = 0

    @property
    def size(self) -> int | None:
        """The size of the input in bytes, if it is a regular file."""
        try:
            found = os.fstat(self._stream.fileno())
        except OSError:
            return None
        return found.st_size if stat.S_ISREG(found.st_mode) else None

    def __iter__(self) -> Iterator[bytes]:
        for number, line in enumerate(self._stream, 1):
            self.bytes_read += len(line)
            if not line.strip():
                continue
            try:
                load(line)
            except ValueError as error:
                raise click.UsageError(f"Line {number:,} is not JSON: {error}.") from error
            yield line.strip()


@contextmanager
def steps(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Yields a function to call with the number done so far. Shows a progress bar on a terminal only."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(file=sys.stderr), disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(what, total=total)

        def report(count: int) -> None:
            bar.update(task, completed=count)

        yield report


@contextmanager
def progress(lines: Lines | None) -> Iterator[Callable[[int], None]]:
    """Yields a function to call with the number of items pushed so far. Shows a bar for lines on a terminal only."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("pushing"),
        BarColumn(),
        TextColumn("{task.fields[count]:,} items"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    shown = lines is not None and sys.stderr.isatty()
    with Progress(*columns, console=Console(file=sys.stderr), disable=not shown) as bar:
        task = bar.add_task("pushing", total=lines.size if lines else None, count=0)

        def report(count: int) -> None:
            bar.update(task, completed=lines.bytes_read if lines else 0, count=count)

        yield report
