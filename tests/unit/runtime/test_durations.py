"""Times and spans are read and written as Dapr does."""

from __future__ import annotations

from datetime import timedelta

import pytest

from holdfast.runtime.actor_api.durations import Period, go_duration, parse_due, parse_period

NOW = 1_700_000_000.0


@pytest.mark.parametrize(
    ("span", "text"),
    [
        (timedelta(), "0s"),
        (timedelta(seconds=1), "1s"),
        (timedelta(seconds=1.6), "1s600000us"),
        (timedelta(milliseconds=1), "0s1000us"),
        (timedelta(microseconds=1), "0s1us"),
        (timedelta(days=400), "34560000s"),
        (timedelta(seconds=-1.5), "-1s500000us"),
    ],
)
def test_a_span_is_written_exactly_and_read_back(span: timedelta, text: str) -> None:
    assert go_duration(span) == text
    assert parse_period(text) == Period(span.total_seconds())


@pytest.mark.parametrize(
    ("text", "period"),
    [
        ("0", Period(0)),
        ("1h30m", Period(5400)),
        ("1.5h", Period(5400)),
        ("0h0m3s0ms", Period(3)),
        (".5s", Period(0.5)),
        ("2h45m30.25s", Period(9930.25)),
        ("1us", Period(0.000001)),
        ("1µs", Period(0.000001)),
        ("500ns", Period(0.0000005)),
        ("+5s", Period(5)),
        ("-5s", Period(-5)),
        ("PT1S", Period(1)),
        ("PT1H2M3S", Period(3723)),
        ("P1DT1H", Period(90000)),
        ("P2W", Period(1209600)),
        ("PT0S", Period(0)),
        ("R3/PT1S", Period(1, 3)),
        ("R1/P1D", Period(86400, 1)),
    ],
)
def test_a_period(text: str, period: Period) -> None:
    assert parse_period(text) == period


@pytest.mark.parametrize(
    "text",
    [
        *("", "often", "5", "5 s", "s", "1h30", "1,5s", "--5s", "5S", "1d", "٣s"),
        *("P", "R", "R3", "R/PT1S", "Rx/PT1S", "R-1/PT1S", "PT1.5S", "P1S", "PT1D", "P1D1W", "PT1S "),
        *("2024-01-01T00:00:00Z", "P99999999999D", "P200000D", "9999999999s", "-9999999999s"),
        *(f"R{2**63}/PT1S", "1" * 400 + "h", "PT" + "9" * 5000 + "S", "R" + "9" * 5000 + "/PT1S"),
    ],
)
def test_what_is_not_a_period(text: str) -> None:
    with pytest.raises(ValueError, match=r"unsupported duration format|too long"):
        parse_period(text)


def test_a_period_without_repetitions() -> None:
    with pytest.raises(ValueError, match="has zero repetitions"):
        parse_period("R0/PT1S")


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("", NOW),
        ("0s", NOW),
        ("1m", NOW + 60),
        ("-1m", NOW - 60),
        ("PT1M", NOW + 60),
        ("P1D", NOW + 86400),
        ("2024-01-01T00:00:00Z", 1704067200),
        ("2024-01-01T01:30:00+01:30", 1704067200),
        ("2024-01-01T00:00:00.25Z", 1704067200.25),
        ("2024-01-01T00:00:00.123456789Z", 1704067200.123456),
    ],
)
def test_a_due_time(text: str, moment: float) -> None:
    assert parse_due(text, NOW) == pytest.approx(moment, abs=1e-6)


@pytest.mark.parametrize(
    "text",
    [
        *("soon", "2024-01-01", "2024-01-01T00:00:00", "2024-01-01 00:00:00Z", "20240101T000000Z"),
        *("2024-13-01T00:00:00Z", "2024-01-32T00:00:00Z", "2024-01-01T25:00:00Z", "1704067200"),
    ],
)
def test_what_is_not_a_due_time(text: str) -> None:
    with pytest.raises(ValueError, match="unsupported time/duration format"):
        parse_due(text, NOW)


def test_a_due_time_does_not_repeat() -> None:
    with pytest.raises(ValueError, match="repetitions are not allowed"):
        parse_due("R3/PT1S", NOW)
