"""Retry policies of activities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.backoff import backoff_seconds

if TYPE_CHECKING:
    from random import Random

    from holdfast.orchestration.core.failures import Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """A retry policy: at most ``max_attempts`` attempts with exponential delays between them, in seconds.

    The delay starts at ``first_delay`` and is multiplied by ``factor`` each time, up to ``max_delay``. It varies by up
    to the fraction ``jitter``, so that activities that failed together are not retried together. Exceptions of the
    ``non_retryable`` types are not retried.
    """

    max_attempts: int = 3
    first_delay: float = 1.0
    factor: float = 2.0
    max_delay: float = 60.0
    jitter: float = 0.1
    non_retryable: tuple[type[BaseException], ...] = ()

    def __post_init__(self) -> None:
        if self.max_attempts < 1:
            raise ValueError("max_attempts must be at least 1, which means no retry.")
        if self.first_delay < 0 or self.max_delay < 0 or self.factor <= 0:
            raise ValueError("first_delay and max_delay must be at least 0 seconds, and factor greater than 0.")
        if not 0 <= self.jitter <= 1:
            raise ValueError("jitter must be a fraction of the delay, from 0 to 1.")

    def allows(self, attempt: int, failure: Failure) -> bool:
        """Returns whether another attempt follows ``attempt``, which failed with ``failure``."""
        if attempt >= self.max_attempts or not failure.retryable:
            return False
        return not any(failure.is_a(kind) for kind in self.non_retryable)

    def delay(self, attempt: int, random: Random) -> float:
        """Returns the seconds between the failure of ``attempt`` and the next attempt."""
        delay = backoff_seconds(attempt, self.first_delay, self.factor, self.max_delay)
        return delay * (1 + self.jitter * (2 * random.random() - 1))


#: No retry.
ONCE = Retry(max_attempts=1)
