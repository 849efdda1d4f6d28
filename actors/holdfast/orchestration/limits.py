"""How long code may run without waiting for anything that takes time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Of one step: from what woke the code until everything waits."""

    #: Far more than a fan-out of a hundred thousand needs.
    callbacks: int = 1_000_000
    #: Of the machine's own time, which the code itself never sees.
    seconds: float = 10.0


DEFAULT_LIMITS = Limits()
