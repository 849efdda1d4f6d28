"""Whether values are what their columns hold: Arrow refuses a whole batch because of one that is not."""

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
# What Arrow, Spark and Python's own datetime can all hold.
_BOUNDS: dict[type[DataType], tuple[float, float]] = {
    TimestampType: (
        datetime(1, 1, 2, tzinfo=UTC).timestamp(),
        datetime(9999, 12, 31, tzinfo=UTC).timestamp(),
    ),
    IntegerType: (-(2**31), 2**31 - 1),
    LongType: (-(2**63), 2**63 - 1),
}


def misfit(values: Sequence[Any], kind: DataType) -> str | None:
    """What is wrong with some of these values of a column; None when nothing is."""
    if strange := strangers(values, kind):
        return f"a {min(each.__name__ for each in strange)}"
    if type(kind) not in _BOUNDS:
        return None
    numbers = [value for value in values if value is not None]
    return "out of range" if numbers and not is_within(min(numbers), max(numbers), kind) else None


def strangers(values: Sequence[Any], kind: DataType) -> set[type]:
    """The types among these values that such a column has not."""
    # The exact types: true is no number.
    return set(map(type, values)) - _KINDS[type(kind)]


def is_within(least: float, most: float, kind: DataType) -> bool:
    """Whether such a column of numbers can hold these two, and so all between them."""
    first, last = _BOUNDS[type(kind)]
    return first <= least and most <= last


def fitting(
    rows: list[tuple[Any, ...]], schema: StructType, on_problem: Callable[[StorageBroken], None]
) -> list[tuple[Any, ...]]:
    """The rows that can be shown in a table of this schema; of each that cannot is told why."""
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
            on_problem(StorageBroken(f"What it holds is not as Holdfast writes it: {', '.join(wrong)}."))
        else:
            found.append(row)
    return found
