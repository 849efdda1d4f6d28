"""Tables and lists of the report, and how things are called in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from holdfast.spark.report.markup import Markup, element, joined, text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Cell: TypeAlias = "str | int"

#: Of a column that has numbers.
RIGHT = "number"
SAID = "said"
BRIEF = "brief"
#: Of a column that has bars, for which a phone has no room.
PLOT = "said plot"
LEFT = ""


def table(
    columns: Sequence[tuple[str, str]], rows: Iterable[Sequence[Cell]], total: Sequence[Cell] | None = None
) -> Markup:
    """Columns are a title and a class each. What is wide scrolls inside itself."""
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
    said = element("p", about, class_="quiet") if about else None
    return element("section", element("h3", title), said, *content, class_="card")


def none(words: str) -> Markup:
    return element("p", words, class_="none")


def more(count: int, what: str, which: str = "") -> Markup | None:
    told = f"and {count:,} more {what}{'' if count == 1 else 's'}{which}"
    return element("p", told, class_="more") if count > 0 else None


def place(name: str, tenant: str | None) -> Markup:
    """A queue or an instance, with whose it is when that is not the usual."""
    whose = element("small", f" of {tenant}", class_="quiet") if tenant not in (None, "default") else None
    return joined(text(name), whose)


def bars(rows: Iterable[tuple[Markup, Markup, str]], kind: str = "") -> Markup:
    """A name, a plot and a number each."""
    lines = [
        element("li", element("span", name, class_="name"), plot, element("span", value, class_="number"))
        for name, plot, value in rows
    ]
    return element("ul", *lines, class_=f"bars {kind}".strip())


def _cell(cell: Cell) -> Markup:
    return text(f"{cell:,}" if isinstance(cell, int) else cell)
