"""Checks values against the types of their columns: Arrow rejects a whole batch because of one wrong value."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import DataType, IntegerType, LongType, StringType, TimestampType

from holdfast.errors import StorageBroken

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql.types import StructType

_NULL = type(None)
_KINDS: dict[type[DataType], set[type]] = {
    StringType: {str, _NULL},
    TimestampType: {float, int, _NULL},
    IntegerType: {int, _NULL},
    LongType: {int, _NULL},
}
# The ranges that Arrow, Spark and Python's datetime all support.
_BOUNDS: dict[type[DataType], tuple[float, float]] = {
    TimestampType: (
        datetime(1, 1, 2, tzinfo=UTC).timestamp(),
        datetime(9999, 12, 31, tzinfo=UTC).timestamp(),
    ),
    IntegerType: (-(2**31), 2**31 - 1),
    LongType: (-(2**63), 2**63 - 1),
}


def misfit(values: Sequence[Any], kind: DataType) -> str | None:
    """Describes what is wrong with values of a column; None if all are valid."""
    if strange := unexpected_types(values, kind):
        return f"a {min(each.__name__ for each in strange)}"
    if type(kind) not in _BOUNDS:
        return None
    numbers = [value for value in values if value is not None]
    return "out of range" if numbers and not is_within(min(numbers), max(numbers), kind) else None


def unexpected_types(values: Sequence[Any], kind: DataType) -> set[type]:
    """Returns the types among the values that the column does not accept."""
    # Exact types: true is not a number.
    return set(map(type, values)) - _KINDS[type(kind)]


def is_within(least: float, most: float, kind: DataType) -> bool:
    """Returns whether both bounds, and so all values between them, fit the column."""
    first, last = _BOUNDS[type(kind)]
    return first <= least and most <= last


def valid_rows(
    rows: list[tuple[Any, ...]], schema: StructType, on_problem: Callable[[StorageBroken], None]
) -> list[tuple[Any, ...]]:
    """Returns the rows that fit the schema; calls ``on_problem`` with the reason for each other row."""
    columns = zip(zip(*rows, strict=True), schema.fields, strict=True)
    if not any(misfit(values, field.dataType) for values, field in columns):
        return rows
    found = []
    for row in rows:
        wrong = [
            f"{field.name} is {what}"
            for value, field in zip(row, schema.fields, strict=True)
            if (what := misfit((value,), field.dataType))
        ]
        if wrong:
            on_problem(StorageBroken(f"The value is not in Holdfast's format: {', '.join(wrong)}."))
        else:
            found.append(row)
    return found
