"""Draws charts as SVG. Horizontal positions are percentages, so that charts fit a phone and text keeps its size."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.spark.report.format import number
from holdfast.spark.report.html import Markup, element

if TYPE_CHECKING:
    from collections.abc import Sequence

_COLUMNS_HIGH = 150.0
_HEADROOM = 20.0
_FLOOR = 22.0
_BAR_HIGH = 18.0
# The smallest width in percent, so that small parts stay visible.
_LEAST = 0.6


@dataclass(frozen=True)
class Part:
    """A piece of a bar; its kind is the CSS class that gives it its colour."""

    value: float
    kind: str
    caption: str


@dataclass(frozen=True)
class Spread:
    p50: float
    p95: float
    p99: float
    longest: float


def bar(parts: Sequence[Part], most: float) -> Markup:
    """Draws parts side by side; ``most`` is the value of the full width, which several bars share."""
    shown = [part for part in parts if part.value > 0]
    widths = [max(_LEAST, 100 * part.value / most) for part in shown]
    # Small parts are widened to stay visible; the sum must not exceed the full width.
    scale = min(1.0, 100 / sum(widths)) if widths else 1.0
    drawn, left = [], 0.0
    for part, width in zip(shown, widths, strict=True):
        drawn.append(
            element(
                "rect",
                element("title", part.caption),
                class_=f"part {part.kind}",
                x=f"{left:.2f}%",
                width=f"{width * scale:.2f}%",
                height="100%",
            )
        )
        left += width * scale
    return element("svg", *drawn, class_="bar", width="100%", height=_BAR_HIGH, role="img", aria_label=_read(shown))


def columns(
    labels: Sequence[str], values: Sequence[int], caption: Sequence[str], kinds: Sequence[str], name: str
) -> Markup:
    """Draws a histogram: each column has its number above and its label below."""
    most = max(1, *values)
    room = 100 / len(values)
    floor = _COLUMNS_HIGH + _HEADROOM
    drawn = [element("line", class_="floor", x1="0", x2="100%", y1=floor, y2=floor)]
    for place, (label, value, words, kind) in enumerate(zip(labels, values, caption, kinds, strict=True)):
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
    """A logarithmic time axis for durations of very different size."""

    _TICKS = (0.001, 0.01, 0.1, 1, 10, 60, 600, 3600, 6 * 3600, 86400, 7 * 86400, 30 * 86400, 365 * 86400)

    def __init__(self, values: Sequence[float]) -> None:
        there = [max(value, 0.0005) for value in values]
        self._low = max((tick for tick in self._TICKS if tick <= min(there)), default=0.0004)
        self._high = min((tick for tick in self._TICKS if tick >= max(there)), default=max(there) * 1.2)
        if self._high <= self._low:
            self._high = self._low * 10

    def place(self, value: float) -> float:
        """Returns the horizontal position of a value in percent."""
        share = math.log(max(value, self._low) / self._low) / math.log(self._high / self._low)
        return 4 + 92 * min(1.0, share)

    @property
    def ticks(self) -> list[float]:
        inside = [tick for tick in self._TICKS if self._low <= tick <= self._high]
        # A phone has room for five labels.
        step = math.ceil(len(inside) / 5)
        return inside[::step]

    def axis(self) -> Markup:
        marks = [
            element("text", _tick(tick), class_="label", x=f"{self.place(tick):.2f}%", y=12) for tick in self.ticks
        ]
        return element("svg", *marks, class_="axis", width="100%", height=16, aria_hidden="true")

    def spread(self, spread: Spread, caption: str) -> Markup:
        """Draws a dot at the median, a thick line to p95, a thinner one to p99, and a mark at the longest."""
        p50, p95, p99, longest = (self.place(value) for value in (spread.p50, spread.p95, spread.p99, spread.longest))
        grid = [
            element("line", class_="grid", x1=f"{self.place(tick):.2f}%", x2=f"{self.place(tick):.2f}%", y1=0, y2=24)
            for tick in self.ticks
        ]

        def line(kind: str, left: float, right: float) -> Markup:
            return element("line", class_=kind, x1=f"{left:.2f}%", x2=f"{right:.2f}%", y1=12, y2=12)

        return element(
            "svg",
            element("title", caption),
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
            aria_label=caption,
        )


def span(left: float, width: float, kind: str, caption: str) -> Markup:
    """Draws an interval inside a larger one; position and width are percentages of it."""
    width = min(max(width, _LEAST), 100.0)
    return element(
        "svg",
        element("title", caption),
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
        aria_label=caption,
    )


def trend(values: Sequence[float], caption: str) -> Markup:
    """Draws a small line chart without labels, oldest value first."""
    most, least = max(values), min(values)
    reach = (most - least) or 1.0
    points = [
        f"{100 * place / (len(values) - 1):.1f} {26 - 22 * (value - least) / reach:.1f}"
        for place, value in enumerate(values)
    ]
    line = "M" + "L".join(points)
    return element(
        "svg",
        element("title", caption),
        element("path", class_="area", d=f"{line}L100 30L0 30Z"),
        element("path", class_="line", d=line),
        class_="trend",
        viewBox="0 0 100 30",
        preserveAspectRatio="none",
        role="img",
        aria_label=caption,
    )


def legend(*keys: tuple[str, str]) -> Markup:
    """Draws a legend of CSS classes and their meaning."""
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
    """Formats a number in few characters."""
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
    return "; ".join(part.caption for part in parts) or "nothing"
