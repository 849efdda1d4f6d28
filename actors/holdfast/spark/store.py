"""What the reader wants of a database: rows of a range, values by their keys, and ranges of about the same size."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType
    from typing import Self

    from holdfast.spark.options import Options

#: What a row weighs that is passed over.
PASSED_BYTES = 50
# A range that is smaller is not worth a task of its own.
_RANGE_BYTES = 4 * 1024 * 1024


class Row(NamedTuple):
    key: str
    #: JSON.
    value: bytes


@dataclass(frozen=True, slots=True)
class Range:
    """Rows from here on, up to there; without an end it has all that come after."""

    first: int = 0
    end: int | None = None


#: Parts of a key that follow each other, with anything in between; the first begins it.
Pattern: TypeAlias = tuple[str, ...]


class Store(Protocol):
    """One point in time of one table, until it is closed."""

    #: Unix seconds.
    as_of: float

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def ranges(self) -> list[Range]:
        """As many as the options ask for, or the size is worth: up to one for each core."""
        ...

    def scan(self, within: Range, patterns: Sequence[Pattern]) -> Iterator[Row]:
        """The rows that have not expired and whose keys match one of these."""
        ...

    def keys(self, within: Range) -> Iterator[str]:
        """Those of all rows that have not expired."""
        ...

    def lineage(self) -> str:
        """Within what positions can be compared: another after the data has moved to another database."""
        ...

    def position(self) -> int:
        """Where it is in the order of what is written, for :meth:`changed`."""
        ...

    def changed(self, since: int, patterns: Sequence[Pattern]) -> Iterator[Row]:
        """The rows that were written since then, and perhaps some more."""
        ...

    def present(self, keys: Sequence[str]) -> set[str]:
        """Those of them whose values exist and have not expired."""
        ...

    def lookup(self, keys: Sequence[str]) -> dict[str, bytes]:
        """The values that exist and have not expired."""
        ...


def part_of_key(options: Options) -> str:
    """What the keys have in them that a table is made of."""
    return f"||{options.made_by}||" if options.made_by else "||"


def split(weights: Sequence[tuple[int, float]], options: Options) -> list[Range]:
    """Ranges that weigh about the same, of the first numbers of stretches and what each weighs."""
    total = sum(weight for _, weight in weights)
    # They take as long as each other, so with more of them than cores each core has to begin more often, no more.
    cores = options.cores or os.cpu_count() or 1
    parts = options.partitions or max(1, min(cores, int(total // _RANGE_BYTES)))
    ranges: list[Range] = []
    first, gathered = 0, 0.0
    for start, weight in weights:
        # It goes to the range that its middle lies in.
        if len(ranges) + 1 < parts and start > first and gathered + weight / 2 >= total * (len(ranges) + 1) / parts:
            ranges.append(Range(first, start))
            first = start
        gathered += weight
    return [*ranges, Range(first)]
