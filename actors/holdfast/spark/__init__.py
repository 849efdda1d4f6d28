"""Everything Holdfast keeps, as Spark tables, read from the state store's own database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

try:
    import pyarrow as _pyarrow  # noqa: F401
    import pyspark as _pyspark  # noqa: F401
except ImportError as error:
    raise ImportError("Spark is an extra of Holdfast: pip install 'holdfast[spark]'.") from error

from holdfast.spark.schemas import SCHEMAS, TABLES

if TYPE_CHECKING:
    from holdfast.spark.archive import Series, series
    from holdfast.spark.snapshots import Snapshot, snapshot
    from holdfast.spark.source import HoldfastSource

__all__ = ["SCHEMAS", "TABLES", "HoldfastSource", "Series", "Snapshot", "series", "snapshot"]


def __getattr__(name: str) -> Any:
    # The processes that Spark starts to plan a load want none of it.
    if name in ("Snapshot", "snapshot"):
        from holdfast.spark import snapshots

        return getattr(snapshots, name)
    if name in ("Series", "series"):
        from holdfast.spark import archive

        return getattr(archive, name)
    if name == "HoldfastSource":
        from holdfast.spark.source import HoldfastSource

        return HoldfastSource
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
