"""Times in requests: ISO 8601, in UTC unless they name a time zone."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from holdfast.errors import InvalidRequest

_TIME = re.compile(r"\d{4}-\d{2}-\d{2}([Tt ]\d{2}:\d{2}(:\d{2}([.,]\d{1,9})?)?([Zz]|[+-]\d{2}:?\d{2})?)?\Z", re.ASCII)
_LONGEST = 40
# Without the first and the last day there are: some times in them are in no year of another time zone.
_FIRST, _END = datetime(1, 1, 2, tzinfo=UTC).timestamp(), datetime(9999, 12, 31, tzinfo=UTC).timestamp()


def read_time(text: str, what: str) -> float:
    """Returns a time as Unix seconds. Raises InvalidRequest, which names the field ``what``, for any other text."""
    try:
        if len(text) <= _LONGEST and _TIME.match(text):
            moment = datetime.fromisoformat(text.upper())
            seconds = (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()
            if _FIRST <= seconds < _END:
                return seconds
    except (ValueError, OverflowError):
        pass  # month 13, day 32
    raise InvalidRequest(f"{what}: has to be a time as in ISO 8601, for example 2026-11-17T06:00:00Z.")
