"""Rows as Arrow batches of about the same size, in the types that Spark wants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import IntegerType, LongType, StringType, TimestampType

from holdfast.errors import InvalidRequest
from holdfast.spark.schemas import SCHEMAS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql.types import StructType

BATCH_BYTES = 2 * 1024 * 1024

_TIME = pa.timestamp("us", tz="UTC")


class Columns:
    """Those of a table that are wanted, in the order in which they are wanted."""

    def __init__(self, table: str, wanted: StructType) -> None:
        """Raises InvalidRequest for what the table does not have."""
        whole = SCHEMAS[table]
        for field in wanted.fields:
            if field.name not in whole.names or whole[field.name].dataType != field.dataType:
                raise InvalidRequest(f"The table {table} is {whole.simpleString()}, or some of these columns.")
        self._columns = [(whole.names.index(field.name), _ARROW[type(field.dataType)]) for field in wanted.fields]
        self._schema = pa.schema([pa.field(field.name, _ARROW[type(field.dataType)]) for field in wanted.fields])

    def batch(self, rows: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
        columns = list(zip(*rows, strict=True))
        arrays = [_array(columns[number], kind) for number, kind in self._columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    if kind != _TIME:
        return pa.array(values, kind)
    microseconds = pc.round(pc.multiply(pa.array(values, pa.float64()), 1e6))
    return microseconds.cast(pa.int64()).cast(_TIME)


_ARROW = {StringType: pa.string(), TimestampType: _TIME, IntegerType: pa.int32(), LongType: pa.int64()}
