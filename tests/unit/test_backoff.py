"""Exponential back-off."""

from __future__ import annotations

from holdfast.backoff import backoff_seconds


def test_the_delay_grows_by_the_factor_up_to_the_longest() -> None:
    assert [backoff_seconds(failures, 1, 2, 10) for failures in range(1, 7)] == [1, 2, 4, 8, 10, 10]


def test_the_longest_delay_bounds_the_first_too() -> None:
    assert backoff_seconds(1, 600, 2, 300) == 300


def test_no_first_delay_means_none_at_all() -> None:
    assert backoff_seconds(1_000_000, 0, 1000, 300) == 0


def test_any_number_of_failures_has_a_delay() -> None:
    assert backoff_seconds(1_000_000, 0.001, 1000, 300) == 300
