"""The embedded host's file: what one caller does wrong is that caller's alone, and what is over leaves the file."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.errors import InvalidRequest, Unavailable
from holdfast.runtime.embedded.sqlite import SqliteStorage
from holdfast.runtime.storage import Write

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

TOO_LONG = 10**20


def write(key: str, ttl_seconds: int | None = None) -> list[Write]:
    return [Write(key, b"1", ttl_seconds)]


def on_a_file(path: Path, body: Callable[[SqliteStorage], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        storage = SqliteStorage(path)
        await storage.open()
        try:
            await body(storage)
        finally:
            await storage.close()

    asyncio.run(run())


def test_a_value_that_cannot_be_saved_fails_alone(tmp_path: Path) -> None:
    async def body(storage: SqliteStorage) -> None:
        # Together, so that they come in few transactions.
        outcomes = await asyncio.gather(
            *(storage.save(write(f"k{number}", TOO_LONG if number == 7 else None)) for number in range(20)),
            return_exceptions=True,
        )
        assert [number for number, outcome in enumerate(outcomes) if outcome] == [7]
        assert isinstance(outcomes[7], InvalidRequest)
        await storage.save(write("after"))
        assert len(await storage.load([f"k{number}" for number in range(20)])) == 19

    on_a_file(tmp_path / "state.db", body)


def test_nothing_of_a_transaction_that_fails_is_saved(tmp_path: Path) -> None:
    async def body(storage: SqliteStorage) -> None:
        with pytest.raises(InvalidRequest):
            await storage.save([*write("first"), *write("second", TOO_LONG)])
        assert await storage.load(["first", "second"]) == {}

    on_a_file(tmp_path / "state.db", body)


def test_a_key_that_cannot_be_read_fails_alone(tmp_path: Path) -> None:
    async def body(storage: SqliteStorage) -> None:
        await storage.save(write("good"))
        good, bad = await asyncio.gather(storage.load(["good"]), storage.load(["\ud800"]), return_exceptions=True)
        assert good == {"good": b"1"}
        assert isinstance(bad, InvalidRequest)

    on_a_file(tmp_path / "state.db", body)


def test_what_is_asked_for_during_the_close_is_refused(tmp_path: Path) -> None:
    async def body(storage: SqliteStorage) -> None:
        closing = asyncio.create_task(storage.close())
        await asyncio.sleep(0)  # it has begun, and waits for its threads
        with pytest.raises(Unavailable):
            await storage.save(write("late"))
        with pytest.raises(Unavailable):
            await storage.load(["late"])
        await closing

    on_a_file(tmp_path / "state.db", body)


def test_what_has_expired_leaves_the_file_a_bounded_number_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "state.db"

    async def first(storage: SqliteStorage) -> None:
        await storage.save([*write("lives", 3600), *write("stays")])

    on_a_file(path, first)
    with sqlite3.connect(path) as connection:
        connection.executemany(
            "INSERT INTO state (key, value, is_binary, etag, expiration_time) "
            "VALUES (?, '1', 0, 'e', DATETIME(CURRENT_TIMESTAMP, '-1 second'))",
            [(f"over-{number}",) for number in range(700)],
        )

    def rows() -> int:
        with sqlite3.connect(path) as connection:
            count: int = connection.execute("SELECT count(*) FROM state").fetchone()[0]
        return count

    async def saves(storage: SqliteStorage) -> None:
        await storage.save(write("stays"))
        assert 2 < rows() < 702
        await storage.save(write("stays"))
        assert rows() == 2
        assert set(await storage.load(["lives", "stays"])) == {"lives", "stays"}

    on_a_file(path, saves)
