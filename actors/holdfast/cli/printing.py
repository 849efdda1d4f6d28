"""What all tables have in common: how they look, and how values, moments and lengths of time are written."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

# What is only looked at may be cut; what was taken for good is shown whole.
_CUT_AT = 200

RIGHT: Any = "right"


def console() -> Console:
    made = Console(highlight=False, emoji=False, markup=False)
    if not made.is_terminal:
        # Nobody's window limits it: a row stays a line, for grep.
        made.width = 10_000
    return made


def new_table() -> Table:
    return Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)


def value(shown: Any, *, whole: bool = False) -> Text:
    """Any JSON value."""
    text = json.dumps(shown, ensure_ascii=False)
    if not whole and len(text) > _CUT_AT:
        text = text[:_CUT_AT] + "…"
    return printable(text)


def printable(text: str) -> Text:
    """Nobody's payload may steer the terminal."""
    return Text("".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in text))


def moment(iso: str, *, exact: bool = False) -> str:
    """On the reader's own clock."""
    read = datetime.fromisoformat(iso).astimezone()
    today = datetime.now(UTC).astimezone().date()
    shown = read.strftime("%H:%M:%S" if read.date() == today else "%Y-%m-%d %H:%M:%S")
    return f"{shown}.{read.microsecond // 1000:03}" if exact else shown


def spoken(seconds: float) -> str:
    """A length of time, in the two units that matter."""
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days} d {hour} h"
    if hours:
        return f"{hours} h {minute} min"
    return f"{minutes} min {second} s" if minutes else f"{second} s"


def spoken_exactly(seconds: float) -> str:
    """The same, where less than a minute is worth telling."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 60 else spoken(seconds)


def counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
