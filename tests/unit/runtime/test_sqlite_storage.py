"""The embedded host's file: what one caller does wrong is that caller's alone, and what is over leaves the file."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.errors import InvalidRequest, Unavailable
from holdfast.runtime.embedded import commit_policy
from holdfast.runtime.embedded.sqlite import SqliteStorage, _transact
from holdfast.runtime.in_process.storage import Write

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


def test_bytes_come_back_and_lie_in_the_file_as_daprd_writes_them(tmp_path: Path) -> None:
    async def body(storage: SqliteStorage) -> None:
        await storage.save([Write("bytes", b"\xff\x00", binary=True), Write("json", b"1"), *write("turned")])
        await storage.save([Write("json", b'{"a": 1}', binary=True), Write("turned", b"2")])
        assert await storage.load(["bytes", "json", "turned"]) == {
            "bytes": b"\xff\x00",
            "json": b'{"a": 1}',
            "turned": b"2",
        }

    on_a_file(tmp_path / "state.db", body)
    with contextlib.closing(sqlite3.connect(tmp_path / "state.db")) as connection:
        rows = connection.execute("SELECT key, value, is_binary FROM state ORDER BY key").fetchall()
    assert rows == [("bytes", "/wA=", 1), ("json", "eyJhIjogMX0=", 1), ("turned", "2", 0)]


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


@pytest.fixture
def quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Saves that come one by one are committed where they are asked for, whatever the disk of this machine."""
    monkeypatch.setattr(commit_policy, "SHORT", float("inf"))
    monkeypatch.setattr(commit_policy, "LONG", float("inf"))


@pytest.mark.usefixtures("quick_disk")
def test_saves_one_by_one_wait_for_no_thread_and_are_there_for_others(tmp_path: Path) -> None:
    async def body(storage: SqliteStorage) -> None:
        for number in range(commit_policy.LOOK + commit_policy.HERE):
            if number >= commit_policy.LOOK:
                # Done as soon as it is asked for, but for letting others run.
                saving = storage.save([*write(f"k{number}"), *write(f"l{number}")])
                assert saving.send(None) is None
                with pytest.raises(StopIteration):
                    saving.send(None)
            else:
                await storage.save(write(f"k{number}"))
        keys = [f"k{number}" for number in range(commit_policy.LOOK + commit_policy.HERE)]
        assert len(await storage.load(keys)) == len(keys)

    on_a_file(tmp_path / "state.db", body)
    with contextlib.closing(sqlite3.connect(tmp_path / "state.db")) as connection:
        assert connection.execute("SELECT count(*) FROM state").fetchone() == (
            commit_policy.LOOK + 2 * commit_policy.HERE,
        )


@pytest.mark.usefixtures("quick_disk")
def test_what_cannot_be_committed_at_once_waits_for_the_writer(tmp_path: Path) -> None:
    async def body(storage: SqliteStorage) -> None:
        for number in range(commit_policy.LOOK + 1):
            await storage.save(write(f"k{number}"))
        with contextlib.closing(sqlite3.connect(tmp_path / "state.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            saving = asyncio.create_task(storage.save(write("held up")))
            await asyncio.sleep(0)
            assert await storage.load(["held up"]) == {}
            other.execute("COMMIT")
            await saving
        with pytest.raises(InvalidRequest):
            await storage.save([*write("first"), *write("second", TOO_LONG)])
        assert await storage.load(["held up", "first"]) == {"held up": b"1"}

    on_a_file(tmp_path / "state.db", body)


@pytest.mark.usefixtures("quick_disk")
def test_the_log_is_emptied_though_nearly_all_are_committed_at_once(tmp_path: Path) -> None:
    async def body(storage: SqliteStorage) -> None:
        largest = 0
        for number in range(3000):
            # Other bytes each time: pages that stay as they are are not written.
            await storage.save([Write("key", b'"%b"' % (b"%05d" % number * 1000), None)])
            largest = max(largest, (tmp_path / "state.db-wal").stat().st_size)
        # A thousand pages, when SQLite empties it, and what may come before that is seen.
        assert 0 < largest < (1000 + 8 * commit_policy.HERE) * 4200

    on_a_file(tmp_path / "state.db", body)


@pytest.mark.usefixtures("quick_disk")
def test_many_at_once_are_the_writers_also_where_saves_came_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here: list[Any] = []
    commit_here = SqliteStorage._commit_inline
    monkeypatch.setattr(SqliteStorage, "_commit_inline", lambda *given: here.append(given) or commit_here(*given))

    async def body(storage: SqliteStorage) -> None:
        for number in range(commit_policy.LOOK + 1):
            await storage.save(write(f"k{number}"))
        assert len(here) == 1
        await asyncio.gather(*(storage.save(write(f"many{number}")) for number in range(200)))
        assert len(here) == 2
        # Saves one by one are handed off too, until a measurement shows that they no longer overlap.
        await storage.save(write("after"))
        assert len(here) == 2
        for number in range(2 * commit_policy.LOOK):
            await storage.save(write(f"l{number}"))
        assert len(here) > 2

    on_a_file(tmp_path / "state.db", body)


@pytest.mark.usefixtures("quick_disk")
def test_what_is_saved_later_comes_later_though_the_earlier_was_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Event()
    commit = SqliteStorage._commit

    def held_up(storage: SqliteStorage, connection: Any, batch: Any) -> Any:
        if "early" in str(batch):
            assert gate.wait(60)
        return commit(storage, connection, batch)

    monkeypatch.setattr(SqliteStorage, "_commit", held_up)

    async def body(storage: SqliteStorage) -> None:
        for number in range(commit_policy.LOOK + 1):
            await storage.save(write(f"k{number}"))
        early = asyncio.create_task(storage.save([Write("key", b'"early%b"' % (b"x" * 100_000), None)]))
        await asyncio.sleep(0)
        early.cancel()
        await asyncio.gather(early, return_exceptions=True)
        late = asyncio.create_task(storage.save([Write("key", b'"late"', None)]))
        await asyncio.sleep(0)
        gate.set()
        await late
        # What the writer still had is saved by then, too.
        await asyncio.gather(*(storage.save(write(f"l{number}")) for number in range(3)))
        assert await storage.load(["key"]) == {"key": b'"late"'}

    on_a_file(tmp_path / "state.db", body)


def test_nothing_goes_with_a_transaction_that_was_broken_off(tmp_path: Path) -> None:
    class Interrupting:
        def __conform__(self, protocol: Any) -> str:
            raise KeyboardInterrupt

    def deletion(key: Any) -> tuple[str, tuple[Any, ...]]:
        return "DELETE FROM state WHERE key = ?", (key,)

    async def body(storage: SqliteStorage) -> None:
        await storage.save(write("key"))
        connection = storage._inline_connection
        assert connection is not None
        with pytest.raises(KeyboardInterrupt):
            _transact(connection, [deletion("key"), deletion(Interrupting())])
        assert await storage.load(["key"]) == {"key": b"1"}
        assert not connection.in_transaction
        connection.execute("BEGIN IMMEDIATE")  # as if even the end of one had been broken off
        _transact(connection, [deletion("key")])
        assert await storage.load(["key"]) == {}

    on_a_file(tmp_path / "state.db", body)
