"""Tasks get about as much to read each, however long a host has been writing."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import psycopg
import pytest

from holdfast.local import LocalPostgres
from holdfast.spark.decode.tables import TABLES
from holdfast.spark.source.options import Options
from holdfast.spark.source.schemas import MADE_BY
from holdfast.spark.stores import postgresql
from holdfast.spark.stores.base import Range
from holdfast.spark.stores.postgresql import PostgresqlStore, export
from holdfast.spark.stores.sqlite import COPY, SqliteStore
from tests.spark.state_writer import write

if TYPE_CHECKING:
    from pathlib import Path

ANY = [("shop||", "")]
ITEMS, HISTORY = "shop||PushPopActor||{}||s", "shop||OrchestrationActor||{}||s"
MEGABYTE = 1024 * 1024


@pytest.mark.parametrize("written_since", [0, 1_000, 10**9, 10**15])
@pytest.mark.parametrize("heavy", [0, 200])
def test_they_weigh_the_same_whatever_the_rowids(tmp_path: Path, written_since: int, heavy: int) -> None:
    file = tmp_path / "state.db"
    rows = {ITEMS.format(f"{number:04}"): "x" * (20_000 if number < heavy else 2_000) for number in range(2_000)}
    write(file, rows)
    with closing(sqlite3.connect(file)) as connection, connection:
        # As if some were written over and over: each write gives them the next rowid.
        connection.execute("UPDATE state SET rowid = rowid + ? WHERE rowid > 1990", (written_since,))
    with SqliteStore(Options.read({"url": f"sqlite://{file}", "snapshot": COPY, "partitions": "4"})) as store:
        parts = [{key: len(value) for key, value in store.scan(within, ANY)} for within in store.ranges()]
    assert len(parts) == 4
    assert sum(map(len, parts)) == len(rows) == len(set().union(*parts))
    whole = sum(map(len, rows.values()))
    assert all(0.2 * whole < sum(part.values()) < 0.3 * whole for part in parts)


def test_an_empty_file_is_one(tmp_path: Path) -> None:
    write(tmp_path / "state.db", {})
    with SqliteStore(Options.read({"url": f"sqlite://{tmp_path}/state.db", "snapshot": COPY, "cores": "4"})) as store:
        [within] = store.ranges()
        assert list(store.scan(within, ANY)) == []


@pytest.mark.parametrize(("megabytes", "cores", "parts"), [(1, 4, 1), (10, 4, 2), (40, 4, 4), (40, 2, 2)])
def test_as_many_as_the_size_is_worth_and_there_are_cores(
    tmp_path: Path, megabytes: int, cores: int, parts: int
) -> None:
    file = tmp_path / "state.db"
    write(file, {ITEMS.format(number): "x" * MEGABYTE for number in range(megabytes)})
    with SqliteStore(Options.read({"url": f"sqlite://{file}", "snapshot": COPY, "cores": str(cores)})) as store:
        assert len(store.ranges()) == parts


def test_what_another_table_is_made_of_weighs_little(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    write(file, {HISTORY.format(f"{number:04}"): "x" * 9_000 for number in range(2_000)})
    write(file, {ITEMS.format(f"{number:04}"): "x" * 9_000 for number in range(2_000)})
    for table, part in (("items", "||PushPopActor||"), ("history", "||OrchestrationActor||")):
        options = {"url": f"sqlite://{file}", "snapshot": COPY, "table": table, "partitions": "2"}
        with SqliteStore(Options.read(options)) as store:
            counts = [sum(part in key for key in store.keys(within)) for within in store.ranges()]
        assert len(counts) == 2
        assert min(counts) > 900


def test_actors_are_known_by_their_names() -> None:
    assert {name: table.actor_type for name, table in TABLES.items()} == MADE_BY


async def test_those_of_postgresql_weigh_the_same_wherever_values_lie(tmp_path: Path) -> None:
    """Also where PostgreSQL puts them elsewhere: their rows are small then, and many of them lie in a page."""
    async with LocalPostgres(tmp_path / "postgresql") as postgres:
        for name, sizes in {
            "alike": "1500",
            "apart": "CASE WHEN n % 3 = 1 AND n < 3000 THEN 20000 ELSE 1500 END",
            # Some 20 MB in 15 of 2,400 pages.
            "together": "CASE WHEN n BETWEEN 6000 AND 7000 THEN 20000 ELSE 1500 END",
            "few": "CASE WHEN n > 200 THEN NULL WHEN n % 2 = 0 THEN 20000 ELSE 1500 END",
        }.items():
            url = await postgres.create_database(name)
            with psycopg.connect(url) as connection:
                connection.execute("CREATE TABLE state (key text, value bytea, expires_at timestamptz)")
                connection.execute("ALTER TABLE state ALTER COLUMN value SET STORAGE EXTERNAL")
                for key in (HISTORY, ITEMS):
                    connection.execute(
                        "INSERT INTO state SELECT replace(key, '{}', n::text), convert_to(repeat('x', size), 'UTF8') "
                        f"FROM (SELECT '{key}' AS key, n, {sizes} AS size FROM generate_series(1, 12000) AS n) AS rows "
                        "WHERE size IS NOT NULL"
                    )
            options = Options.read({"url": url, "partitions": "4"})
            with export(options) as held, PostgresqlStore(replace(options, snapshot=held.name)) as store:
                of_items = [("shop||PushPopActor||", "")]
                parts = [{key: len(value) for key, value in store.scan(within, of_items)} for within in store.ranges()]
            assert len(parts) == 4
            assert sum(map(len, parts)) == len(set().union(*parts)) == (200 if name == "few" else 12_000)
            whole = sum(sum(part.values()) for part in parts)
            assert all(0.2 * whole < sum(part.values()) < 0.3 * whole for part in parts), name


async def test_a_server_that_finds_no_pages_has_ranges_of_as_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgresql, "_FINDS_PAGES", 99_00_00)
    async with LocalPostgres(tmp_path / "postgresql") as postgres:
        url = await postgres.create_database("state")
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE state (key text, value bytea, expires_at timestamptz)")
            connection.execute(
                "INSERT INTO state SELECT 'shop||A||' || n || '||s', convert_to(repeat('x', 1500), 'UTF8') "
                "FROM generate_series(1, 12000) AS n"
            )
        options = Options.read({"url": url, "cores": "4"})
        with export(options) as held, PostgresqlStore(replace(options, snapshot=held.name)) as store:
            counts = [sum(1 for _ in store.keys(within)) for within in store.ranges()]
    assert len(counts) == 4
    assert sum(counts) == 12_000
    assert min(counts) > 2_900


async def test_a_table_of_postgresql_without_rows_is_one(tmp_path: Path) -> None:
    async with LocalPostgres(tmp_path / "postgresql") as postgres:
        url = await postgres.create_database("state")
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE state (key text, value bytea, expires_at timestamptz)")
        options = Options.read({"url": url, "cores": "4"})
        with export(options) as held, PostgresqlStore(replace(options, snapshot=held.name)) as store:
            [within] = store.ranges()
            assert list(store.scan(within, ANY)) == []


async def test_rows_are_fetched_by_their_size_and_those_who_wait_are_not_sent_away(tmp_path: Path) -> None:
    async with LocalPostgres(tmp_path / "postgresql") as postgres:
        url = await postgres.create_database("state")
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE state (key text, value bytea, expires_at timestamptz)")
            connection.execute(
                "INSERT INTO state SELECT 'shop||A||' || n || '||s', convert_to(repeat('x', 1000000), 'UTF8') "
                "FROM generate_series(1, 40) AS n"
            )
            connection.execute("ALTER DATABASE state SET idle_in_transaction_session_timeout = '100ms'")
        with PostgresqlStore(Options.read({"url": url})) as store:
            rows = store.scan(Range(), ANY)
            next(rows)
            pid = store._connection.info.backend_pid
            with psycopg.connect(url, autocommit=True) as other:
                # Until PostgreSQL would have lost its patience, by its own clock.
                other.execute(
                    "DO $$ DECLARE since timestamptz; BEGIN SELECT state_change INTO since FROM pg_stat_activity "
                    f"WHERE pid = {pid}; WHILE clock_timestamp() < since + interval '300 ms' "
                    "LOOP PERFORM pg_sleep(0.02); END LOOP; END $$"
                )
            assert sum(1 for _ in rows) == 39
