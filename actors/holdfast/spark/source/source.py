"""The data source ``holdfast``, which Spark loads first. Readers are imported when they are used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from holdfast.spark.source.options import Options

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader
    from pyspark.sql.types import StructType


class HoldfastSource(DataSource):
    """``spark.read.format("holdfast").option("url", …).option("table", …).load()``"""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._options = Options.read(dict(options))

    @classmethod
    def name(cls) -> str:
        return "holdfast"

    def schema(self) -> StructType:
        return self._options.schema

    def reader(self, schema: StructType) -> DataSourceReader:
        from holdfast.spark.source.reader import TableReader

        return TableReader(self._options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from holdfast.spark.source.stream import HistoryStream

        return HistoryStream(self._options, schema)
