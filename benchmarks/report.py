"""The results of all benchmarks as a table and as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.measure import Figure


class Compared(Enum):
    """How our figure is held against the peer's."""

    #: So many times the peer's; more is better.
    AS_RATE = "as rate"
    #: So many times the peer's; less is better.
    AS_LATENCY = "as latency"
    #: So much more than the peer's; less is better.
    AS_GROWTH = "as growth"


class Verdict(Enum):
    GOAL = "goal reached"
    FLOOR = "floor held"
    MISSED = "FLOOR MISSED"
    NONE = ""


@dataclass(frozen=True)
class Row:
    """A row of the table: our figure and a peer's for the same work, and the required ratio."""

    work: str
    ours: Figure
    peer: Figure
    compared: Compared = Compared.AS_RATE
    #: What must hold, and what we are going for. None where nothing was promised.
    floor: float | None = None
    goal: float | None = None

    @property
    def value(self) -> float:
        if self.compared is Compared.AS_GROWTH:
            return self.ours.median - self.peer.median
        return self.ours.median / self.peer.median

    @property
    def verdict(self) -> Verdict:
        if self.goal is not None and self._reaches(self.goal):
            return Verdict.GOAL
        if self.floor is None:
            return Verdict.NONE
        return Verdict.FLOOR if self._reaches(self.floor) else Verdict.MISSED

    def _reaches(self, limit: float) -> bool:
        return self.value >= limit if self.compared is Compared.AS_RATE else self.value <= limit

    def shown(self, value: float | None) -> str:
        """A value of this row's comparison, as people read it."""
        if value is None:
            return ""
        if self.compared is Compared.AS_GROWTH:
            return f"{value:+,.0f}{self.ours.unit}"
        return f"{value:,.1f}x" if value >= 2 else f"{value:,.2f}x"

    def as_json(self) -> dict[str, Any]:
        return {
            "work": self.work,
            "ours": _figure_as_json(self.ours),
            "peer": _figure_as_json(self.peer),
            "compared": self.compared.value,
            "value": self.value,
            "floor": self.floor,
            "goal": self.goal,
            "verdict": self.verdict.value,
        }


_STYLES = {Verdict.GOAL: "green", Verdict.FLOOR: "green", Verdict.MISSED: "bold red", Verdict.NONE: ""}


def table(rows: Sequence[Row]) -> Table:
    shown = Table(caption="Medians of all rounds; ± is half the way from the lowest round to the highest.")
    shown.add_column("work", ratio=3)
    shown.add_column("ours", ratio=2)
    shown.add_column("peer", ratio=2)
    for name in ("ratio", "floor", "goal"):
        shown.add_column(name, justify="right", no_wrap=True)
    shown.add_column("verdict", no_wrap=True)
    for row in rows:
        shown.add_row(
            row.work,
            _shown(row.ours),
            _shown(row.peer),
            row.shown(row.value),
            row.shown(row.floor),
            row.shown(row.goal),
            row.verdict.value,
            style=_STYLES[row.verdict] if row.verdict is Verdict.MISSED else "",
            end_section=True,
        )
    return shown


def summary(rows: Sequence[Row]) -> str:
    """Returns a sentence that says which floors were met."""
    missed = [row.work for row in rows if row.verdict is Verdict.MISSED]
    floors = sum(row.floor is not None for row in rows)
    if missed:
        return f"Floors MISSED: {len(missed)} of {floors}: {'; '.join(missed)}."
    return f"Floors held: {floors} of {floors}." if floors else "No floor was measured."


def _shown(figure: Figure) -> str:
    number = f"{figure.median:,.0f}" if figure.median >= 100 else f"{figure.median:,.1f}"
    spread = f" ±{figure.spread:.0%}" if len(figure.samples) > 1 else ""
    return f"{figure.subject}\n{number}{figure.unit}{spread}"


def _figure_as_json(figure: Figure) -> dict[str, Any]:
    return {**asdict(figure), "median": figure.median, "spread": figure.spread}
