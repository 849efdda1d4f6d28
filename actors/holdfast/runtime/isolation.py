"""Isolates calls that share a turn: a call that fails the turn fails alone, and the others get their own turns."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError, InvalidRequest, TooLarge

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    Turn = Callable[[Sequence[tuple[str, Any]]], Awaitable[dict[str, Any]]]

log = logging.getLogger(__name__)


def isolated(turn: Turn, commits: Callable[[], int], name: str) -> Turn:
    """Returns a turn that is repeated for each call alone if it fails for all of them together.

    ``commits`` returns how often the actor has begun to save. A turn that failed after that is not repeated, because it
    is unknown whether its changes are stored.
    """

    async def run(calls: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        before = commits()
        try:
            return await turn(calls)
        except Exception as error:
            # Any error is passed on to the callers, unless it can be attributed to one of them.
            if len(calls) < 2 or not _may_be_repeated(error, saved=commits() != before):
                raise
            log.warning("%s: a batch of %d calls failed, running each call alone: %r", name, len(calls), error)
        answer: dict[str, Any] | None = None
        replies: list[Any] = []
        failure: Exception | None = None
        for call in calls:
            try:
                answer = await turn([call])
                replies += answer["replies"]
            except Exception as error:
                # Only its own caller gets the error.
                failure = error
                replies.append(_refusal(error, f"{name}, {call[0]}"))
        if answer is None:
            assert failure is not None
            raise failure
        return answer | {"replies": replies}

    return run


def _may_be_repeated(error: Exception, *, saved: bool) -> bool:
    if isinstance(error, InvalidRequest | TooLarge):
        return True  # the store rejected it, so nothing was saved
    return not saved and not (isinstance(error, HoldfastError) and error.retryable)


def _refusal(error: Exception, where: str) -> dict[str, Any]:
    if not isinstance(error, HoldfastError):
        log.error("%s failed", where, exc_info=error)
        error = HoldfastError("Something went wrong here; the server's log has the reason.")
    return {"success": False, "message": error.message, "error_code": error.code, **error.details}
