"""The interface of a benchmark, and its settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.measure import Pace
    from benchmarks.report import Row
    from benchmarks.stacks import Stacks


@dataclass(frozen=True)
class Lab:
    """Where a benchmark finds its subjects, how long it may measure, and whom it tells what it does."""

    stacks: Stacks
    pace: Pace
    quick: bool
    tell: Callable[[str], None]
    #: How long the benchmark with steady load runs.
    minutes: float = 5.0
    #: How many instances the benchmark of lists has; fewer in a quick run.
    instances: int = 100_000


class Bench(Protocol):
    """A module with this function; the first line of its docstring is what ``--list`` shows."""

    __doc__: str | None

    async def run(self, lab: Lab) -> Sequence[Row]: ...
