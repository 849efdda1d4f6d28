"""Copies one point in time of a SQLite file that is being written to."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_TIMEOUT = 30.0
# A copy writes this many pages at once, then pauses for this multiple of the time that took.
_PAGES_AT_ONCE = 128
_REST = 2.0


def connect(path: str, *, immutable: bool = False) -> sqlite3.Connection:
    """Opens a file read-only."""
    mode = "mode=ro&immutable=1" if immutable else "mode=ro"
    return sqlite3.connect(
        f"file:{quote(path)}?{mode}", uri=True, isolation_level=None, timeout=_TIMEOUT, check_same_thread=False
    )


def copy(path: str, to: Path, progress: Callable[[int, int], None] | None = None) -> None:
    """Copies a file into ``to`` without blocking its writers. Does not sync the copy.

    Calls ``progress`` with the number of copied pages and of all pages.
    """
    with contextlib.closing(connect(path)) as source, contextlib.closing(sqlite3.connect(to)) as target:
        # The syncs of a copy would delay those of the writers.
        target.execute("PRAGMA synchronous = OFF")
        [mode] = source.execute("PRAGMA journal_mode").fetchone()
        if mode != "wal":
            # Without pauses: it locks the file.
            source.backup(target)
            return
        # In an open transaction: without one, every write would restart the copy.
        source.execute("BEGIN")
        source.execute("SELECT 1 FROM sqlite_master").fetchone()
        source.backup(target, pages=_PAGES_AT_ONCE, progress=_Rest(progress))


class _Rest:
    """Pauses after each step of a copy, to leave disk and processor to the writers."""

    def __init__(self, progress: Callable[[int, int], None] | None) -> None:
        self._progress = progress
        self._began = time.perf_counter()

    def __call__(self, status: int, remaining: int, total: int) -> None:
        if self._progress is not None:
            self._progress(total - remaining, total)
        if remaining:
            time.sleep(_REST * (time.perf_counter() - self._began))
        self._began = time.perf_counter()
