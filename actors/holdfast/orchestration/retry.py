"""How often a failed activity is tried, and what lies between two attempts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

    from holdfast.orchestration.failures import Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """``max_attempts`` in all; between them ``first_delay`` seconds, each time ``factor`` longer, up to ``max_delay``.

    Each delay is shorter or longer by up to the ``jitter``th part of it, so that what failed together does not come
    back together. What is one of the ``non_retryable`` exception types is not tried again.
    """

    max_attempts: int = 3
    first_delay: float = 1.0
    factor: float = 2.0
    max_delay: float = 60.0
    jitter: float = 0.1
    non_retryable: tuple[type[BaseException], ...] = ()

    def __post_init__(self) -> None:
        if self.max_attempts < 1:
            raise ValueError("max_attempts: at least 1, which is no retry at all.")
        if self.first_delay < 0 or self.max_delay < 0 or self.factor <= 0:
            raise ValueError("first_delay and max_delay are seconds from 0, factor is more than 0.")
        if not 0 <= self.jitter <= 1:
            raise ValueError("jitter: a part from 0 to 1 of the delay.")

    def allows(self, attempt: int, failure: Failure) -> bool:
        """Whether another attempt follows this one, which failed so."""
        if attempt >= self.max_attempts or not failure.retryable:
            return False
        return not any(failure.is_a(kind) for kind in self.non_retryable)

    def delay(self, attempt: int, random: Random) -> float:
        """The seconds from the failure of this attempt to the next one."""
        try:
            delay = min(self.first_delay * self.factor ** (attempt - 1), self.max_delay)
        except OverflowError:
            delay = self.max_delay
        return delay * (1 + self.jitter * (2 * random.random() - 1))


#: No retry.
ONCE = Retry(max_attempts=1)
