"""Everything Holdfast keeps, as Spark tables, read from the state store's own database."""

from __future__ import annotations

try:
    import pyarrow as _pyarrow  # noqa: F401
    import pyspark as _pyspark  # noqa: F401
except ImportError as error:
    raise ImportError("Spark is an extra of Holdfast: pip install 'holdfast[spark]'.") from error

from holdfast.spark.schemas import SCHEMAS, TABLES
from holdfast.spark.snapshot import Snapshot, snapshot
from holdfast.spark.source import HoldfastSource

__all__ = ["SCHEMAS", "TABLES", "HoldfastSource", "Snapshot", "snapshot"]
