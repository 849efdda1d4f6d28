"""Tasks get about as much to read each, however long a host has been writing."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import psycopg
import pytest

from holdfast.local import LocalPostgres
from holdfast.spark.options import Options
from holdfast.spark.postgresql import PostgresqlStore, export
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


@pytest.mark.parametrize(
    ("rows", "heavy"),
    [
        pytest.param(12_000, 0, id="all-alike"),
        # PostgreSQL puts these elsewhere: their rows are small, and many lie in a page.
        pytest.param(12_000, 900, id="some-heavy"),
        pytest.param(1_000, 900, id="few-pages"),
    ],
)
async def test_those_of_postgresql_weigh_the_same_wherever_values_lie(tmp_path: Path, rows: int, heavy: int) -> None:
    async with LocalPostgres(tmp_path / "postgresql") as postgres:
        url = await postgres.create_database("state")
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE state (key text, value bytea, expires_at timestamptz)")
            connection.execute("ALTER TABLE state ALTER COLUMN value SET STORAGE EXTERNAL")
            connection.execute(
                "INSERT INTO state SELECT 'shop||A||' || n || '||s', "
                "convert_to(repeat('x', CASE WHEN n %% 3 = 1 AND n <= 3 * %s THEN 20000 ELSE 1500 END), 'UTF8') "
                "FROM generate_series(1, %s) AS n",
                (heavy, rows),
            )
        options = Options.read({"url": url})
        with export(options) as held, PostgresqlStore(replace(options, snapshot=held.name)) as store:
            parts = [{key: len(value) for key, value in store.scan(within, ANY)} for within in store.ranges(4)]
    assert len(parts) == 4
    assert sum(map(len, parts)) == rows == len(set().union(*parts))
    whole = sum(sum(part.values()) for part in parts)
    assert all(0.2 * whole < sum(part.values()) < 0.3 * whole for part in parts)


async def test_a_table_of_postgresql_without_rows_is_one(tmp_path: Path) -> None:
    async with LocalPostgres(tmp_path / "postgresql") as postgres:
        url = await postgres.create_database("state")
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE state (key text, value bytea, expires_at timestamptz)")
        options = Options.read({"url": url})
        with export(options) as held, PostgresqlStore(replace(options, snapshot=held.name)) as store:
            [within] = store.ranges(4)
            assert list(store.scan(within, ANY)) == []
