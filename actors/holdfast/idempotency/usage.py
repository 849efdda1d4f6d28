"""Counts the bytes of a tenant's idempotency records by the time at which they expire. No I/O, no clock.

A record counts until the end of the period in which it expires, so it need not be counted off when it is deleted. The
longer a record is kept, the longer is the period, so the number of periods is bounded.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.idempotency.record import Record

#: Bytes added to or removed from each period, by the period's end in Unix seconds.
Changes: TypeAlias = dict[int, int]

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
# The length of the periods for records that are kept no longer than this.
_PERIODS = ((_HOUR, _MINUTE), (7 * _DAY, _HOUR))


def period_end(record: Record) -> int:
    """Returns until when the record counts."""
    kept = record.expires_at - record.updated_at
    length = next((length for longest, length in _PERIODS if kept <= longest), _DAY)
    return ceil(record.expires_at / length) * length


def changes_of(old: Record | None, new: Record | None) -> Changes:
    """Returns what changes in the count when a record is replaced, created or deleted."""
    changes: Changes = {}
    if old is not None:
        add(changes, {period_end(old): -old.size})
    if new is not None:
        add(changes, {period_end(new): new.size})
    return changes


def add(counted: Changes, changes: Changes) -> None:
    """Adds changes to a count."""
    for end, size in changes.items():
        total = counted.get(end, 0) + size
        if total:
            counted[end] = total
        else:
            counted.pop(end, None)


def unexpired(counted: Changes, now: float) -> Changes:
    """Returns the count without the periods that are over."""
    return {end: size for end, size in counted.items() if end > now}


def total(sizes: Iterable[int]) -> int:
    """Returns the bytes of all periods. A period can be negative while a change of another process is on its way."""
    return max(0, sum(sizes))
