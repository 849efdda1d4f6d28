"""Formats the report's numbers, times and durations."""

from __future__ import annotations

from datetime import UTC, datetime

_CUT_AT = 160


def number(value: float) -> str:
    return f"{value:,.0f}"


def counted(value: int, what: str) -> str:
    return f"{value:,} {what}{'' if value == 1 else 's'}"


def change(value: int) -> str:
    return f"{value:+,}" if value else "±0"


def moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def short_moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%b %-d, %H:%M:%S")


def length(seconds: float | None) -> str:
    """Formats a duration in its largest one or two units."""
    if seconds is None:
        return "-"
    if seconds < 0.0995:
        return f"{seconds * 1000:.1f} ms" if seconds < 0.00995 else f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.2f} s" if seconds < 0.995 else f"{seconds:.1f} s"
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days} d {hour} h" if hour and days < 100 else f"{days:,} d"
    if hours:
        return f"{hours} h {minute} min" if minute else f"{hours} h"
    return f"{minutes} min {second} s" if second else f"{minutes} min"


def size(count: int) -> str:
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def cut(text: str | None, at: int = _CUT_AT) -> str:
    if not text:
        return ""
    return text if len(text) <= at else f"{text[:at]}…"


def share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "0 %"
