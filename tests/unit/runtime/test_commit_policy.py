"""Saves are committed where they are asked for only while they come one at a time, and commits are short."""

from __future__ import annotations

import pytest

from holdfast.runtime.embedded.commit_policy import (
    AVOID,
    DISTURBED,
    HERE,
    LONG,
    LOOK,
    MEETINGS,
    SHORT,
    InlineCommitPolicy,
)


def looked(pace: InlineCommitPolicy, *, seconds: float = SHORT / 2, met: int = 0) -> int:
    """Hands over what it takes to see; answers how many stay then."""
    for number in range(LOOK):
        assert not pace.stays()
        pace.record_handoff(seconds, met=number < met)
    return record_inline(pace)


def record_inline(pace: InlineCommitPolicy) -> int:
    number = 0
    while pace.stays():
        pace.record_inline(SHORT)
        number += 1
    return number


def test_some_are_handed_over_again_and_again_to_see() -> None:
    pace = InlineCommitPolicy()
    for _ in range(3):
        assert looked(pace) == HERE


@pytest.mark.parametrize(("met", "expected"), [(MEETINGS, HERE), (MEETINGS + 1, 0), (LOOK, 0)])
def test_where_many_come_together_none_stays(met: int, expected: int) -> None:
    pace = InlineCommitPolicy()
    assert looked(pace, met=met) == expected
    assert looked(pace) == HERE


def test_where_the_disk_is_slow_none_stays() -> None:
    pace = InlineCommitPolicy()
    assert looked(pace, seconds=SHORT * 1.01) == 0
    # One that is late among many is not the disk.
    pace.record_handoff(SHORT * LOOK / 2, met=False)
    for _ in range(LOOK - 1):
        pace.record_handoff(SHORT / 4, met=False)
    assert record_inline(pace) == HERE


@pytest.mark.parametrize(("disturbed", "left"), [(DISTURBED, HERE - 1), (DISTURBED + 1, 0)])
def test_where_many_come_meanwhile_no_more_stay(disturbed: int, left: int) -> None:
    pace = InlineCommitPolicy()
    for _ in range(LOOK):
        pace.record_handoff(0.0, met=False)
    assert pace.stays()
    for _ in range(disturbed):
        pace.record_handoff(0.0, met=True)
    assert record_inline(pace) == left
    assert looked(pace) == HERE


@pytest.mark.parametrize("how", ["long", "failed"])
def test_after_one_that_held_up_everybody_it_takes_a_while(how: str) -> None:
    pace = InlineCommitPolicy()
    for _ in range(LOOK):
        pace.record_handoff(0.0, met=False)
    assert pace.stays()
    if how == "long":
        pace.record_inline(LONG * 1.01)
    else:
        pace.failed()
    for _ in range(AVOID):
        assert not pace.stays()
        pace.record_handoff(0.0, met=False)
    assert looked(pace) == HERE
