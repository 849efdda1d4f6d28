"""The ticks of a schedule: the times of a cron expression, or of an interval."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from math import floor
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from holdfast.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Iterator

# Unix seconds of the year 9999, beyond which Python has no dates.
_END_OF_TIME = 253_370_764_800.0


@dataclass(frozen=True, slots=True)
class Timetable:
    """When a schedule ticks. Ticks are whole seconds of Unix time."""

    cron: str | None
    every_seconds: int | None
    timezone: str
    #: The first tick of an interval is here, if it is not before the schedule was made.
    anchor: float
    starts_at: float | None = None
    ends_at: float | None = None

    def after(self, moment: float) -> Iterator[float]:
        """Yields the ticks after a moment, in order."""
        if self.starts_at is not None:
            moment = max(moment, self.starts_at - 1e-3)
        last = _END_OF_TIME if self.ends_at is None else min(self.ends_at, _END_OF_TIME)
        if moment >= last:
            return
        for tick in self._by_cron(moment) if self.every_seconds is None else self._by_interval(moment):
            if tick > last:
                return
            yield tick

    def _by_cron(self, moment: float) -> Iterator[float]:
        assert self.cron is not None
        # Not before Unix time began: in the west, the year 1 has no local time.
        since = datetime.fromtimestamp(max(0.0, moment), ZoneInfo(self.timezone))
        previous = moment
        try:
            for found in CronSim(self.cron, since):
                tick = found.astimezone(UTC).timestamp()
                # A time that daylight saving skips and another one may be the same moment.
                if tick > previous:
                    yield tick
                    previous = tick
        except OverflowError:
            # There is no tick before the end of time.
            return

    def _by_interval(self, moment: float) -> Iterator[float]:
        assert self.every_seconds is not None
        anchor = floor(self.anchor)
        number = max(0, floor((moment - anchor) / self.every_seconds) + 1)
        while True:
            yield float(anchor + number * self.every_seconds)
            number += 1


def check_cron(expression: str) -> None:
    """Raises InvalidRequest if this is not a cron expression that has a tick."""
    try:
        if len(expression.split()) != 5:
            # CronSim also takes six, the first of them seconds. Elsewhere the sixth field is a year.
            raise CronSimError("Wrong number of fields")
        next(CronSim(expression, datetime(2024, 1, 1, tzinfo=UTC)))
    except CronSimError as error:
        raise InvalidRequest(f"cron: {error}. It has five fields: minute, hour, day, month, day of week.") from None
    except StopIteration:
        raise InvalidRequest("cron: this time never comes.") from None


def check_timezone(name: str) -> None:
    """Raises InvalidRequest if this is not the name of a time zone."""
    try:
        ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        # The last for a name that is not found.
        raise InvalidRequest(f"timezone: {name[:64]!r} is not a time zone such as Europe/Berlin.") from None


def jitter_of(schedule: str, tick: float, jitter_seconds: float) -> float:
    """Returns the delay of a tick, the same in every process."""
    if not jitter_seconds:
        return 0.0
    digest = hashlib.sha256(f"{schedule}@{tick:.0f}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64 * jitter_seconds


def tick_id(schedule: str, tick: float) -> str:
    """Returns the id of the instance that a tick starts."""
    return f"{schedule}-{datetime.fromtimestamp(tick, UTC):%Y%m%dT%H%M%SZ}"
