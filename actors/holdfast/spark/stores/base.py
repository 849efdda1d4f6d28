"""The interface of a database to the reader: rows of a range, values by key, and ranges of about equal size."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType
    from typing import Self

    from holdfast.spark.source.options import Options

#: The weight of a row that is not read.
PASSED_BYTES = 50
# Smaller ranges are not worth a task of their own.
_RANGE_BYTES = 4 * 1024 * 1024


class Row(NamedTuple):
    key: str
    #: JSON.
    value: bytes


@dataclass(frozen=True, slots=True)
class Range:
    """The rows from ``first`` up to, but not including, ``end``; without an end, all that follow."""

    first: int = 0
    end: int | None = None


#: Parts of a key in their order, with any text in between; the key begins with the first.
Pattern: TypeAlias = tuple[str, ...]


class Store(Protocol):
    """A consistent view of one table at one point in time, until it is closed."""

    #: Unix seconds.
    as_of: float

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def ranges(self) -> list[Range]:
        """Returns as many ranges as the options set, or as the size justifies: at most one per core."""
        ...

    def scan(self, within: Range, patterns: Sequence[Pattern]) -> Iterator[Row]:
        """Yields the rows that have not expired and whose keys match a pattern."""
        ...

    def keys(self, within: Range) -> Iterator[str]:
        """Yields the keys of all rows that have not expired."""
        ...

    def lineage(self) -> str:
        """Identifies the database whose positions can be compared; changes when the data moves to another one."""
        ...

    def position(self) -> int:
        """Returns the current position in the order of writes, for :meth:`changed`."""
        ...

    def changed(self, since: int, patterns: Sequence[Pattern]) -> Iterator[Row]:
        """Yields the rows written since a position, and possibly some older ones."""
        ...

    def present(self, keys: Sequence[str]) -> set[str]:
        """Returns the keys whose values exist and have not expired."""
        ...

    def lookup(self, keys: Sequence[str]) -> dict[str, bytes]:
        """Returns the values, by key, that exist and have not expired."""
        ...


def part_of_key(options: Options) -> str:
    """Returns a text that all keys of the table's actors contain."""
    return f"||{options.made_by}||" if options.made_by else "||"


def split(weights: Sequence[tuple[int, float]], options: Options) -> list[Range]:
    """Splits rows into ranges of about equal weight; ``weights`` are (first row, weight) pairs."""
    total = sum(weight for _, weight in weights)
    # Ranges take about equally long, so more of them than cores would only add start-up costs.
    cores = options.cores or os.cpu_count() or 1
    parts = options.partitions or max(1, min(cores, int(total // _RANGE_BYTES)))
    ranges: list[Range] = []
    first, gathered = 0, 0.0
    for start, weight in weights:
        # It belongs to the range that contains its middle.
        if len(ranges) + 1 < parts and start > first and gathered + weight / 2 >= total * (len(ranges) + 1) / parts:
            ranges.append(Range(first, start))
            first = start
        gathered += weight
    return [*ranges, Range(first)]
