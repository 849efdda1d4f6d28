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


def looked(policy: InlineCommitPolicy, *, seconds: float = SHORT / 2, met: int = 0) -> int:
    """Hands over what it takes to see; answers how many stay then."""
    for number in range(LOOK):
        assert not policy.commit_inline()
        policy.record_handoff(seconds, met=number < met)
    return record_inline(policy)


def record_inline(policy: InlineCommitPolicy) -> int:
    number = 0
    while policy.commit_inline():
        policy.record_inline(SHORT)
        number += 1
    return number


def test_some_are_handed_over_again_and_again_to_see() -> None:
    policy = InlineCommitPolicy()
    for _ in range(3):
        assert looked(policy) == HERE


@pytest.mark.parametrize(("met", "expected"), [(MEETINGS, HERE), (MEETINGS + 1, 0), (LOOK, 0)])
def test_where_many_come_together_none_stays(met: int, expected: int) -> None:
    policy = InlineCommitPolicy()
    assert looked(policy, met=met) == expected
    assert looked(policy) == HERE


def test_where_the_disk_is_slow_none_stays() -> None:
    policy = InlineCommitPolicy()
    assert looked(policy, seconds=SHORT * 1.01) == 0
    # One that is late among many is not the disk.
    policy.record_handoff(SHORT * LOOK / 2, met=False)
    for _ in range(LOOK - 1):
        policy.record_handoff(SHORT / 4, met=False)
    assert record_inline(policy) == HERE


@pytest.mark.parametrize(("disturbed", "left"), [(DISTURBED, HERE - 1), (DISTURBED + 1, 0)])
def test_where_many_come_meanwhile_no_more_stay(disturbed: int, left: int) -> None:
    policy = InlineCommitPolicy()
    for _ in range(LOOK):
        policy.record_handoff(0.0, met=False)
    assert policy.commit_inline()
    for _ in range(disturbed):
        policy.record_handoff(0.0, met=True)
    assert record_inline(policy) == left
    assert looked(policy) == HERE


@pytest.mark.parametrize("how", ["long", "failed"])
def test_after_one_that_held_up_everybody_it_takes_a_while(how: str) -> None:
    policy = InlineCommitPolicy()
    for _ in range(LOOK):
        policy.record_handoff(0.0, met=False)
    assert policy.commit_inline()
    if how == "long":
        policy.record_inline(LONG * 1.01)
    else:
        policy.failed()
    for _ in range(AVOID):
        assert not policy.commit_inline()
        policy.record_handoff(0.0, met=False)
    assert looked(policy) == HERE
