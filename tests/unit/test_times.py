"""Times in requests."""

from __future__ import annotations

import pytest

from holdfast.errors import InvalidRequest
from holdfast.wire.times import read_time


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2026-11-17T06:00:00Z", 1794895200.0),
        ("2026-11-17T06:00:00", 1794895200.0),
        ("2026-11-17t06:00:00z", 1794895200.0),
        ("2026-11-17 06:00", 1794895200.0),
        ("2026-11-17T07:00:00+01:00", 1794895200.0),
        ("2026-11-17T00:30:00.250-05:30", 1794895200.25),
        ("2026-11-17", 1794873600.0),
    ],
)
def test_times_without_a_zone_are_in_utc(text: str, seconds: float) -> None:
    assert read_time(text, "start_at") == seconds


@pytest.mark.parametrize(
    "text",
    [
        *("", "now", "2026", "2026-13-01", "2026-02-30", "2026-11-17T25:00", "2026-W47-2", "20261117", "٢٠٢٦-11-17"),
        # In no year in some time zones: a stored one could not be shown.
        *("0001-01-01T00:00:00+14:00", "0001-01-01", "9999-12-31T23:59:59.999999999Z", "9999-12-31T23:59:59-14:00"),
        *("2026-11-17T06:00:00Z" + " " * 100, "2026-11-17T06:00:00Z\n", "1794895200"),
    ],
)
def test_other_texts_are_refused_with_the_name_of_the_field(text: str) -> None:
    with pytest.raises(InvalidRequest, match=r"^start_at: has to be a time"):
        read_time(text, "start_at")
