"""A SQLite file in the layout of Dapr's ``state.sqlite``, which the embedded host writes too."""

from __future__ import annotations

import base64
import contextlib
import os
import sqlite3
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from holdfast.spark.refusals import invalid, unavailable
from holdfast.spark.store import PASSED_BYTES, Range, Row, part_of_key, split

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from holdfast.spark.options import Options
    from holdfast.spark.store import Pattern

#: What the option ``snapshot`` says of a file that nobody writes to.
COPY = "copy"
# More keys than SQLite takes in one statement are read in several.
_KEYS_AT_ONCE = 500
_SAMPLES = 1024
# What a row takes beside its value.
_ROW_BYTES = 100
_TIMEOUT = 30.0
# Of a copy: what is done in one go, and for how long it rests then, as a multiple of how long that took.
_PAGES_AT_ONCE = 128
_REST = 2.0
# From when a row is written until that can be seen: one writes at a time, and nobody that long.
_LATE_SECONDS = 300


class SqliteStore:
    def __init__(self, options: Options) -> None:
        self._options = options
        self._path = options.sqlite_path
        self._is_copy = options.snapshot is not None
        self._table = '"' + options.state_table.replace('"', '""') + '"'
        self.as_of = time.time() if options.as_of is None else options.as_of
        if options.snapshot not in (None, COPY):
            raise invalid("This is not a snapshot of a SQLite file: holdfast.spark.snapshot() makes one.")
        self._connection = self._open()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def ranges(self) -> list[Range]:
        if not self._is_copy:
            return [Range()]  # all of it in one transaction: what is written meanwhile would show elsewhere
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
        """Which file it is: one that was put in its place may have rows with earlier times."""
        return str(os.stat(self._path).st_ino)

    def position(self) -> int:
        """Unix seconds: of each row is known when it was last written."""
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
            raise unavailable(
                "The snapshot is gone: it was closed, or is not to be seen from here."
                if self._is_copy
                else f"There is no file {self._path}."
            )
        with self._explained():
            connection = connect(self._path, immutable=self._is_copy)
            # What is read sees one point in time from the first statement on.
            connection.execute("BEGIN")
            columns = {row[1] for row in connection.execute(f"PRAGMA table_info({self._table})")}
        if not {"key", "value", "is_binary", "expiration_time"} <= columns:
            connection.close()
            raise invalid(
                f"The file {self._path} has no table {self._table} as Dapr's state.sqlite makes it: "
                "'table_name' says which it is."
            )
        return connection

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            file = "copy" if self._is_copy else "file"
            raise unavailable(f"The {file} {self._path} cannot be read: {error}.") from error

    def _weights(self) -> list[tuple[int, float]]:
        """What as many rows each weigh, as the first of them says; what is not of this table weighs little.

        Not what the same numbers of rowids do: every write gives a row the next one, so that those which are written
        often lie far behind all others.
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


def connect(path: str, *, immutable: bool = False) -> sqlite3.Connection:
    """For reading only."""
    mode = "mode=ro&immutable=1" if immutable else "mode=ro"
    return sqlite3.connect(
        f"file:{quote(path)}?{mode}", uri=True, isolation_level=None, timeout=_TIMEOUT, check_same_thread=False
    )


def copy(path: str, to: Path) -> None:
    """One point in time of a file that is written to meanwhile; those who write are not kept waiting."""
    with contextlib.closing(connect(path)) as source, contextlib.closing(sqlite3.connect(to)) as target:
        # Nobody needs it after a crash, and waiting for the disk would be in the way of those who have to.
        target.execute("PRAGMA synchronous = OFF")
        [mode] = source.execute("PRAGMA journal_mode").fetchone()
        if mode != "wal":
            # As fast as it can be: it locks the file.
            source.backup(target)
            return
        # In a transaction that is held: without it every write meanwhile would begin the copy anew.
        source.execute("BEGIN")
        source.execute("SELECT 1 FROM sqlite_master").fetchone()
        source.backup(target, pages=_PAGES_AT_ONCE, progress=_Rest())


class _Rest:
    """After each step of a copy, so that most of what others do meanwhile meets a disk and a core that are free."""

    def __init__(self) -> None:
        self._began = time.perf_counter()

    def __call__(self, status: int, remaining: int, total: int) -> None:
        if remaining:
            time.sleep(_REST * (time.perf_counter() - self._began))
        self._began = time.perf_counter()


def _glob(pattern: Pattern) -> str:
    escaped = ["".join(f"[{letter}]" if letter in "*?[" else letter for letter in part) for part in pattern]
    return "*".join(escaped)


def _raw(value: bytes | None, is_binary: int) -> bytes:
    if not is_binary or value is None:
        return value or b""
    try:
        return base64.b64decode(value, validate=True)
    except ValueError:
        return b""  # told as what cannot be read, where it is read
