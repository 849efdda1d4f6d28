"""A SQLite file in the layout of Dapr's ``state.sqlite``, which the embedded host also writes."""

from __future__ import annotations

import base64
import contextlib
import os
import sqlite3
import time
from typing import TYPE_CHECKING, Any

from holdfast.errors import InvalidRequest, Unavailable
from holdfast.spark.stores.base import PASSED_BYTES, Range, Row, part_of_key, split
from holdfast.state_store.sqlite_copy import connect

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType
    from typing import Self

    from holdfast.spark.source.options import Options
    from holdfast.spark.stores.base import Pattern

#: The value of the option ``snapshot`` for a copy, which is not written to.
COPY = "copy"
# Below SQLite's limit of parameters in one statement.
_KEYS_AT_ONCE = 500
_SAMPLES = 1024
# The size of a row without its value.
_ROW_BYTES = 100
# The longest time between the write of a row and its commit: there is one writer at a time.
_LATE_SECONDS = 300


class SqliteStore:
    def __init__(self, options: Options) -> None:
        self._options = options
        self._path = options.sqlite_path
        self._is_copy = options.snapshot is not None
        self._table = '"' + options.state_table.replace('"', '""') + '"'
        self.as_of = time.time() if options.as_of is None else options.as_of
        if options.snapshot not in (None, COPY):
            raise InvalidRequest("This is not a snapshot of a SQLite file: make one with holdfast.spark.snapshot().")
        self._connection = self._open()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def ranges(self) -> list[Range]:
        if not self._is_copy:
            return [Range()]  # one transaction for all rows: others would see later writes
        with self._explained():
            return split(self._weights(), self._options)

    def scan(self, within: Range, patterns: Sequence[Pattern]) -> Iterator[Row]:
        globs = [_glob(pattern) for pattern in patterns]
        condition = "(" + " OR ".join(["key GLOB ?"] * len(globs)) + ")"
        for key, value, is_binary in self._select("key, CAST(value AS BLOB), is_binary", within, condition, globs):
            yield Row(key, _raw(value, is_binary))

    def keys(self, within: Range) -> Iterator[str]:
        for (key,) in self._select("key", within):
            yield key

    def lineage(self) -> str:
        """Identifies the file: a file that replaces it may have rows with earlier times."""
        return str(os.stat(self._path).st_ino)

    def position(self) -> int:
        """Returns Unix seconds, since each row has the time of its last write."""
        return int(self.as_of)

    def changed(self, since: int, patterns: Sequence[Pattern]) -> Iterator[Row]:
        globs = [_glob(pattern) for pattern in patterns]
        condition = "(" + " OR ".join(["key GLOB ?"] * len(globs)) + ") AND update_time >= datetime(?, 'unixepoch')"
        parameters = [*globs, max(0, since - _LATE_SECONDS)]
        for key, value, is_binary in self._select(
            "key, CAST(value AS BLOB), is_binary", Range(), condition, parameters
        ):
            yield Row(key, _raw(value, is_binary))

    def present(self, keys: Sequence[str]) -> set[str]:
        return {key for (key,) in self._named("key", keys)}

    def lookup(self, keys: Sequence[str]) -> dict[str, bytes]:
        found = self._named("key, CAST(value AS BLOB), is_binary", keys)
        return {key: _raw(value, is_binary) for key, value, is_binary in found}

    def _named(self, columns: str, keys: Sequence[str]) -> Iterator[Any]:
        for start in range(0, len(keys), _KEYS_AT_ONCE):
            some = keys[start : start + _KEYS_AT_ONCE]
            places = ",".join("?" * len(some))
            with self._explained():
                yield from self._connection.execute(
                    f"SELECT {columns} FROM {self._table} WHERE key IN ({places}) "  # noqa: S608
                    "AND (expiration_time IS NULL OR expiration_time > datetime(?, 'unixepoch'))",
                    (*some, self.as_of),
                )

    def _select(
        self, columns: str, within: Range, condition: str = "true", parameters: Sequence[Any] = ()
    ) -> Iterator[Any]:
        end = (2**63 - 1) if within.end is None else within.end
        with self._explained():
            yield from self._connection.execute(
                f"SELECT {columns} FROM {self._table} WHERE rowid >= ? AND rowid < ? AND {condition} "  # noqa: S608
                "AND (expiration_time IS NULL OR expiration_time > datetime(?, 'unixepoch'))",
                (within.first, end, *parameters, self.as_of),
            )

    def _open(self) -> sqlite3.Connection:
        if not os.path.exists(self._path):
            raise Unavailable(
                "The snapshot no longer exists: it was closed, or its folder is not visible here."
                if self._is_copy
                else f"There is no file {self._path}."
            )
        with self._explained():
            connection = connect(self._path, immutable=self._is_copy)
            # All reads see the point in time of the first statement.
            connection.execute("BEGIN")
            columns = {row[1] for row in connection.execute(f"PRAGMA table_info({self._table})")}
        if not {"key", "value", "is_binary", "expiration_time"} <= columns:
            connection.close()
            raise InvalidRequest(
                f"The file {self._path} has no table {self._table} with the columns of Dapr's state.sqlite: "
                "name the table with 'table_name'."
            )
        return connection

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            file = "copy" if self._is_copy else "file"
            raise Unavailable(f"The {file} {self._path} cannot be read: {error}.") from error

    def _weights(self) -> list[tuple[int, float]]:
        """Returns (rowid, bytes) pairs for equal numbers of rows, sampled by their first; other keys weigh little.

        Not for equal ranges of rowids: every write gives a row a new rowid, so that rows written often have much
        higher ones.
        """
        [rows] = self._connection.execute(f"SELECT count(*) FROM {self._table}").fetchone()  # noqa: S608
        step = max(1, rows // _SAMPLES)
        sampled = self._connection.execute(
            f"SELECT rowid, (SELECT iif(instr(key, ?), length(value) + {_ROW_BYTES}, {PASSED_BYTES}) "  # noqa: S608
            f"FROM {self._table} AS t WHERE t.rowid = ranked.rowid) "
            f"FROM (SELECT rowid, row_number() OVER (ORDER BY rowid) AS rank FROM {self._table}) AS ranked "
            "WHERE (rank - 1) % ? = 0",
            (part_of_key(self._options), step),
        )
        return [(rowid, step * float(size or 0)) for rowid, size in sampled]


def _glob(pattern: Pattern) -> str:
    escaped = ["".join(f"[{letter}]" if letter in "*?[" else letter for letter in part) for part in pattern]
    return "*".join(escaped)


def _raw(value: bytes | None, is_binary: int) -> bytes:
    if not is_binary or value is None:
        return value or b""
    try:
        return base64.b64decode(value, validate=True)
    except ValueError:
        return b""  # the decoder reports it as unreadable
