"""The times of cron expressions and intervals, over changes to and from daylight saving."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import pytest

from holdfast.errors import InvalidRequest
from holdfast.schedules.core.ticks import Timetable, check_cron, check_timezone, jitter_of, tick_id

ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu")


def unix(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def cron(expression: str, zone: str = "UTC", **limits: float) -> Timetable:
    return Timetable(expression, None, zone, 0.0, **limits)


def shown(ticks: list[float]) -> list[str]:
    return [f"{datetime.fromtimestamp(tick, UTC):%m-%d %H:%M:%S}" for tick in ticks]


@pytest.mark.parametrize("zone", ZONES)
def test_a_time_of_the_day_comes_once_on_each_day_of_a_year(zone: str) -> None:
    ticks = list(islice(cron("30 2 * * *", zone).after(unix("2026-01-01T12:00:00")), 365))
    days = [datetime.fromtimestamp(tick, ZoneInfo(zone)).date() for tick in ticks]
    assert all(later - earlier == timedelta(days=1) for earlier, later in pairwise(days))


@pytest.mark.parametrize("zone", ZONES)
def test_every_quarter_of_an_hour_is_a_tick_over_a_whole_year(zone: str) -> None:
    since, until = unix("2026-01-01T00:00:00"), unix("2027-01-01T00:00:00")
    ticks = list(cron("*/15 * * * *", zone, ends_at=until).after(since))
    assert ticks == [since + 900 * number for number in range(1, int((until - since) / 900) + 1)]


def test_a_time_that_daylight_saving_skips_comes_when_the_clocks_have_changed() -> None:
    ticks = islice(cron("30 2 * * *", "Europe/Berlin").after(unix("2026-03-28T12:00:00")), 2)
    assert shown(list(ticks)) == ["03-29 01:00:00", "03-30 00:30:00"]


def test_a_time_that_daylight_saving_repeats_comes_once() -> None:
    ticks = islice(cron("30 2 * * *", "Europe/Berlin").after(unix("2026-10-24T12:00:00")), 2)
    assert shown(list(ticks)) == ["10-25 00:30:00", "10-26 01:30:00"]


@pytest.mark.parametrize("zone", ZONES)
def test_a_rare_time_ends_where_dates_end(zone: str) -> None:
    since = datetime(9996, 6, 1, tzinfo=UTC).timestamp()
    assert list(cron("0 0 29 2 *", zone).after(since)) == []
    assert len(list(islice(cron("0 0 29 2 *", zone).after(since - 4 * 366 * 86_400), 10))) == 1


@pytest.mark.parametrize("zone", ZONES)
def test_no_time_is_before_unix_time_began(zone: str) -> None:
    earliest = datetime(1, 1, 1, tzinfo=UTC).timestamp()
    assert next(cron("0 0 * * *", zone).after(earliest)) >= 0
    assert next(cron("0 0 * * *", zone, starts_at=earliest).after(0.0)) >= 0


def test_an_interval_counts_from_its_anchor() -> None:
    every = Timetable(None, 60, "UTC", 1000.7)
    assert list(islice(every.after(1000.7), 2)) == [1060.0, 1120.0]
    assert list(islice(every.after(900.0), 2)) == [1000.0, 1060.0]
    assert next(every.after(1060.0)) == 1120.0


def test_ticks_stay_within_the_limits() -> None:
    every = Timetable(None, 10, "UTC", 1000.0, starts_at=1000.0, ends_at=1020.0)
    assert list(every.after(0.0)) == [1000.0, 1010.0, 1020.0]
    assert list(every.after(1020.0)) == []
    assert list(cron("0 0 1 1 *", ends_at=unix("2026-06-01T00:00:00")).after(unix("2026-01-01T00:00:00"))) == []


# Some programs read six fields from a second, others to a year.
SIX_FIELDS = ["0 0 6 * * *", "0 6 * * * *"]


@pytest.mark.parametrize(
    "expression", ["", "* * * *", "60 * * * *", "0 0 31 2 *", "@daily", "every day", "0 6 * * X", *SIX_FIELDS]
)
def test_what_is_no_cron_expression_is_refused(expression: str) -> None:
    with pytest.raises(InvalidRequest, match="cron: "):
        check_cron(expression)


@pytest.mark.parametrize("name", ["", "Mars/Olympus", "../etc/passwd", "/etc/passwd", "Europe", "a\0b", "Berlin "])
def test_what_is_no_time_zone_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest, match="timezone: "):
        check_timezone(name)


def test_the_jitter_of_a_tick_is_always_the_same() -> None:
    delays = [jitter_of("nightly", 60.0 * number, 30) for number in range(100)]
    assert delays == [jitter_of("nightly", 60.0 * number, 30) for number in range(100)]
    assert all(0 <= delay < 30 for delay in delays)
    assert len(set(delays)) == 100
    assert jitter_of("nightly", 60.0, 0) == 0


def test_the_id_of_a_tick_names_its_time() -> None:
    assert tick_id("nightly", unix("2026-11-17T06:00:00")) == "nightly-20261117T060000Z"
