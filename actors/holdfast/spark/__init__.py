"""Holdfast's stored state as Spark tables, read from the database of the state store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

try:
    import pyarrow as _pyarrow  # noqa: F401
    import pyspark as _pyspark  # noqa: F401
except ImportError as error:
    raise ImportError("Spark is an extra of Holdfast: pip install 'holdfast[spark]'.") from error

from holdfast.spark.source.schemas import SCHEMAS, TABLES

if TYPE_CHECKING:
    from holdfast.spark.pipeline.series import Series, series
    from holdfast.spark.snapshots import Snapshot, snapshot
    from holdfast.spark.source.source import HoldfastSource

__all__ = ["SCHEMAS", "TABLES", "HoldfastSource", "Series", "Snapshot", "series", "snapshot"]


def __getattr__(name: str) -> Any:
    # Imported on use: the processes that Spark starts to plan a load need none of it.
    if name in ("Snapshot", "snapshot"):
        from holdfast.spark import snapshots

        return getattr(snapshots, name)
    if name in ("Series", "series"):
        from holdfast.spark.pipeline import series as archive

        return getattr(archive, name)
    if name == "HoldfastSource":
        from holdfast.spark.source.source import HoldfastSource

        return HoldfastSource
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
