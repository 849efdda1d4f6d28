"""A PostgreSQL table in the layout of Dapr's component, v1 or v2."""

from __future__ import annotations

import base64
import contextlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from holdfast.errors import InvalidRequest, Unavailable
from holdfast.spark.stores.base import PASSED_BYTES, Range, Row, part_of_key, split

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType
    from typing import Self

    from holdfast.spark.source.options import Options
    from holdfast.spark.stores.base import Pattern

# Rows fetched at once: fewer if they are large (some have 1 MB), more if they are small.
_FEWEST_ROWS, _MOST_ROWS = 4, 64
_FETCH_BYTES = 2 * 1024 * 1024
_KEYS_AT_ONCE = 1000
_SAMPLED_PAGES = 2048
_PAGE_BYTES = 8192
# The first version that finds a page by its number without a full scan.
_FINDS_PAGES = 14_00_00
# The first version with transaction_timeout.
_ENDS_TRANSACTIONS = 17_00_00
_CONNECT_SECONDS = 10


@dataclass(frozen=True, slots=True)
class Layout:
    """The column expressions of one version of the component."""

    value: sql.SQL
    is_binary: sql.SQL
    expires: sql.SQL


_V1 = Layout(sql.SQL("convert_to(value::text, 'UTF8')"), sql.SQL("isbinary"), sql.SQL("expiredate"))
_V2 = Layout(sql.SQL("value"), sql.SQL("false"), sql.SQL("expires_at"))


@dataclass(frozen=True, slots=True)
class Exported:
    """An exported snapshot."""

    #: The name by which other transactions use it.
    name: str
    as_of: float


class PostgresqlStore:
    """A read-only transaction, which uses the snapshot the options name, if any."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._connection = _connect(options)
        try:
            with self._explained():
                self._begin()
                self.as_of = self._moment() if options.as_of is None else options.as_of
                self._table = _identifier(options.state_table)
                self._layout = self._find_layout()
        except BaseException:
            self._connection.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def ranges(self) -> list[Range]:
        if self._options.snapshot is None:
            return [Range()]  # each transaction would see another point in time, so there is only one
        with self._explained():
            return split(self._weights(), self._options)

    def scan(self, within: Range, patterns: Sequence[Pattern]) -> Iterator[Row]:
        yield from self._rows(within, patterns)

    def keys(self, within: Range) -> Iterator[str]:
        for (key,) in self._select(sql.SQL("key"), within, sql.SQL("true")):
            yield key

    def lineage(self) -> str:
        """Identifies the cluster and timeline that count transaction ids; a promoted replica may count differently."""
        with self._explained():
            database = self._one("SELECT oid::text FROM pg_database WHERE datname = current_database()")
            allowed = "coalesce(has_function_privilege(to_regprocedure('pg_control_{}()'), 'execute'), false)"
            if not self._one(f"SELECT {allowed.format('system')} AND {allowed.format('checkpoint')}"):
                return f"{database}"
            cluster = self._one(
                "SELECT system_identifier || '/' || timeline_id FROM pg_control_system(), pg_control_checkpoint()"
            )
        return f"{cluster}/{database}"

    def position(self) -> int:
        """Returns the first transaction id that may still be running: the writes of all earlier ones are visible."""
        return int(self._one("SELECT pg_snapshot_xmin(pg_current_snapshot())::text"))

    def changed(self, since: int, patterns: Sequence[Pattern]) -> Iterator[Row]:
        with self._explained():
            ahead = int(self._one("SELECT pg_snapshot_xmax(pg_current_snapshot())::text"))
        # A row has only the lower 32 bits of its transaction id. An id that seems to lie in the future is from before
        # the last wraparound; old rows that seem new are returned in addition, which is allowed.
        written = sql.SQL(
            "(xmin::text::bigint + {epoch} - CASE WHEN xmin::text::bigint > {low} THEN {turn} ELSE 0 END)"
        )
        condition = sql.SQL("{} >= {}").format(
            written.format(
                epoch=sql.Literal(ahead >> 32 << 32), low=sql.Literal(ahead & 0xFFFFFFFF), turn=sql.Literal(1 << 32)
            ),
            sql.Literal(since),
        )
        yield from self._rows(Range(), patterns, condition)

    def present(self, keys: Sequence[str]) -> set[str]:
        return {key for (key,) in self._named(sql.SQL("key"), keys)}

    def lookup(self, keys: Sequence[str]) -> dict[str, bytes]:
        columns = sql.SQL("key, {}, {}").format(self._layout.is_binary, self._layout.value)
        return {key: _raw(value, is_binary) for key, is_binary, value in self._named(columns, keys)}

    def _named(self, columns: sql.Composable, keys: Sequence[str]) -> Iterator[Any]:
        query = sql.SQL("SELECT {} FROM {} WHERE key = ANY(%s) AND {}").format(columns, self._table, self._live())
        with self._explained():
            for start in range(0, len(keys), _KEYS_AT_ONCE):
                with self._connection.cursor(binary=True) as cursor:
                    cursor.execute(query, (list(keys[start : start + _KEYS_AT_ONCE]),))
                    yield from cursor

    def _begin(self) -> None:
        self._connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        if self._options.snapshot is not None:
            name = sql.Literal(self._options.snapshot)
            try:
                self._connection.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(name))
            except (psycopg.errors.InvalidParameterValue, psycopg.errors.UndefinedObject):
                raise Unavailable(
                    "The snapshot no longer exists: it was closed, or its connection was lost. Take another one."
                ) from None
        _stay(self._connection)
        # Optimise for reading all rows, not for the first rows.
        self._connection.execute("SET LOCAL cursor_tuple_fraction = 1")

    def _moment(self) -> float:
        return float(self._one("SELECT extract(epoch FROM now())::float8"))

    def _find_layout(self) -> Layout:
        query = sql.SQL(
            "SELECT array_agg(attname::text) FROM pg_attribute "
            "WHERE attrelid = to_regclass({}) AND attnum > 0 AND NOT attisdropped"
        )
        columns = set(self._one(query.format(sql.Literal(self._table.as_string(self._connection)))) or ())
        if {"key", "value", "isbinary", "expiredate"} <= columns:
            return _V1
        if {"key", "value", "expires_at"} <= columns:
            return _V2
        raise InvalidRequest(
            f"There is no table {self._options.state_table} with the columns of Dapr's state.postgresql: "
            "name the table with 'table_name' or 'table_prefix'."
        )

    def _weights(self) -> list[tuple[int, float]]:
        """Returns (page, bytes) pairs from a sample, with out-of-line values; keys of other tables weigh little."""
        name = sql.Literal(self._table.as_string(self._connection))
        size = self._one(sql.SQL("SELECT pg_relation_size({}) / current_setting('block_size')::int").format(name))
        pages = max(1, int(size))
        step = -(-pages // _SAMPLED_PAGES)
        if self._connection.info.server_version < _FINDS_PAGES:
            # Sampling a page would scan the whole table.
            return [(page, float(step * _PAGE_BYTES)) for page in range(0, pages, step)]
        sampled = self._connection.execute(
            sql.SQL(
                "SELECT page, (SELECT sum(CASE WHEN position({part} IN key) > 0 "
                "THEN pg_column_size(value) + pg_column_size(key) ELSE {passed} END) FROM {table} "
                "WHERE ctid >= format('(%s,0)', page)::tid AND ctid < format('(%s,0)', page + 1)::tid) "
                "FROM generate_series(0, {last}, {step}) AS page"
            ).format(
                part=sql.Literal(part_of_key(self._options)),
                passed=sql.Literal(PASSED_BYTES),
                table=self._table,
                last=sql.Literal(pages - 1),
                step=sql.Literal(step),
            )
        )
        return [(page, float(weight or 0) * step) for page, weight in sampled]

    def _rows(self, within: Range, patterns: Sequence[Pattern], *conditions: sql.Composable) -> Iterator[Row]:
        likes = [sql.SQL("key LIKE {}").format(sql.Literal(_like(pattern))) for pattern in patterns]
        matching = sql.SQL("({})").format(sql.SQL(" OR ").join(likes))
        columns = sql.SQL("key, {}, {}").format(self._layout.is_binary, self._layout.value)
        for key, is_binary, value in self._select(columns, within, sql.SQL(" AND ").join([matching, *conditions])):
            yield Row(key, _raw(value, is_binary))

    def _select(self, columns: sql.Composable, within: Range, matching: sql.Composable) -> Iterator[Any]:
        conditions = [sql.SQL("ctid >= {}::tid").format(sql.Literal(f"({within.first},0)")), matching, self._live()]
        if within.end is not None:
            conditions.append(sql.SQL("ctid < {}::tid").format(sql.Literal(f"({within.end},0)")))
        query = sql.SQL("SELECT {} FROM {} WHERE {}").format(columns, self._table, sql.SQL(" AND ").join(conditions))
        with self._explained(), self._connection.cursor("rows") as cursor:
            cursor.execute(query, binary=True)
            at_once = 4 * _FEWEST_ROWS
            while rows := cursor.fetchmany(at_once):
                yield from rows
                size = sum(len(row[-1]) for row in rows)
                if size > _FETCH_BYTES:
                    at_once = max(_FEWEST_ROWS, at_once // 4)
                elif size < _FETCH_BYTES // 2:
                    at_once = min(_MOST_ROWS, at_once * 2)

    def _live(self) -> sql.Composed:
        return sql.SQL("({expires} IS NULL OR {expires} >= to_timestamp({as_of}))").format(
            expires=self._layout.expires, as_of=sql.Literal(self.as_of)
        )

    def _one(self, query: Any) -> Any:
        row = self._connection.execute(query).fetchone()
        return None if row is None else row[0]

    def _explained(self) -> contextlib.AbstractContextManager[None]:
        return _explained(self._options)


@contextlib.contextmanager
def export(options: Options) -> Iterator[Exported]:
    """Exports a snapshot: inside the block, other transactions can see what this one sees."""
    with _explained(options), _connect(options) as connection:
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        _stay(connection)
        row = connection.execute("SELECT pg_export_snapshot(), extract(epoch FROM now())::float8").fetchone()
        assert row is not None
        yield Exported(*row)


def _stay(connection: psycopg.Connection[Any]) -> None:
    """Disables the transaction's timeouts: it lasts as long as the reads, and is idle while Spark works."""
    connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
    if connection.info.server_version >= _ENDS_TRANSACTIONS:
        connection.execute("SET LOCAL transaction_timeout = 0")


@contextlib.contextmanager
def _explained(options: Options) -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        # Without its cause, which may show the URL with its password.
        raise Unavailable(f"PostgreSQL refused: {options.without_secrets(str(error)).strip()}") from None


def _connect(options: Options) -> psycopg.Connection[Any]:
    with _explained(options):
        return psycopg.connect(
            options.url, autocommit=True, connect_timeout=_CONNECT_SECONDS, application_name="holdfast-spark"
        )


def _identifier(table: str) -> sql.Identifier:
    return sql.Identifier(*table.split("."))


def _like(pattern: Pattern) -> str:
    escaped = ["".join(f"\\{letter}" if letter in "%_\\" else letter for letter in part) for part in pattern]
    return "%".join(escaped)


def _raw(value: bytes, is_binary: bool) -> bytes:
    if not is_binary:
        return value
    try:
        return base64.b64decode(json.loads(value), validate=True)
    except (ValueError, TypeError):
        return b""  # the decoder reports it as unreadable
