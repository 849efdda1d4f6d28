"""How many bytes of idempotency records a tenant has, as far as one gateway knows."""

from __future__ import annotations

import pytest

from holdfast.errors import Capacity
from holdfast.gateway.quotas import record_usage
from holdfast.gateway.quotas.quotas import Quota, Quotas
from holdfast.gateway.quotas.record_usage import RECORD_BYTES, RecordUsage

HOUR = 3600.0


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def usage(clock: Clock) -> RecordUsage:
    return RecordUsage(Quotas({"acme": Quota(max_idempotency_bytes=3 * RECORD_BYTES)}), clock)


def test_a_record_that_would_be_too_much_is_refused_until_others_expire(usage: RecordUsage, clock: Clock) -> None:
    for number in range(3):
        usage.check("acme", f"record-{number}")
        usage.note("acme", f"record-{number}", 0, HOUR)
    with pytest.raises(Capacity, match=f"may have {3 * RECORD_BYTES} bytes of idempotency records"):
        usage.check("acme", "one too many")
    # It is there already.
    usage.check("acme", "record-1")
    usage.check("umbrella", "has no quota")
    clock.now += HOUR
    usage.check("acme", "one too many")


def test_results_count(usage: RecordUsage) -> None:
    usage.check("acme", "record")
    usage.note("acme", "record", 2 * RECORD_BYTES, HOUR)
    with pytest.raises(Capacity, match=f"has {3 * RECORD_BYTES}"):
        usage.check("acme", "another")
    usage.note("acme", "record", 0, HOUR)
    usage.check("acme", "another")


def test_many_records_are_counted_together(usage: RecordUsage, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_usage, "MAX_KNOWN", 1)
    for number in range(3):
        usage.note("acme", f"record-{number}", 0, HOUR)
    with pytest.raises(Capacity):
        usage.check("acme", "one too many")
    clock.now += 2 * HOUR
    usage.check("acme", "one too many")
