"""Converts rows to Arrow batches of about equal size, in the types Spark expects."""

from __future__ import annotations

from functools import cached_property
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import ArrayType, IntegerType, LongType, StringType, TimestampType

from holdfast.pushpop.core.segment_codec import BREAK
from holdfast.spark.decode.column_types import is_within, unexpected_types
from holdfast.spark.decode.run_length import FIRST, NUMBERED
from holdfast.spark.source.schemas import SCHEMAS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql.types import DataType, StructType

BATCH_BYTES = 2 * 1024 * 1024

_TIME = pa.timestamp("us", tz="UTC")
_FEW = 10_000


class RunLength(NamedTuple):
    """A run of rows that share most column values."""

    length: int
    #: The shared values by column number; missing ones are null.
    same: dict[int, Any]
    #: The ids of the rows are this prefix with consecutive numbers, beginning with ``first``.
    named: str
    first: int


class RunBlock:
    """Runs of rows, and the columns in which each row has its own value."""

    def __init__(self) -> None:
        self.length = 0
        self._runs: list[RunLength] = []
        self._own: dict[int, list[pa.Array]] = {}

    def add(self, runs: list[RunLength], own: dict[int, pa.Array]) -> None:
        """Adds runs, and their own values by column; these columns are the same in each call."""
        self.length += sum(run.length for run in runs)
        self._runs += runs
        for column, values in own.items():
            self._own.setdefault(column, []).append(values)

    def array(self, column: int, kind: pa.DataType) -> pa.Array:
        """Returns a column with a value for each row."""
        if column in self._own:
            return self._all_of(column)
        if self._all_same:
            return pa.repeat(pa.scalar(self._runs[0].same.get(column), kind), self.length)
        return self.of_runs(column, kind).take(_parents(self._lengths()))

    def numbered(self, kind: pa.DataType) -> pa.Array:
        """Returns the id of each row."""
        # Most numbers are small and occur often, so they are formatted once.
        last = max(run.first + run.length for run in self._runs)
        if last <= _FEW:
            few = pa.array([str(number) for number in range(last)], kind)
            numbers = pa.concat_arrays([few.slice(run.first, run.length) for run in self._runs])
        else:
            numbers = pa.array([str(run.first + at) for run in self._runs for at in range(run.length)], kind)
        return pc.binary_join_element_wise(self.names(kind).take(_parents(self._lengths())), numbers, "")

    def lists(self, column: int) -> pa.Array:
        """Returns the rows' own values, as one list for each run."""
        return pa.ListArray.from_arrays(_ends(self._lengths()), self._all_of(column))

    def of_runs(self, column: int, kind: pa.DataType) -> pa.Array:
        if self._all_same:
            return pa.repeat(pa.scalar(self._runs[0].same.get(column), kind), len(self._runs))
        return pa.array([run.same.get(column) for run in self._runs], kind)

    def names(self, kind: pa.DataType) -> pa.Array:
        return pa.array([run.named for run in self._runs], kind)

    def firsts(self, kind: pa.DataType) -> pa.Array:
        return pa.array([run.first for run in self._runs], kind)

    def _all_of(self, column: int) -> pa.Array:
        parts = self._own[column]
        return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)  # it copies even a single array

    @cached_property
    def _all_same(self) -> bool:
        """Whether all runs share the same values, as those of one queue do. Cached: nothing may be added afterwards."""
        first = self._runs[0].same
        return all(run.same is first or run.same == first for run in self._runs)

    def _lengths(self) -> list[int]:
        return [run.length for run in self._runs]


class Columns:
    """The requested columns of a table, in the requested order."""

    def __init__(self, table: str, wanted: StructType) -> None:
        self._whole = SCHEMAS[table]
        self._schema = pa.schema([pa.field(field.name, _arrow(field.dataType)) for field in wanted.fields])

    def batch(self, rows: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
        columns = list(zip(*rows, strict=True))
        arrays = [self._of_rows(columns, field.name, field.type) for field in self._schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def block(self, block: RunBlock) -> pa.RecordBatch:
        arrays = [self._of_block(block, field.name, field.type) for field in self._schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _of_rows(self, columns: list[tuple[Any, ...]], name: str, kind: pa.DataType) -> pa.Array:
        return _array(columns[self._whole.names.index(name)], kind)

    def _of_block(self, block: RunBlock, name: str, kind: pa.DataType) -> pa.Array:
        return block.numbered(kind) if name == NUMBERED else block.array(self._whole.names.index(name), kind)


class PackedColumns(Columns):
    """The columns with one row for each run; a single row is a run of one."""

    def _of_rows(self, columns: list[tuple[Any, ...]], name: str, kind: pa.DataType) -> pa.Array:
        length = len(columns[0])
        if name == FIRST:
            return pa.nulls(length, kind)
        if not pa.types.is_list(kind):
            return super()._of_rows(columns, name, kind)
        values = super()._of_rows(columns, name, kind.value_type)
        return pa.ListArray.from_arrays(pa.array(range(length + 1), pa.int32()), values)

    def _of_block(self, block: RunBlock, name: str, kind: pa.DataType) -> pa.Array:
        if name == FIRST:
            return block.firsts(kind)
        if name == NUMBERED:
            return block.names(kind)
        column = self._whole.names.index(name)
        return block.lists(column) if pa.types.is_list(kind) else block.of_runs(column, kind)


def fitted_lines(texts: Sequence[str]) -> pa.ListArray | None:
    """Splits each text into lines; None if some are not text, which the caller then finds one by one."""
    try:
        whole = pa.array(texts, pa.string())
    except (TypeError, ValueError):
        return None
    return None if whole.null_count else pc.split_pattern(whole, BREAK)


def fitted_moments(times: Sequence[Any], lengths: Sequence[int]) -> pa.Array | None:
    """Converts times in seconds, one for a whole run or a list with one for each row; None if some are invalid."""
    lists = any(isinstance(time, list) for time in times)
    if lists:
        each = [
            time if isinstance(time, list) else [time] * length for time, length in zip(times, lengths, strict=True)
        ]
        if list(map(len, each)) != lengths:
            return None
        times = list(chain.from_iterable(each))
    if unexpected_types(times, TimestampType()):
        return None  # Arrow accepts true as a number
    try:
        seconds = pa.array(times, pa.float64())
    except ValueError:
        return None
    if seconds.null_count:
        return None
    least, most = pc.min_max(seconds).as_py().values()
    if not is_within(least, most, TimestampType()):
        return None
    return _moments(seconds) if lists else _moments(seconds).take(_parents(lengths))


def _ends(lengths: Sequence[int]) -> pa.Array:
    return pa.array(accumulate(lengths, initial=0), pa.int32())


def _parents(lengths: Sequence[int]) -> pa.Array:
    """Returns for each row the number of its run."""
    return pc.list_parent_indices(pa.ListArray.from_arrays(_ends(lengths), pa.nulls(sum(lengths))))


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    return _moments(pa.array(values, pa.float64())) if kind == _TIME else pa.array(values, kind)


def _moments(seconds: pa.Array) -> pa.Array:
    return pc.round(pc.multiply(seconds, 1e6)).cast(pa.int64()).cast(_TIME)


def _arrow(kind: DataType) -> pa.DataType:
    return pa.list_(_arrow(kind.elementType)) if isinstance(kind, ArrayType) else _ARROW[type(kind)]


_ARROW = {StringType: pa.string(), TimestampType: _TIME, IntegerType: pa.int32(), LongType: pa.int64()}
