"""HTML and SVG from Python: what is not markup already is text, and is escaped."""

from __future__ import annotations

from html import escape
from typing import TypeAlias


class Markup(str):
    """Text that may go into a page as it is."""

    __slots__ = ()


Child: TypeAlias = "str | int | None"

_VOID = frozenset({"meta", "link", "br", "img"})
# Self-closed, because a parser inside SVG takes it so and a page gets shorter.
_SHAPES = frozenset({"rect", "line", "circle", "path"})
# Nobody's payload may turn the page's own words around: marks that change the direction of what follows are shown.
_STEERING = {code: f"\\u{code:04x}" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F)}


def text(content: object) -> Markup:
    return content if isinstance(content, Markup) else Markup(escape(str(content).translate(_STEERING)))


def element(tag: str, *children: Child, **attributes: object) -> Markup:
    """``class_`` and ``stroke_width`` are ``class`` and ``stroke-width``; an attribute that is None is left out."""
    written = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(_number(value))}"'
        for name, value in attributes.items()
        if value is not None
    )
    inside = "".join(text(child) for child in children if child is not None)
    if tag in _VOID:
        return Markup(f"<{tag}{written}>")
    if tag in _SHAPES and not inside:
        return Markup(f"<{tag}{written}/>")
    return Markup(f"<{tag}{written}>{inside}</{tag}>")


def joined(*parts: Markup | None) -> Markup:
    return Markup("".join(part for part in parts if part is not None))


def _number(value: object) -> str:
    """Coordinates need no more than a hundredth."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
