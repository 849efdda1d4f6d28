"""The record of an effect: who may run it, and what counts."""

from __future__ import annotations

import random

import pytest

from holdfast.errors import AlreadyInProgress, LeaseLost
from holdfast.idempotency.record import DEFAULT_RETENTION, Record, Status, begin, commit, current, fail, renew


def test_one_runs_and_the_others_get_what_came_of_it() -> None:
    record = begin(None, 0, "a", 30)
    with pytest.raises(AlreadyInProgress) as refused:
        begin(record, 29, "b", 30)
    assert refused.value.details == {"lease_expires_at": 30}
    done = commit(record, 10, "a", "17", 100)
    assert begin(done, 20, "b", 30) is done
    assert (done.status, done.result) == (Status.SUCCESS, "17")
    assert commit(done, 20, "a", "18", 100) is done
    assert current(done, 110) is None
    assert begin(done, 110, "b", 30).attempts == 1


def test_a_lease_that_ran_out_passes_to_the_next() -> None:
    record = begin(begin(None, 0, "a", 30), 31, "b", 30)
    assert (record.owner, record.attempts) == ("b", 2)
    for late in (commit, fail):
        with pytest.raises(LeaseLost):
            late(record, 32, "a", "x", *((100,) if late is commit else ()))
    with pytest.raises(LeaseLost):
        renew(record, 32, "a", 30)


def test_late_is_not_too_late_when_nobody_took_over() -> None:
    assert commit(begin(None, 0, "a", 30), 1000, "a", None, 100).status is Status.SUCCESS


def test_the_owner_may_begin_again() -> None:
    record = begin(begin(None, 0, "a", 30), 10, "a", 30)
    assert (record.attempts, record.lease_expires_at) == (1, 40)


def test_the_same_owner_takes_over_from_itself_with_a_higher_fence() -> None:
    """A redelivered message: its earlier consumer may have crashed, or may only be slow."""
    first = begin(None, 0, "message", 30, fence=1)
    second = begin(first, 1, "message", 30, fence=2)
    assert (second.fence, second.attempts, second.lease_expires_at) == (2, 2, 31)
    assert begin(second, 2, "message", 30, fence=2).attempts == 2
    failed = fail(second, 3, "message", "no", fence=2)
    done = commit(second, 3, "message", "2", 100, fence=2)
    for record in (second, failed, done):
        with pytest.raises(LeaseLost):
            renew(record, 4, "message", 30, fence=1)
        with pytest.raises(LeaseLost):
            commit(record, 4, "message", "1", 100, fence=1)
        with pytest.raises(LeaseLost):
            fail(record, 4, "message", "late", fence=1)
    for record in (second, failed):
        with pytest.raises(LeaseLost):
            begin(record, 100, "message", 30, fence=1)
    assert begin(done, 4, "message", 30, fence=1) is done
    # Another owner waits, whatever its fence.
    with pytest.raises(AlreadyInProgress):
        begin(second, 4, "other", 30, fence=9)


def test_after_a_failure_the_next_attempt_runs() -> None:
    failed = fail(begin(None, 0, "a", 30), 1, "a", "no connection")
    assert failed.last_error == "no connection"
    record = begin(failed, 2, "b", 30)
    assert (record.status, record.attempts, record.last_error) == (Status.IN_PROGRESS, 2, "no connection")


@pytest.mark.parametrize("seed", range(200))
def test_at_most_one_success_and_never_two_owners(seed: int) -> None:
    """Random callers who do whatever they like, against the rules in their plainest form."""
    generator = random.Random(seed)
    record: Record | None = None
    owner: str | None = None
    lease_end = 0.0
    won: str | None = None
    now = 0.0
    for _ in range(100):
        now += generator.choice((0, 1, 5, 20, 40))
        who = generator.choice("abc")
        action = generator.choice((begin, renew, commit, fail))
        before = record
        try:
            if action is begin:
                record = begin(record, now, who, 30)
            elif action is renew:
                record = renew(record, now, who, 30)
            elif action is commit:
                record = commit(record, now, who, who, DEFAULT_RETENTION)
            else:
                record = fail(record, now, who, "no")
        except AlreadyInProgress:
            assert owner != who
            assert now < lease_end
            continue
        except LeaseLost:
            assert owner != who or action in (renew, fail)
            assert record is before
            continue
        if won is not None:
            assert record.result == won
            continue
        if action is begin:
            assert owner in (None, who) or now >= lease_end or record.attempts > 1
            owner, lease_end = who, now + 30
        elif action is renew:
            assert owner == who
            lease_end = now + 30
        elif action is commit:
            assert owner == who
            won = who
        else:
            assert owner == who
            lease_end = now
        assert Record.from_json(record.to_json()) == record
