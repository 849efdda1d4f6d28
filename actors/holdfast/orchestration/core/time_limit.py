"""The time limit of an instance: its code is cancelled when the time is over, and ended a minute after that."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from holdfast.orchestration.core.failures import Failure

if TYPE_CHECKING:
    import asyncio

#: How long code that was cancelled at the limit, or before, may take to clean up.
CLEAN_UP_SECONDS = 60.0

TIME_IS_OVER = "Its timeout_seconds are over."
_ENDED = "It did not end within a minute after it was cancelled because its timeout_seconds were over."


class Limit(NamedTuple):
    """The next moment at which the time limit changes something."""

    moment: float
    #: Whether the instance is ended then; otherwise its code is cancelled.
    is_final: bool


def next_limit(deadline: float | None, cancelled_at: float | None) -> Limit | None:
    """Returns what comes next for an instance with this deadline, whose code was cancelled at ``cancelled_at``."""
    if deadline is None:
        return None
    if cancelled_at is None:
        return Limit(deadline, is_final=False)
    return Limit(max(deadline, cancelled_at) + CLEAN_UP_SECONDS, is_final=True)


def timed_out(task: asyncio.Task[object]) -> Failure:
    """Returns the failure of an instance whose code ended after it was cancelled at the limit."""
    error = None if task.cancelled() else task.exception()
    # Whatever else the code did at its end, it did it too late. An error in its clean-up is shown.
    return Failure.of(error, "timeout") if isinstance(error, Exception) else failed_at_limit(TIME_IS_OVER)


def ended_at_limit() -> Failure:
    """Returns the failure of an instance whose code did not end in time."""
    return failed_at_limit(_ENDED)


def failed_at_limit(message: str) -> Failure:
    return Failure(type="TimeoutError", message=message, kind="timeout")
