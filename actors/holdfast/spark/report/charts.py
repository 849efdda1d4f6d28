"""Plots as SVG without scripts: places across are in percent, so that they fit a phone and their words stay legible."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.spark.report.markup import Markup, element
from holdfast.spark.report.words import number

if TYPE_CHECKING:
    from collections.abc import Sequence

_COLUMNS_HIGH = 150.0
_HEADROOM = 20.0
_FLOOR = 22.0
_BAR_HIGH = 18.0
# What is there is seen, however small beside the largest.
_LEAST = 0.6


@dataclass(frozen=True)
class Part:
    """A piece of a bar: its class says what it is and gives it its colour."""

    value: float
    kind: str
    told: str


@dataclass(frozen=True)
class Spread:
    p50: float
    p95: float
    p99: float
    longest: float


def bar(parts: Sequence[Part], most: float) -> Markup:
    """Parts side by side, on a scale that other bars share."""
    shown = [part for part in parts if part.value > 0]
    widths = [max(_LEAST, 100 * part.value / most) for part in shown]
    # Many small parts that are made visible must not push the last one out.
    scale = min(1.0, 100 / sum(widths)) if widths else 1.0
    drawn, left = [], 0.0
    for part, width in zip(shown, widths, strict=True):
        drawn.append(
            element(
                "rect",
                element("title", part.told),
                class_=f"part {part.kind}",
                x=f"{left:.2f}%",
                width=f"{width * scale:.2f}%",
                height="100%",
            )
        )
        left += width * scale
    return element("svg", *drawn, class_="bar", width="100%", height=_BAR_HIGH, role="img", aria_label=_read(shown))


def columns(
    labels: Sequence[str], values: Sequence[int], told: Sequence[str], kinds: Sequence[str], name: str
) -> Markup:
    """A histogram: each column with its number above and its label below."""
    most = max(1, *values)
    room = 100 / len(values)
    floor = _COLUMNS_HIGH + _HEADROOM
    drawn = [element("line", class_="floor", x1="0", x2="100%", y1=floor, y2=floor)]
    for place, (label, value, words, kind) in enumerate(zip(labels, values, told, kinds, strict=True)):
        high = max(2.0, _COLUMNS_HIGH * value / most) if value else 0.0
        middle = f"{room * (place + 0.5):.2f}%"
        drawn.append(
            element(
                "g",
                element("title", words),
                element("rect", class_="sense", x=f"{room * place:.2f}%", width=f"{room:.2f}%", y=0, height=floor),
                element(
                    "rect",
                    class_=f"part {kind}",
                    x=f"{room * (place + 0.14):.2f}%",
                    width=f"{room * 0.72:.2f}%",
                    y=floor - high,
                    height=high,
                    rx=2,
                ),
                element("text", short(value), class_="value", x=middle, y=floor - high - 6) if value else None,
                element("text", label, class_="label", x=middle, y=floor + 16),
            )
        )
    return element("svg", *drawn, class_="columns", width="100%", height=floor + _FLOOR, role="img", aria_label=name)


class LogScale:
    """Lengths of time of any size beside each other, from left to right."""

    _TICKS = (0.001, 0.01, 0.1, 1, 10, 60, 600, 3600, 6 * 3600, 86400, 7 * 86400, 30 * 86400, 365 * 86400)

    def __init__(self, values: Sequence[float]) -> None:
        there = [max(value, 0.0005) for value in values]
        self._low = max((tick for tick in self._TICKS if tick <= min(there)), default=0.0004)
        self._high = min((tick for tick in self._TICKS if tick >= max(there)), default=max(there) * 1.2)
        if self._high <= self._low:
            self._high = self._low * 10

    def place(self, value: float) -> float:
        """In percent."""
        share = math.log(max(value, self._low) / self._low) / math.log(self._high / self._low)
        return 4 + 92 * min(1.0, share)

    @property
    def ticks(self) -> list[float]:
        inside = [tick for tick in self._TICKS if self._low <= tick <= self._high]
        # A phone has room for five.
        step = math.ceil(len(inside) / 5)
        return inside[::step]

    def axis(self) -> Markup:
        marks = [
            element("text", _tick(tick), class_="label", x=f"{self.place(tick):.2f}%", y=12) for tick in self.ticks
        ]
        return element("svg", *marks, class_="axis", width="100%", height=16, aria_hidden="true")

    def spread(self, spread: Spread, told: str) -> Markup:
        """A dot for the half, a thick line to the 95th of a hundred, a thin one to the 99th, a mark for the longest."""
        p50, p95, p99, longest = (self.place(value) for value in (spread.p50, spread.p95, spread.p99, spread.longest))
        grid = [
            element("line", class_="grid", x1=f"{self.place(tick):.2f}%", x2=f"{self.place(tick):.2f}%", y1=0, y2=24)
            for tick in self.ticks
        ]

        def line(kind: str, left: float, right: float) -> Markup:
            return element("line", class_=kind, x1=f"{left:.2f}%", x2=f"{right:.2f}%", y1=12, y2=12)

        return element(
            "svg",
            element("title", told),
            *grid,
            line("thin", p50, longest),
            line("middling", p95, p99),
            line("thick", p50, p95),
            element("line", class_="longest", x1=f"{longest:.2f}%", x2=f"{longest:.2f}%", y1=7, y2=17),
            element("circle", class_="half", cx=f"{p50:.2f}%", cy=12, r=5),
            class_="spread",
            width="100%",
            height=24,
            role="img",
            aria_label=told,
        )


def span(left: float, width: float, kind: str, told: str) -> Markup:
    """A stretch of time inside another, in percent of it."""
    width = min(max(width, _LEAST), 100.0)
    return element(
        "svg",
        element("title", told),
        element("rect", class_="room", width="100%", height="100%", rx=3),
        element(
            "rect",
            class_=f"part {kind}",
            x=f"{min(left, 100 - width):.2f}%",
            width=f"{width:.2f}%",
            height="100%",
            rx=3,
        ),
        class_="span",
        width="100%",
        height=12,
        role="img",
        aria_label=told,
    )


def trend(values: Sequence[float], told: str) -> Markup:
    """A small line without words, oldest first."""
    most, least = max(values), min(values)
    reach = (most - least) or 1.0
    points = [
        f"{100 * place / (len(values) - 1):.1f} {26 - 22 * (value - least) / reach:.1f}"
        for place, value in enumerate(values)
    ]
    line = "M" + "L".join(points)
    return element(
        "svg",
        element("title", told),
        element("path", class_="area", d=f"{line}L100 30L0 30Z"),
        element("path", class_="line", d=line),
        class_="trend",
        viewBox="0 0 100 30",
        preserveAspectRatio="none",
        role="img",
        aria_label=told,
    )


def legend(*keys: tuple[str, str]) -> Markup:
    """What the classes stand for."""
    marks = [
        element(
            "li",
            element("svg", element("rect", class_=f"part {kind}", width=11, height=11, rx=2), width=11, height=11),
            element("span", words),
        )
        for kind, words in keys
    ]
    return element("ul", *marks, class_="legend")


def short(value: float) -> str:
    """Where there is little room."""
    for limit, divisor, unit in ((1e4, 1, ""), (1e6, 1e3, "k"), (1e9, 1e6, "M")):
        if value < limit:
            scaled = value / divisor
            return number(scaled) if not unit else f"{scaled:.3g}{unit}"
    return f"{value / 1e9:.3g}G"


def _tick(seconds: float) -> str:
    return {60: "1 min", 600: "10 min", 3600: "1 h", 6 * 3600: "6 h"}.get(
        int(seconds), f"{seconds / 86400:.0f} d" if seconds >= 86400 else _round_length(seconds)
    )


def _round_length(seconds: float) -> str:
    return f"{seconds:g} s" if seconds >= 1 else f"{seconds * 1000:g} ms"


def _read(parts: Sequence[Part]) -> str:
    return "; ".join(part.told for part in parts) or "nothing"
