"""Rows as Arrow batches of about the same size, in the types that Spark wants."""

from __future__ import annotations

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


class Block:
    """Rows in columns: in some each row has its own value, the others have runs of the same."""

    def __init__(self) -> None:
        self.length = 0
        self._values: dict[int, list[Any]] = {}
        self._runs: dict[int, list[tuple[Any, int]]] = {}

    def add(self, length: int, own: dict[int, list[Any]], same: dict[int, Any]) -> None:
        """So many rows more. The columns that have their own values are always the same ones."""
        self.length += length
        for column, values in own.items():
            self._values.setdefault(column, []).extend(values)
        for column, value in same.items():
            runs = self._runs.setdefault(column, [])
            if runs and runs[-1][0] == value:
                runs[-1] = (value, runs[-1][1] + length)
            else:
                runs.append((value, length))

    def array(self, column: int, kind: pa.DataType) -> pa.Array:
        if column in self._values:
            return _array(self._values[column], kind)
        if column not in self._runs:
            return pa.nulls(self.length, kind)
        return pa.concat_arrays([pa.repeat(pa.scalar(value, kind), count) for value, count in self._runs[column]])


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


_ARROW = {StringType: pa.string(), TimestampType: _TIME, IntegerType: pa.int32(), LongType: pa.int64()}
