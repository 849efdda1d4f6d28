"""Times and spans as Dapr's actor API writes them: Go durations, ISO 8601 spans with repetitions, RFC 3339."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
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
_GO_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
_ISO = re.compile(
    r"(?:R(?P<repeats>\d*)/?)?(?:P(?:(?P<weeks>\d+)W)?(?:(?P<days>\d+)D)?"
    r"(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+)S)?)?)?\Z"
)


@dataclass(frozen=True, slots=True)
class Period:
    """How often something repeats. ``repeats`` counts the firings in all; None means without end."""

    seconds: float
    repeats: int | None = None


def go_duration(span: timedelta) -> str:
    """A span as Go reads it, exact to the microsecond."""
    micros = round(span / timedelta(microseconds=1))
    sign, micros = ("-", -micros) if micros < 0 else ("", micros)
    seconds, rest = divmod(micros, 1_000_000)
    return f"{sign}{seconds}s{rest}us" if rest else f"{sign}{seconds}s"


def parse_period(text: str) -> Period:
    """A period of a reminder or timer: ``1h30m``, ``PT90S``, ``R3/PT1S``. Raises ValueError."""
    if text and text[0] in "RP":
        found = _ISO.match(text)
        if not found or not any(found.groupdict().values()):
            raise ValueError(f"unsupported duration format: {text}")
        part = {name: int(value) for name, value in found.groupdict(default="0").items() if value}
        repeats = part.pop("repeats", 0) if text.startswith("R") else None
        if repeats == 0:
            raise ValueError("has zero repetitions")
        return Period(timedelta(**part).total_seconds(), repeats)
    return Period(_go_seconds(text))


def parse_due(text: str, now: float) -> float:
    """The moment a due time or a time to live means, in Unix seconds. Raises ValueError."""
    if not text:
        return now
    try:
        return now + parse_period(text).seconds
    except ValueError:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _go_seconds(text: str) -> float:
    sign, rest = (-1, text[1:]) if text[:1] == "-" else (1, text.removeprefix("+"))
    if rest == "0":
        return 0.0
    parts = _GO_PART.findall(rest)
    if not parts or "".join(number + unit for number, unit in parts) != rest:
        raise ValueError(f"unsupported duration format: {text}")
    return float(sign * sum(Decimal(number) * _GO_UNITS[unit] for number, unit in parts))
