"""Builds HTML and SVG. Everything that is not Markup is text, and is escaped."""

from __future__ import annotations

from html import escape
from typing import TypeAlias


class Markup(str):
    """HTML that is inserted without escaping."""

    __slots__ = ()


Child: TypeAlias = "str | int | None"

_VOID = frozenset({"meta", "link", "br", "img"})
# Self-closing inside SVG, which keeps the page short.
_SHAPES = frozenset({"rect", "line", "circle", "path"})
# Payloads must not change the text direction of the page: direction marks are shown as escapes.
_STEERING = {code: f"\\u{code:04x}" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F)}


def text(content: object) -> Markup:
    return content if isinstance(content, Markup) else Markup(escape(str(content).translate(_STEERING)))


def element(tag: str, *children: Child, **attributes: object) -> Markup:
    """Builds an element. ``class_`` and ``stroke_width`` become ``class`` and ``stroke-width``; None is left out."""
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
    """Formats an attribute value; floats get at most two decimals."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
