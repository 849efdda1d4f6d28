"""Exponential back-off: how long to wait after a number of failures in a row."""

from __future__ import annotations


def backoff_seconds(failures: int, first: float, factor: float, longest: float) -> float:
    """Returns the delay after this many failures: ``first * factor ** (failures - 1)``, at most ``longest``."""
    if not first:
        return 0.0
    try:
        return min(first * float(factor) ** max(0, failures - 1), longest)
    except OverflowError:
        return longest
