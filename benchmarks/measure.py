"""Fair measurements on a noisy machine: the subjects take turns in rounds, and medians count."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from benchmarks.load import Load


@dataclass(frozen=True, slots=True)
class Pace:
    """How often and for how many seconds each subject is measured."""

    rounds: int
    seconds: float
    warm_up: float


FULL = Pace(rounds=5, seconds=3.0, warm_up=1.5)
QUICK = Pace(rounds=3, seconds=1.0, warm_up=0.5)


@dataclass(frozen=True)
class Figure:
    """The measurements of a subject, round by round."""

    subject: str
    unit: str
    samples: tuple[float, ...]
    #: The most of one core that the load generator took meanwhile.
    generator_share: float = 0.0

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    @property
    def spread(self) -> float:
        """Half the way from the lowest to the highest, as a share of the median."""
        return (max(self.samples) - min(self.samples)) / 2 / self.median if self.median else 0.0


async def rates(
    subjects: Mapping[str, Callable[[float], Awaitable[Load]]], pace: Pace, tell: Callable[[str], None]
) -> dict[str, Figure]:
    """Calls a second, measured in rounds: A B C A B C …, so that what else the machine does meets all alike.

    A subject is called with the seconds it shall work, and once more before, unmeasured, to warm up.
    """
    loads: dict[str, list[Load]] = {name: [] for name in subjects}
    for name, work in subjects.items():
        tell(f"{name}: warming up")
        await work(pace.warm_up)
    for number in range(1, pace.rounds + 1):
        for name, work in subjects.items():
            tell(f"{name}: round {number} of {pace.rounds}")
            loads[name].append(await work(pace.seconds))
    return {
        name: Figure(name, "/s", tuple(load.rate for load in taken), max(load.generator_share for load in taken))
        for name, taken in loads.items()
    }
