"""A copy of a file that is written to meanwhile shows one point in time, and is done however much is written."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from holdfast.state_store.sqlite_copy import copy

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 1000


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_a_copy_has_all_of_a_transaction_or_nothing(tmp_path: Path, mode: str) -> None:
    file = tmp_path / "state.db"
    with closing(sqlite3.connect(file)) as store, store:
        store.execute(f"PRAGMA journal_mode = {mode}")
        store.execute("CREATE TABLE state (id INTEGER PRIMARY KEY, turn INTEGER, filling BLOB)")
        store.executemany("INSERT INTO state VALUES (?, 0, randomblob(4000))", ((number,) for number in range(ROWS)))
    over, begun = threading.Event(), threading.Event()

    def write() -> None:
        turn = 0
        with closing(sqlite3.connect(file, timeout=60)) as store:
            # Without WAL a writer that never lets go of the file's lock can keep every reader out.
            while not over.wait(0.002):
                turn += 1
                with store:
                    store.execute("UPDATE state SET turn = ? WHERE id IN (0, ?)", (turn, ROWS - 1))
                begun.set()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert begun.wait(60)
        for number in range(5):
            copy(str(file), tmp_path / f"copy-{number}.db")
    finally:
        over.set()
        writer.join()
    for number in range(5):
        with closing(sqlite3.connect(tmp_path / f"copy-{number}.db")) as kept:
            first, last = (turn for (turn,) in kept.execute("SELECT turn FROM state WHERE id IN (0, ?)", (ROWS - 1,)))
            assert first == last > 0
            assert kept.execute("SELECT count(*) FROM state").fetchone() == (ROWS,)
