"""Builds the report's tables, cards and lists."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from holdfast.spark.report.html import Markup, element, joined, text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Cell: TypeAlias = "str | int"

#: The CSS class of a column of numbers.
RIGHT = "number"
SAID = "said"
BRIEF = "brief"
#: The CSS class of a column of bars, which is hidden on a phone.
PLOT = "said plot"
LEFT = ""


def table(
    columns: Sequence[tuple[str, str]], rows: Iterable[Sequence[Cell]], total: Sequence[Cell] | None = None
) -> Markup:
    """Builds a table; each column is a title and a CSS class. A wide table scrolls by itself."""
    kinds = [kind or None for _, kind in columns]
    head = element("tr", *(element("th", title, class_=kind or None, scope="col") for title, kind in columns))

    def line(cells: Sequence[Cell]) -> Markup:
        return element(
            "tr", *(element("td", _cell(cell), class_=kind) for cell, kind in zip(cells, kinds, strict=True))
        )

    body = element("tbody", *(line(cells) for cells in rows))
    foot = element("tfoot", line(total)) if total is not None else None
    return element("div", element("table", element("thead", head), body, foot), class_="scroll", tabindex="0")


def card(title: str, about: str | None, *content: Markup | None) -> Markup:
    subtitle = element("p", about, class_="quiet") if about else None
    return element("section", element("h3", title), subtitle, *content, class_="card")


def none(words: str) -> Markup:
    return element("p", words, class_="none")


def more(count: int, what: str, which: str = "") -> Markup | None:
    caption = f"and {count:,} more {what}{'' if count == 1 else 's'}{which}"
    return element("p", caption, class_="more") if count > 0 else None


def place(name: str, tenant: str | None) -> Markup:
    """Formats the name of a queue or an instance, with its tenant unless that is the default."""
    whose = element("small", f" of {tenant}", class_="quiet") if tenant not in (None, "default") else None
    return joined(text(name), whose)


def bars(rows: Iterable[tuple[Markup, Markup, str]], kind: str = "") -> Markup:
    """Builds a list with a name, a chart and a number in each row."""
    lines = [
        element("li", element("span", name, class_="name"), plot, element("span", value, class_="number"))
        for name, plot, value in rows
    ]
    return element("ul", *lines, class_=f"bars {kind}".strip())


def _cell(cell: Cell) -> Markup:
    return text(f"{cell:,}" if isinstance(cell, int) else cell)
