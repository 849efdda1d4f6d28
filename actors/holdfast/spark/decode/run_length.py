"""Packs items into runs: one row for many items that share most values, which Spark expands in compiled code.

Spark converts rows from Arrow value by value, which costs more than the queries that follow. In a run, shared values
are converted once; differing values are lists, and ids are a prefix and a number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.types import ArrayType, LongType, StructField, StructType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: The columns in which each item has its own value; the first requested one gives the length of the run.
LISTED = ("item", "enqueued_at")
#: The column whose values are a shared prefix and consecutive numbers.
NUMBERED = "id"
#: The column with the first of these numbers; null in a run of one, whose prefix is the whole id.
FIRST = "first"

_NUMBER, _EACH = "number", "each"


def can_be_packed(table: str, wanted: StructType) -> bool:
    return table == "items" and any(name in wanted.names for name in LISTED)


def packed_schema(wanted: StructType) -> StructType:
    """Returns the schema of a run whose items have these columns."""
    fields = [
        StructField(field.name, ArrayType(field.dataType)) if field.name in LISTED else field for field in wanted.fields
    ]
    return StructType([*fields, StructField(FIRST, LongType())] if NUMBERED in wanted.names else fields)


def explode_runs(runs: DataFrame, wanted: StructType) -> DataFrame:
    """Expands runs into one row for each item."""
    leading = next(name for name in LISTED if name in wanted.names)

    def of_item(name: str) -> str:
        if name == leading:
            return _EACH
        if name in LISTED:
            return f"get({name}, {_NUMBER})"
        if name == NUMBERED:
            return f"concat({name}, coalesce(cast({FIRST} + {_NUMBER} AS string), ''))"
        return f"`{name}`"

    # As SQL text, since building Column objects takes many calls to the JVM.
    items = runs.selectExpr("*", f"posexplode({leading}) AS ({_NUMBER}, {_EACH})")
    return items.selectExpr(*(f"{of_item(name)} AS `{name}`" for name in wanted.names))
