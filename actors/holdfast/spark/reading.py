"""Reads one table: plans the tasks, and does what each of them has to do."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from holdfast.spark.schemas import check_columns
from holdfast.spark.stores import opened

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from holdfast.spark.batches import Columns
    from holdfast.spark.options import Options
    from holdfast.spark.store import Range, Store
    from holdfast.spark.tables import Table


@dataclass
class Part(InputPartition):
    """What one task reads."""

    within: Range


class TableReader(DataSourceReader):
    # No pushFilters: with it Spark 4.3.0 answers wrongly when a DataFrame is used again. Options narrow what is read.

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        check_columns(options.table, schema, options.schema)

    def partitions(self) -> list[InputPartition]:
        with opened(self._options) as store:
            return [Part(within) for within in store.ranges()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Not where tasks are planned: it takes longer than the plan.
        from holdfast.spark.batches import Columns, PackedColumns
        from holdfast.spark.problems import problems_of

        assert isinstance(partition, Part)
        form = PackedColumns if self._options.packed else Columns
        columns = form(self._options.table, self._schema)
        with opened(self._options) as store:
            _keep_what_is_imported()
            if self._options.table == "problems":
                found = problems_of(store, self._options, partition.within)
                yield from (columns.batch(rows) for rows in found if rows)
            else:
                yield from self._read(store, partition.within, columns)

    def _read(self, store: Store, within: Range, columns: Columns) -> Iterator[pa.RecordBatch]:
        from holdfast.spark.batches import BATCH_BYTES
        from holdfast.spark.rows import Decoder, Tally
        from holdfast.spark.tables import TABLES

        tally = Tally(self._options.table)
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
def _keep_what_is_imported() -> None:
    """Spark's Python processes collect garbage after every task: modules, which are none, need not be gone through."""
    gc.freeze()


def _batches(table: Table, columns: Columns, rows: list[tuple[Any, ...]]) -> Iterator[pa.RecordBatch]:
    if rows:
        yield columns.batch(rows)
    if table.block.length:
        yield columns.block(table.take_block())
