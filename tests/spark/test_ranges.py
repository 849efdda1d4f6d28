"""Tasks get about as much to read each, however long a host has been writing."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from holdfast.spark.options import Options
from holdfast.spark.sqlite import COPY, SqliteStore
from spark.written import write

if TYPE_CHECKING:
    from pathlib import Path

ANY = [("shop||", "")]


@pytest.mark.parametrize("written_since", [0, 1_000, 10**9, 10**15])
@pytest.mark.parametrize("heavy", [0, 200])
def test_they_weigh_the_same_whatever_the_rowids(tmp_path: Path, written_since: int, heavy: int) -> None:
    file = tmp_path / "state.db"
    rows = {f"shop||A||{number:04}||s": "x" * (20_000 if number < heavy else 2_000) for number in range(2_000)}
    write(file, rows)
    with closing(sqlite3.connect(file)) as connection, connection:
        # As if some were written over and over: each write gives them the next rowid.
        connection.execute("UPDATE state SET rowid = rowid + ? WHERE rowid > 1990", (written_since,))
    with SqliteStore(Options.read({"url": f"sqlite://{file}", "snapshot": COPY})) as store:
        ranges = store.ranges(4)
        parts = [{key: len(value) for key, value in store.scan(within, ANY)} for within in ranges]
    assert len(parts) == 4
    assert sum(map(len, parts)) == len(rows) == len(set().union(*parts))
    whole = sum(map(len, rows.values()))
    assert all(0.2 * whole < sum(part.values()) < 0.3 * whole for part in parts)


def test_an_empty_file_is_one(tmp_path: Path) -> None:
    write(tmp_path / "state.db", {})
    with SqliteStore(Options.read({"url": f"sqlite://{tmp_path}/state.db", "snapshot": COPY})) as store:
        [within] = store.ranges(4)
        assert list(store.scan(within, ANY)) == []
