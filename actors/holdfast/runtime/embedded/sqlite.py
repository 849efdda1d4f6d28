"""One SQLite file in the layout of Dapr's ``state.sqlite``, so that one reader serves both.

One thread writes: saves that arrive during a commit become the next transaction, so a burst of turns costs one
``fsync``. If saves come one at a time and the disk is fast, they are committed inline (``commit_policy.py``). One
thread reads, and never waits for the writer (WAL).
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
import sqlite3
import time
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError, InvalidRequest, SaveFailed, StorageBroken, Unavailable
from holdfast.runtime.contract import ActorAddress
from holdfast.runtime.embedded.batch_thread import BatchThread
from holdfast.runtime.embedded.commit_policy import InlineCommitPolicy
from holdfast.runtime.in_process.storage import Postponement, Reminder, Write

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from holdfast.runtime.in_process.storage import ReminderChange

#: The tables of Dapr's ``state.sqlite``.
STATE_SCHEMA = """
CREATE TABLE IF NOT EXISTS metadata (key TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL);
-- The level daprd's own migrations would have reached: it opens this file as it is.
INSERT OR IGNORE INTO metadata (key, value) VALUES ('migrations', '1');
CREATE TABLE IF NOT EXISTS state (
    key TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL,
    is_binary BOOLEAN NOT NULL,
    etag TEXT NOT NULL,
    expiration_time TIMESTAMP DEFAULT NULL,
    update_time TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP
);
"""
#: The same, and what the embedded host has beside them.
SCHEMA = f"""{STATE_SCHEMA}
CREATE TABLE IF NOT EXISTS holdfast_reminders (
    actor_type TEXT NOT NULL,
    actor_id TEXT NOT NULL,
    name TEXT NOT NULL,
    version TEXT NOT NULL,
    due_at REAL NOT NULL,
    due_time TEXT NOT NULL,
    period TEXT NOT NULL,
    ttl TEXT NOT NULL,
    data TEXT NOT NULL,
    repeats_left INTEGER,
    expires_at REAL,
    failures INTEGER NOT NULL,
    retry_interval REAL,
    max_retries INTEGER,
    PRIMARY KEY (actor_type, actor_id, name)
) WITHOUT ROWID;
-- Has no entry, and costs nothing, for what does not expire.
CREATE INDEX IF NOT EXISTS holdfast_expiring ON state (expiration_time) WHERE expiration_time IS NOT NULL;
CREATE INDEX IF NOT EXISTS holdfast_reminders_due ON holdfast_reminders (due_at);
"""
# An update in place: REPLACE would delete the row with its index entry, and insert another.
_UPSERT = (
    "INSERT INTO state (key, value, is_binary, etag, update_time, expiration_time) "
    "VALUES (?, ?, ?, ?, CURRENT_TIMESTAMP, CASE WHEN ? IS NOT NULL "
    "THEN DATETIME(CURRENT_TIMESTAMP, '+' || ? || ' seconds') END) "
    "ON CONFLICT (key) DO UPDATE SET value = excluded.value, is_binary = excluded.is_binary, etag = excluded.etag, "
    "update_time = excluded.update_time, expiration_time = excluded.expiration_time"
)
_DELETE = "DELETE FROM state WHERE key = ?"
_DELETE_EXPIRED = (
    "DELETE FROM state WHERE key IN "
    "(SELECT key FROM state WHERE expiration_time IS NOT NULL AND expiration_time <= CURRENT_TIMESTAMP LIMIT ?)"
)
_REMINDER_COLUMNS = (
    "actor_type, actor_id, name, version, due_at, due_time, period, ttl, data, repeats_left, expires_at, failures, "
    "retry_interval, max_retries"
)
_PUT_REMINDER = (
    f"INSERT OR REPLACE INTO holdfast_reminders ({_REMINDER_COLUMNS}) "  # noqa: S608
    f"VALUES ({','.join('?' * len(_REMINDER_COLUMNS.split(',')))})"
)
_POSTPONED = "WHERE actor_type = ? AND actor_id = ? AND name = ? AND due_at = ?"
_MOVE_POSTPONED = f"UPDATE holdfast_reminders SET due_at = ? {_POSTPONED}"  # noqa: S608
_REMOVE_POSTPONED = f"DELETE FROM holdfast_reminders {_POSTPONED}"  # noqa: S608
# SQLite limits the parameters of one statement, so more keys are read in several.
_KEYS_AT_ONCE = 500
# Bounds the expired rows that one commit deletes.
_EXPIRED_AT_ONCE = 500
_CLEANING_INTERVAL = 3600.0
# Larger saves always go to the writer: they take longer, and fill the log, which only the writer checkpoints.
_SMALL = 64 * 1024

_WRITING = ("PRAGMA synchronous=FULL", "PRAGMA journal_size_limit=67108864")

_Statement = tuple[str, "Sequence[Any]"]
_Query = tuple[str, "Sequence[Any]"]


class SqliteStorage:
    """The storage of the embedded host."""

    def __init__(self, path: Path) -> None:
        self._path = path
        # Etags only have to differ. Random ones would need a system call for each save, which releases the interpreter
        # lock, and getting that back takes long while the writer is busy.
        self._epoch = secrets.token_hex(4)
        self._saves = itertools.count()
        self._clean_at = 0.0
        self._writer: BatchThread[list[_Statement], None] | None = None
        #: The connection for inline commits, used by the event loop's own thread.
        self._inline_connection: sqlite3.Connection | None = None
        self._commit_policy = InlineCommitPolicy()
        #: Whether an inline commit was just made, and other tasks have not run since.
        self._just_committed = False
        self._reader: BatchThread[_Query, list[Any]] | None = None

    async def open(self) -> None:
        writer = BatchThread("holdfast-writer", self._connect_writer, self._commit)
        reader = BatchThread("holdfast-reader", self._connect_reader, self._answer)
        await writer.start()
        try:
            await reader.start()
            self._inline_connection = self._connect_inline()
        except BaseException:
            await reader.stop()
            await writer.stop()
            raise
        self._writer, self._reader = writer, reader

    async def close(self) -> None:
        threads = (self._reader, self._writer)
        # Cleared first: later requests must be refused, not wait for a thread that has ended.
        self._reader = self._writer = None
        if self._inline_connection is not None:
            self._inline_connection.close()
            self._inline_connection = None
        for thread in threads:
            if thread:
                await thread.stop()

    async def load(self, keys: Sequence[str]) -> Mapping[str, bytes]:
        found: dict[str, bytes] = {}
        for start in range(0, len(keys), _KEYS_AT_ONCE):
            some = keys[start : start + _KEYS_AT_ONCE]
            rows = await self._query(
                # As bytes: text that is not UTF-8 would fail the query for all its keys.
                f"SELECT key, CAST(value AS BLOB), is_binary FROM state WHERE key IN ({','.join('?' * len(some))}) "  # noqa: S608
                "AND (expiration_time IS NULL OR expiration_time > CURRENT_TIMESTAMP)",
                some,
            )
            found.update((key, b64decode(value) if is_binary else value) for key, value, is_binary in rows)
        return found

    async def save(self, writes: Sequence[Write], reminders: Sequence[ReminderChange] = ()) -> None:
        etag = f"{self._epoch}-{next(self._saves):x}"
        statements: list[_Statement] = [
            (_DELETE, (write.key,))
            if write.value is None
            else (_UPSERT, (write.key, *_stored(write), etag, write.ttl_seconds, write.ttl_seconds))
            for write in writes
        ]
        statements += map(_reminder_statement, reminders)
        await self._execute(statements, sum(len(write.value) for write in writes if write.value is not None))

    async def put_reminder(self, reminder: Reminder) -> None:
        await self._execute([_reminder_statement(reminder)])

    async def move_reminder(self, reminder: Reminder) -> None:
        await self._execute(
            [
                (
                    "UPDATE holdfast_reminders SET due_at = ?, repeats_left = ?, failures = ? "
                    "WHERE actor_type = ? AND actor_id = ? AND name = ? AND version = ?",
                    (
                        reminder.due_at,
                        reminder.repeats_left,
                        reminder.failures,
                        *reminder.address,
                        reminder.name,
                        reminder.version,
                    ),
                )
            ]
        )

    async def delete_reminder(self, address: ActorAddress, name: str, version: str | None = None) -> None:
        await self._execute(
            [
                (
                    "DELETE FROM holdfast_reminders "
                    "WHERE actor_type = ? AND actor_id = ? AND name = ? AND version = coalesce(?, version)",
                    (*address, name, version),
                )
            ]
        )

    async def get_reminder(self, address: ActorAddress, name: str) -> Reminder | None:
        rows = await self._query(
            f"SELECT {_REMINDER_COLUMNS} FROM holdfast_reminders "  # noqa: S608
            "WHERE actor_type = ? AND actor_id = ? AND name = ?",
            (*address, name),
        )
        return _reminder(rows[0]) if rows else None

    async def earliest_reminders(self, limit: int) -> Sequence[Reminder]:
        rows = await self._query(
            f"SELECT {_REMINDER_COLUMNS} FROM holdfast_reminders ORDER BY due_at LIMIT ?",  # noqa: S608
            (limit,),
        )
        return [_reminder(row) for row in rows]

    async def _execute(self, statements: list[_Statement], size: int = 0) -> None:
        if self._writer is None:
            raise Unavailable("The storage is closed.")
        # Never before saves that wait for the writer, to keep the order.
        overlapped = self._just_committed or self._writer.unanswered > 0
        if (
            not overlapped
            and size <= _SMALL
            and self._commit_policy.commit_inline()
            and self._commit_inline(statements)
        ):
            # Other tasks run after a save. A save of theirs then counts as overlapping with this one.
            self._just_committed = True
            try:
                await asyncio.sleep(0)
            finally:
                self._just_committed = False
            return
        began = time.perf_counter()
        await self._writer.submit(statements)
        self._commit_policy.record_handoff(time.perf_counter() - began, met=overlapped)

    async def _query(self, sql: str, parameters: Sequence[Any]) -> list[Any]:
        if self._reader is None:
            raise Unavailable("The storage is closed.")
        return await self._reader.submit((sql, parameters))

    def _connect_writer(self) -> sqlite3.Connection:
        return self._connect("PRAGMA journal_mode=WAL", *_WRITING, schema=True)

    def _connect_inline(self) -> sqlite3.Connection:
        return self._connect(
            *_WRITING,
            # Left to the writer: waiting for other writers, and checkpoints of the log.
            "PRAGMA busy_timeout=0",
            "PRAGMA wal_autocheckpoint=0",
            schema=False,
        )

    def _connect_reader(self) -> sqlite3.Connection:
        return self._connect("PRAGMA query_only=1", schema=False)

    def _connect(self, *pragmas: str, schema: bool) -> sqlite3.Connection:
        try:
            connection = sqlite3.connect(self._path, isolation_level=None, timeout=5.0)
            for pragma in pragmas:
                connection.execute(pragma)
            if schema:
                connection.executescript(f"BEGIN IMMEDIATE;{SCHEMA}COMMIT;")
        except sqlite3.Error as error:
            raise StorageBroken(f"The data file {self._path} cannot be opened: {error}.") from error
        return connection

    def _commit(self, connection: sqlite3.Connection, batch: Sequence[list[_Statement]]) -> Sequence[Exception | None]:
        statements = [statement for save in batch for statement in save]
        now = time.monotonic()
        cleaning = now >= self._clean_at
        if cleaning:
            # Expired rows are deleted in a transaction that is needed anyway.
            statements.append((_DELETE_EXPIRED, (_EXPIRED_AT_ONCE,)))
        try:
            changed = _transact(connection, statements)
            if cleaning and changed < _EXPIRED_AT_ONCE:
                self._clean_at = now + _CLEANING_INTERVAL
        except Exception as error:
            if len(batch) == 1 or _concerns_the_file(error):
                return [self._explain(error, SaveFailed) for _ in batch]
        else:
            return [None] * len(batch)
        # One save of the batch fails: each is committed on its own to find it.
        return [answer for save in batch for answer in self._commit(connection, [save])]

    def _commit_inline(self, statements: list[_Statement]) -> bool:
        """Commits inline; returns whether that succeeded."""
        assert self._inline_connection is not None
        began = time.perf_counter()
        try:
            _transact(self._inline_connection, statements)
        except Exception:
            # The save goes to the writer, which reports the error if it fails again.
            self._commit_policy.failed()
            return False
        self._commit_policy.record_inline(time.perf_counter() - began)
        return True

    def _answer(self, connection: sqlite3.Connection, batch: Sequence[_Query]) -> Sequence[list[Any] | Exception]:
        answers: list[list[Any] | Exception] = []
        for sql, parameters in batch:
            try:
                answers.append(connection.execute(sql, parameters).fetchall())
            except Exception as error:
                # Any error: it must not affect the other queries of the batch.
                answers.append(self._explain(error, Unavailable))
        return answers

    def _explain(self, error: Exception, kind: Callable[[str], HoldfastError]) -> HoldfastError:
        primary = _primary_code(error)
        if primary == sqlite3.SQLITE_FULL:
            return kind(f"The disk that holds {self._path} is full, so nothing was saved. Free space and try again.")
        if primary in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            return StorageBroken(f"The data file {self._path} is damaged: {error}. Restore it from a backup.")
        if primary in (None, sqlite3.SQLITE_TOOBIG):
            return InvalidRequest(f"The storage cannot hold this: {error}.")
        return kind(f"The data file {self._path} could not be written or read: {error}. Try again.")


def _transact(connection: sqlite3.Connection, statements: Sequence[_Statement]) -> int:
    """Executes the statements in one transaction; returns how many rows the last one changed."""
    if connection.in_transaction:
        # An interrupted transaction is still open. Roll it back, or this one goes with it.
        connection.execute("ROLLBACK")
    if len(statements) == 1:
        # An implicit transaction: the interpreter lock is released once, not three times.
        return connection.execute(*statements[0]).rowcount
    changed = 0
    try:
        connection.execute("BEGIN IMMEDIATE")
        for sql, parameters in statements:
            changed = connection.execute(sql, parameters).rowcount
        connection.execute("COMMIT")
    except BaseException:
        # For any error, such as an integer beyond 64 bits or Ctrl-C: a transaction that is left open would swallow all
        # that follow.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return changed


def _primary_code(error: Exception) -> int | None:
    """Returns SQLite's error code, or None if Python failed to pass a value to SQLite."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def _concerns_the_file(error: Exception) -> bool:
    return _primary_code(error) not in (None, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH)


def _stored(write: Write) -> tuple[str, bool]:
    """Returns a value as text and whether it is binary, as daprd's ``state.sqlite`` stores it."""
    assert write.value is not None
    return (b64encode(write.value).decode(), True) if write.binary else (write.value.decode(), False)


def _reminder_statement(change: ReminderChange) -> _Statement:
    if isinstance(change, Postponement):
        row = (*change.address, change.name, change.armed)
        return (_REMOVE_POSTPONED, row) if change.due_at is None else (_MOVE_POSTPONED, (change.due_at, *row))
    return (
        _PUT_REMINDER,
        (
            *change.address,
            change.name,
            change.version,
            change.due_at,
            change.due_time,
            change.period,
            change.ttl,
            change.data,
            change.repeats_left,
            change.expires_at,
            change.failures,
            change.retry_interval,
            change.max_retries,
        ),
    )


def _reminder(row: Sequence[Any]) -> Reminder:
    actor_type, actor_id, name, version, *rest = row
    return Reminder(ActorAddress(actor_type, actor_id), name, version, *rest)
