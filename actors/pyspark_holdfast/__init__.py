"""Where Spark looks for data sources that register by themselves: modules named so, with a ``DefaultSource``."""

from __future__ import annotations

from holdfast.spark.source import HoldfastSource as DefaultSource

__all__ = ["DefaultSource"]
