"""A PostgreSQL table in the layout of Dapr's component, v1 or v2."""

from __future__ import annotations

import base64
import contextlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from holdfast.spark.refusals import invalid, unavailable
from holdfast.spark.store import PASSED_BYTES, Range, Row, part_of_key, split

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType
    from typing import Self

    from holdfast.spark.options import Options
    from holdfast.spark.store import Pattern

# Rows are fetched some at a time: fewer where they are large, of which some have 1 MB, more where they are small.
_FEWEST_ROWS, _MOST_ROWS = 4, 64
_FETCH_BYTES = 2 * 1024 * 1024
_KEYS_AT_ONCE = 1000
_SAMPLED_PAGES = 2048
_PAGE_BYTES = 8192
# The first version that finds a page without reading those before it.
_FINDS_PAGES = 14_00_00
# And that which ends a transaction that takes too long.
_ENDS_TRANSACTIONS = 17_00_00
_CONNECT_SECONDS = 10


@dataclass(frozen=True, slots=True)
class Layout:
    """How the columns of one version of the component are called, and read."""

    value: sql.SQL
    is_binary: sql.SQL
    expires: sql.SQL


_V1 = Layout(sql.SQL("convert_to(value::text, 'UTF8')"), sql.SQL("isbinary"), sql.SQL("expiredate"))
_V2 = Layout(sql.SQL("value"), sql.SQL("false"), sql.SQL("expires_at"))


@dataclass(frozen=True, slots=True)
class Exported:
    #: What others name it by.
    name: str
    as_of: float


class PostgresqlStore:
    """One transaction, which is that of the snapshot where one is named."""

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
            return [Range()]  # one transaction sees one point in time; a second would see another
        with self._explained():
            return split(self._weights(), self._options)

    def scan(self, within: Range, patterns: Sequence[Pattern]) -> Iterator[Row]:
        yield from self._rows(within, patterns)

    def keys(self, within: Range) -> Iterator[str]:
        for (key,) in self._select(sql.SQL("key"), within, sql.SQL("true")):
            yield key

    def lineage(self) -> str:
        """Whose transactions are counted: another cluster counts anew, and so may a replica that took over."""
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
        """All transactions before this one have ended: what they wrote can be seen."""
        return int(self._one("SELECT pg_snapshot_xmin(pg_current_snapshot())::text"))

    def changed(self, since: int, patterns: Sequence[Pattern]) -> Iterator[Row]:
        with self._explained():
            ahead = int(self._one("SELECT pg_snapshot_xmax(pg_current_snapshot())::text"))
        # A row has the lower half of its transaction's id only. One that seems to be of the future is of the time
        # before the halves began anew; those of that time that seem to be new are the few more.
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
                raise unavailable(
                    "The snapshot is gone: it was closed, or the connection that held it is lost. Take another one."
                ) from None
        _stay(self._connection)
        # All rows are wanted, not the first ones soon.
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
        raise invalid(
            f"There is no table {self._options.state_table} as Dapr's state.postgresql makes it: "
            "'table_name' or 'table_prefix' says which it is."
        )

    def _weights(self) -> list[tuple[int, float]]:
        """What pages of the table weigh, with what lies outside of them; what is not of this table weighs little."""
        name = sql.Literal(self._table.as_string(self._connection))
        size = self._one(sql.SQL("SELECT pg_relation_size({}) / current_setting('block_size')::int").format(name))
        pages = max(1, int(size))
        step = -(-pages // _SAMPLED_PAGES)
        if self._connection.info.server_version < _FINDS_PAGES:
            # To look at one would be to read all of them.
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
    """Inside, others can see what this transaction sees."""
    with _explained(options), _connect(options) as connection:
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        _stay(connection)
        row = connection.execute("SELECT pg_export_snapshot(), extract(epoch FROM now())::float8").fetchone()
        assert row is not None
        yield Exported(*row)


def _stay(connection: psycopg.Connection[Any]) -> None:
    """A transaction takes as long as somebody reads, and is idle while others are at work."""
    connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
    if connection.info.server_version >= _ENDS_TRANSACTIONS:
        connection.execute("SET LOCAL transaction_timeout = 0")


@contextlib.contextmanager
def _explained(options: Options) -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        # Without its cause: that may show the address, and the address may hold a password.
        raise unavailable(f"PostgreSQL refused: {options.without_secrets(str(error)).strip()}") from None


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
        return b""  # told as what cannot be read, where it is read
