"""Rows as Arrow batches of about the same size, in the types that Spark wants."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import IntegerType, LongType, StringType, TimestampType

from holdfast.spark.schemas import SCHEMAS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql.types import StructType

BATCH_BYTES = 2 * 1024 * 1024

_TIME = pa.timestamp("us", tz="UTC")
_FEW = 10_000


class Block:
    """Rows in columns: in some each row has its own value, one has names with a number, the others runs of the same."""

    def __init__(self) -> None:
        self.length = 0
        self._values: dict[int, list[Any]] = {}
        self._numbered: dict[int, list[tuple[str, int, int]]] = {}
        self._runs: list[tuple[dict[int, Any], int]] = []

    def add(
        self, length: int, own: dict[int, list[Any]], numbered: dict[int, tuple[str, int]], same: dict[int, Any]
    ) -> None:
        """So many rows more. It is always the same columns that have values of their own, and that are numbered.

        What is numbered has a beginning that is the same, and the first of the numbers.
        """
        self.length += length
        for column, values in own.items():
            self._values.setdefault(column, []).extend(values)
        for column, (name, first) in numbered.items():
            self._numbered.setdefault(column, []).append((name, first, length))
        if self._runs and self._runs[-1][0] == same:
            self._runs[-1] = (same, self._runs[-1][1] + length)
        else:
            self._runs.append((same, length))

    def array(self, column: int, kind: pa.DataType) -> pa.Array:
        if column in self._values:
            return _array(self._values[column], kind)
        if column in self._numbered:
            return _numbered(self._numbered[column], kind)
        return pa.concat_arrays(
            [
                pa.repeat(pa.scalar(same[column], kind), count) if column in same else pa.nulls(count, kind)
                for same, count in self._runs
            ]
        )


class Columns:
    """Those of a table that are wanted, in the order in which they are wanted."""

    def __init__(self, table: str, wanted: StructType) -> None:
        whole = SCHEMAS[table]
        self._columns = [(whole.names.index(field.name), _ARROW[type(field.dataType)]) for field in wanted.fields]
        self._schema = pa.schema([pa.field(field.name, _ARROW[type(field.dataType)]) for field in wanted.fields])

    def batch(self, rows: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
        columns = list(zip(*rows, strict=True))
        arrays = [_array(columns[number], kind) for number, kind in self._columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def block(self, block: Block) -> pa.RecordBatch:
        arrays = [block.array(number, kind) for number, kind in self._columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    if kind != _TIME:
        return pa.array(values, kind)
    microseconds = pc.round(pc.multiply(pa.array(values, pa.float64()), 1e6))
    return microseconds.cast(pa.int64()).cast(_TIME)


def _numbered(runs: list[tuple[str, int, int]], kind: pa.DataType) -> pa.Array:
    # Most numbers are small, and the same ones again and again.
    last = max(first + count for _, first, count in runs)
    if last <= _FEW:
        few = pa.array([str(number) for number in range(last)], kind)
        numbers = pa.concat_arrays([few.slice(first, count) for _, first, count in runs])
    else:
        numbers = pa.array([str(first + at) for _, first, count in runs for at in range(count)], kind)
    ends = pa.array(accumulate((count for _, _, count in runs), initial=0), pa.int32())
    names = pa.array([name for name, _, _ in runs], kind)
    of_each = pc.list_parent_indices(pa.ListArray.from_arrays(ends, numbers))
    return pc.binary_join_element_wise(names.take(of_each), numbers, "")


_ARROW = {StringType: pa.string(), TimestampType: _TIME, IntegerType: pa.int32(), LongType: pa.int64()}
