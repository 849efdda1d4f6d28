"""Items in runs: one row for many that have most in common, which Spark takes apart where it has compiled code for it.

Spark takes rows out of Arrow value by value, which costs more than what is done with them afterwards. Of a run, what
its items share is taken out once; lists have what differs, and ids are a beginning and a number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.types import ArrayType, LongType, StructField, StructType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: What each item of a run has of its own; the first that is wanted says how many there are.
LISTED = ("item", "enqueued_at")
#: What begins the same for all of them, and ends with numbers that follow each other from the first one on.
NUMBERED = "id"
#: Which is null where the beginning is all there is: a run of one.
FIRST = "first"

_NUMBER, _EACH = "number", "each"


def can_be_packed(table: str, wanted: StructType) -> bool:
    return table == "items" and any(name in wanted.names for name in LISTED)


def packed(wanted: StructType) -> StructType:
    """What a row for a run has, if these columns are wanted of its items."""
    fields = [
        StructField(field.name, ArrayType(field.dataType)) if field.name in LISTED else field for field in wanted.fields
    ]
    return StructType([*fields, StructField(FIRST, LongType())] if NUMBERED in wanted.names else fields)


def unpacked(runs: DataFrame, wanted: StructType) -> DataFrame:
    """A row for each item."""
    leading = next(name for name in LISTED if name in wanted.names)

    def of_item(name: str) -> str:
        if name == leading:
            return _EACH
        if name in LISTED:
            return f"get({name}, {_NUMBER})"
        if name == NUMBERED:
            return f"concat({name}, coalesce(cast({FIRST} + {_NUMBER} AS string), ''))"
        return f"`{name}`"

    # As text: to make a column of each part is a call of the JVM, and there are many of them.
    items = runs.selectExpr("*", f"posexplode({leading}) AS ({_NUMBER}, {_EACH})")
    return items.selectExpr(*(f"{of_item(name)} AS `{name}`" for name in wanted.names))
