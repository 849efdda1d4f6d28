"""Times and durations of Dapr's actor API: Go durations, ISO 8601 durations with repetitions, RFC 3339 times.

Rejects the same values as daprd 1.18, with the same messages. ISO 8601 months and years are not supported.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

_GO_UNITS = {
    "h": Decimal(3600),
    "m": Decimal(60),
    "s": Decimal(1),
    "ms": Decimal("0.001"),
    "us": Decimal("0.000001"),
    "µs": Decimal("0.000001"),
    "μs": Decimal("0.000001"),
    "ns": Decimal("0.000000001"),
}
_GO_PART = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_ISO = re.compile(
    r"(?:R(?P<repeats>[0-9]+)/)?P(?=.)(?:(?P<weeks>[0-9]+)W)?(?:(?P<days>[0-9]+)D)?"
    r"(?:T(?:(?P<hours>[0-9]+)H)?(?:(?P<minutes>[0-9]+)M)?(?:(?P<seconds>[0-9]+)S)?)?\Z"
)
_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?(?:Z|[+-][0-9]{2}:[0-9]{2})\Z")

# Go's limits: 64 bits of nanoseconds, and of repetitions.
_MOST = 2**63 - 1
_LONGEST = _MOST / 1e9
# Longer than any sensible value; much longer numbers would exceed Python's own types.
_LONGEST_TEXT = 200


@dataclass(frozen=True, slots=True)
class Period:
    """The period of a reminder or timer. ``repeats`` is the number of firings; None means unlimited."""

    seconds: float
    repeats: int | None = None


def go_duration(span: timedelta) -> str:
    """Returns a duration in Go's notation, exact to the microsecond."""
    micros = round(span / timedelta(microseconds=1))
    sign, micros = ("-", -micros) if micros < 0 else ("", micros)
    seconds, rest = divmod(micros, 1_000_000)
    return f"{sign}{seconds}s{rest}us" if rest else f"{sign}{seconds}s"


def parse_period(text: str) -> Period:
    """Parses a period of a reminder or timer: ``1h30m``, ``PT90S``, ``R3/PT1S``. Raises ValueError."""
    period = _parse_span(text)
    if period is None:
        raise ValueError(f"unsupported duration format: {text[:_LONGEST_TEXT]}")
    if period.repeats == 0:
        raise ValueError("has zero repetitions")
    return period


def parse_due(text: str, now: float) -> float:
    """Returns the time that a due time or a time to live denotes, in Unix seconds. Raises ValueError."""
    if not text:
        return now
    if span := _parse_span(text):
        if span.repeats is not None:
            raise ValueError("repetitions are not allowed")
        return now + span.seconds
    try:
        if _MOMENT.match(text):
            return datetime.fromisoformat(text).timestamp()
    except ValueError:
        pass  # month 13, day 32
    raise ValueError(f"unsupported time/duration format: {text[:_LONGEST_TEXT]}")


def _parse_span(text: str) -> Period | None:
    if len(text) > _LONGEST_TEXT:
        return None
    if found := _ISO.match(text):
        part = {name: int(value) for name, value in found.groupdict().items() if value}
        repeats = part.pop("repeats", None)
        if repeats is not None and repeats > _MOST:
            return None
        return Period(_total(part), repeats)
    sign, rest = (-1, text[1:]) if text[:1] == "-" else (1, text.removeprefix("+"))
    if rest == "0":
        return Period(0.0)
    parts = _GO_PART.findall(rest)
    if not parts or "".join(number + unit for number, unit in parts) != rest:
        return None
    seconds = float(sign * sum(Decimal(number) * _GO_UNITS[unit] for number, unit in parts))
    return Period(seconds) if abs(seconds) <= _LONGEST else None


def _total(part: dict[str, int]) -> float:
    try:
        seconds = timedelta(**part).total_seconds()
    except OverflowError:
        seconds = math.inf
    if seconds > _LONGEST:
        raise ValueError("this span is too long")
    return seconds
