"""Counts values between fixed bounds."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, Row


@dataclass(frozen=True)
class Bucket:
    label: str
    #: The range in words, for the tooltip.
    caption: str
    count: int


class Scale:
    """Bounds and their labels, lowest first: a value is counted under the first bound above it."""

    def __init__(self, *bounds: tuple[float, str], last: str = "more") -> None:
        self._bounds = bounds
        self._last = last

    def columns(self, value: Column, prefix: str) -> list[Column]:
        """One count for each bucket, all of one pass."""
        below = [bound for bound, _ in self._bounds]
        inside = [value < bound for bound in below[:1]]
        inside += [(value >= low) & (value < high) for low, high in pairwise(below)]
        inside.append(value >= below[-1])
        return [F.count_if(condition).alias(f"{prefix}_{number}") for number, condition in enumerate(inside)]

    def read(self, row: Row, prefix: str) -> list[Bucket]:
        labels = [label for _, label in self._bounds]
        caption = [labels[0], *(f"{low} to {high}" for low, high in pairwise(labels)), self._last]
        return [
            Bucket(label, words, row[f"{prefix}_{number}"])
            for number, (label, words) in enumerate(zip([*labels, self._last], caption, strict=True))
        ]
