"""Formats tables, JSON values, times and durations for the terminal."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

# Values in overviews are cut to this length; popped items are shown whole.
_CUT_AT = 200

RIGHT: Any = "right"


class _Unpadded(Console):
    """A console for files and pipes: lines have any length, and no spaces at their end."""

    def print(self, *objects: Any, **options: Any) -> None:
        # rich 15 pads every cell of the last column to the longest one.
        with self.capture() as captured:
            super().print(*objects, **options)
        self.file.write("\n".join(line.rstrip(" ") for line in captured.get().split("\n")))


def console() -> Console:
    made = Console(highlight=False, emoji=False, markup=False)
    # Outside a terminal, each row stays on one line, for grep.
    return made if made.is_terminal else _Unpadded(highlight=False, emoji=False, markup=False, width=10_000)


def new_table() -> Table:
    return Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)


def value(shown: Any, *, whole: bool = False) -> Text:
    """Formats a JSON value, cut to ``_CUT_AT`` characters unless ``whole``."""
    text = json.dumps(shown, ensure_ascii=False)
    if not whole and len(text) > _CUT_AT:
        text = text[:_CUT_AT] + "…"
    return printable(text)


def printable(text: str) -> Text:
    """Escapes control characters, so that a payload cannot control the terminal."""
    return Text("".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in text))


def moment(iso: str, *, exact: bool = False) -> str:
    """Formats a time in the local time zone."""
    read = datetime.fromisoformat(iso).astimezone()
    today = datetime.now(UTC).astimezone().date()
    shown = read.strftime("%H:%M:%S" if read.date() == today else "%Y-%m-%d %H:%M:%S")
    return f"{shown}.{read.microsecond // 1000:03}" if exact else shown


def spoken(seconds: float) -> str:
    """Formats a duration in its two largest units."""
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days} d {hour} h"
    if hours:
        return f"{hours} h {minute} min"
    return f"{minutes} min {second} s" if minutes else f"{second} s"


def spoken_exactly(seconds: float) -> str:
    """Formats a duration, with milliseconds or tenths of a second below a minute."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 60 else spoken(seconds)
