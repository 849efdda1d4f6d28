"""A SQLite file whose rows are moved: the embedded host's, or of Dapr's ``state.sqlite``."""

from __future__ import annotations

import base64
import contextlib
import os
import secrets
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.errors import DataFolderInUse, InvalidRequest, SettingsError, StorageBroken, Unavailable
from holdfast.runtime.embedded.data_folder import DataFolder
from holdfast.runtime.embedded.sqlite import SCHEMA, STATE_SCHEMA
from holdfast.state_store.rows import StoredRow
from holdfast.state_store.stored_key import SEPARATOR

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import TracebackType
    from typing import Self

#: The name of the embedded host's file in its data folder.
EMBEDDED_NAME = "holdfast.db"
_COLUMNS = {"key", "value", "is_binary", "expiration_time"}
_LIVE = "(expiration_time IS NULL OR expiration_time > CURRENT_TIMESTAMP)"
_OF_APP = "substr(key, 1, length(:prefix)) = :prefix"


class _SqliteFile:
    """A file that this process has alone, as long as it is open."""

    def __init__(self, path: str, table: str) -> None:
        self._path = Path(path)
        self._table = '"' + table.replace('"', '""') + '"'
        self._folder: DataFolder | None = None
        if self._path.name == EMBEDDED_NAME:
            self._folder = DataFolder(self._path.parent)
            self._folder.claim()
        try:
            with self._explained():
                self._connection = sqlite3.connect(self._path, isolation_level=None, timeout=1.0)
                # In WAL mode, this fails while any other connection is open, such as daprd's.
                self._connection.execute("PRAGMA locking_mode = EXCLUSIVE")
                self._connection.execute("BEGIN EXCLUSIVE")
        except BaseException:
            self._release()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()
        self._release()

    def check_alone(self) -> None:
        """Does nothing: the file is locked."""

    def _release(self) -> None:
        if self._folder is not None:
            self._folder.release()

    def _columns(self, table: str) -> set[str]:
        return {row[1] for row in self._connection.execute(f"PRAGMA table_info({table})")}

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise DataFolderInUse(f"{self._path} is in use: stop the server and its daprd first.") from error
            if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                raise StorageBroken(f"{self._path} is damaged: {error}. Restore it from a backup.") from error
            raise Unavailable(f"{self._path} cannot be read or written: {error}.") from error


class SqliteSource(_SqliteFile):
    def __init__(self, path: str, table: str) -> None:
        if not os.path.isfile(path):
            raise SettingsError(f"There is no file {path}: name the database to move from with --from.")
        super().__init__(path, table)
        try:
            with self._explained():
                if not self._columns(self._table) >= _COLUMNS:
                    raise InvalidRequest(
                        f"{path} has no table {table} with the columns of Dapr's state.sqlite: name the table with "
                        "--from-table."
                    )
                #: Under whatever name: it may be a backup.
                self.is_embedded = bool(self._columns("holdfast_reminders"))
        except BaseException:
            self.__exit__(None, None, None)
            raise

    def app_ids(self) -> list[str]:
        with self._explained():
            query = (
                f"SELECT DISTINCT substr(key, 1, instr(key, '{SEPARATOR}') - 1) FROM {self._table} "  # noqa: S608
                f"WHERE key LIKE '%{SEPARATOR}%{SEPARATOR}%{SEPARATOR}%' ORDER BY 1"
            )
            return [app_id for (app_id,) in self._connection.execute(query)]

    def count(self, app_id: str) -> int:
        with self._explained():
            query = f"SELECT count(*) FROM {self._table} WHERE {_OF_APP} AND {_LIVE}"  # noqa: S608
            [count] = self._connection.execute(query, {"prefix": app_id + SEPARATOR}).fetchone()
        return int(count)

    def rows(self, app_id: str) -> Iterator[StoredRow]:
        query = (
            "SELECT key, CAST(value AS BLOB), is_binary, CAST(strftime('%s', expiration_time) AS INTEGER) "  # noqa: S608
            f"FROM {self._table} WHERE {_OF_APP} AND {_LIVE} ORDER BY rowid"
        )
        with self._explained():
            for key, value, is_binary, expires_at in self._connection.execute(query, {"prefix": app_id + SEPARATOR}):
                yield StoredRow(key, base64.b64decode(value) if is_binary else value, bool(is_binary), expires_at)

    def reminders(self) -> Iterator[Mapping[str, Any]]:
        if not self.is_embedded:
            return
        with self._explained():
            cursor = self._connection.execute("SELECT * FROM holdfast_reminders")
            names = [column[0] for column in cursor.description]
            for row in cursor:
                yield dict(zip(names, row, strict=True))


class SqliteTarget(_SqliteFile):
    def __init__(self, path: str, table: str) -> None:
        self.is_embedded = os.path.basename(path) == EMBEDDED_NAME
        if not self.is_embedded:
            _create(path)
        super().__init__(path, table)
        try:
            with self._explained():
                if self._folder is not None:
                    self._folder.protect_database()
                if table == "state":
                    for statement in (SCHEMA if self.is_embedded else STATE_SCHEMA).split(";"):
                        self._connection.execute(statement)
                elif not self._columns(self._table) >= _COLUMNS:
                    raise InvalidRequest(f"{path} has no table {table}: start daprd once, so that it makes its table.")
                if self.is_embedded and self._connection.execute("SELECT 1 FROM holdfast_reminders").fetchone():
                    raise SettingsError(f"{path} has reminders already: choose an empty data folder with --to.")
        except BaseException:
            self.__exit__(None, None, None)
            raise

    def counts(self, app_id: str) -> dict[str, int]:
        query = (
            f"SELECT substr(rest, 1, instr(rest, '{SEPARATOR}') - 1), count(*) FROM "  # noqa: S608
            f"(SELECT substr(key, length(:prefix) + 1) AS rest FROM {self._table} WHERE {_OF_APP}) GROUP BY 1"
        )
        with self._explained():
            return dict(self._connection.execute(query, {"prefix": app_id + SEPARATOR}).fetchall())

    def write(self, rows: Iterator[StoredRow]) -> None:
        etag = secrets.token_hex(8)
        insert = (
            f"INSERT INTO {self._table} (key, value, is_binary, etag, expiration_time) "  # noqa: S608
            "VALUES (?, ?, ?, ?, datetime(?, 'unixepoch'))"
        )
        with self._explained():
            for row in rows:
                value = base64.b64encode(row.value).decode() if row.is_binary else row.value.decode()
                self._connection.execute(insert, (row.key, value, row.is_binary, etag, row.expires_at))

    def commit(self) -> None:
        with self._explained():
            self._connection.execute("COMMIT")


def _create(path: str) -> None:
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise SettingsError(f"{path} cannot be written: {error.strerror}. Choose another file with --to.") from error
