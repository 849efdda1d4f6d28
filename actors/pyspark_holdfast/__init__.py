"""Registers the data source: Spark imports modules named ``pyspark_*`` and uses their ``DefaultSource``."""

from __future__ import annotations

from holdfast.spark.source.source import HoldfastSource as DefaultSource

__all__ = ["DefaultSource"]
