"""Tables in Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a table, without the columns that are empty in every row; nothing without rows."""
    kept = [tuple(row) for row in rows]
    used = [column for column in range(len(head)) if any(row[column] for row in kept)]
    lines = [[head[column] for column in used], ["---"] * len(used)]
    lines += [[_cell(row[column]) for column in used] for row in kept]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n" if kept else ""


def code(text: str) -> str:
    """Returns the text as code; nothing for an empty one."""
    return f"`{text}`" if text else ""


def prose(text: str) -> str:
    """Returns plain text as Markdown that shows the same."""
    return text.replace("*", r"\*").replace("<", "&lt;")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")
