"""Reads one table: plans the tasks, and runs each of them."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from holdfast.spark.source.schemas import check_columns
from holdfast.spark.stores.open import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from holdfast.spark.decode.arrow import Columns
    from holdfast.spark.decode.tables import Table
    from holdfast.spark.source.options import Options
    from holdfast.spark.stores.base import Range, Store


@dataclass
class TablePartition(InputPartition):
    """The range of rows that one task reads."""

    within: Range


class TableReader(DataSourceReader):
    """The batch reader of the data source."""

    # No pushFilters: with it Spark 4.3.0 returns wrong rows when a DataFrame is used again. Options filter instead.

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        check_columns(options.table, schema, options.schema)

    def partitions(self) -> list[InputPartition]:
        with open_store(self._options) as store:
            return [TablePartition(within) for within in store.ranges()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Imported here, since the import takes longer than planning the tasks.
        from holdfast.spark.decode.arrow import Columns, PackedColumns
        from holdfast.spark.decode.problems import problems_of

        assert isinstance(partition, TablePartition)
        form = PackedColumns if self._options.packed else Columns
        columns = form(self._options.table, self._schema)
        with open_store(self._options) as store:
            _freeze_imports()
            if self._options.table == "problems":
                found = problems_of(store, self._options, partition.within)
                yield from (columns.batch(rows) for rows in found if rows)
            else:
                yield from self._read(store, partition.within, columns)

    def _read(self, store: Store, within: Range, columns: Columns) -> Iterator[pa.RecordBatch]:
        from holdfast.spark.decode.arrow import BATCH_BYTES
        from holdfast.spark.decode.decoder import Decoder, ProblemCounter
        from holdfast.spark.decode.tables import TABLES

        tally = ProblemCounter(self._options.table)
        table = TABLES[self._options.table](self._options, store.as_of)
        decoder = Decoder(store, table, tally.add)
        rows: list[tuple[Any, ...]] = []
        for some in decoder.decode(within):
            rows += some
            if decoder.bytes_read >= BATCH_BYTES:
                yield from _batches(table, columns, rows)
                rows = []
                decoder.bytes_read = 0
        yield from _batches(table, columns, rows)
        tally.tell()


@cache
def _freeze_imports() -> None:
    """Excludes modules from garbage collection, which Spark's Python processes run after every task."""
    gc.freeze()


def _batches(table: Table, columns: Columns, rows: list[tuple[Any, ...]]) -> Iterator[pa.RecordBatch]:
    if rows:
        yield columns.batch(rows)
    if table.block.length:
        yield columns.block(table.take_block())
