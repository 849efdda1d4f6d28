"""How an execution ends: what the outcome of its main task is in its history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.errors import TooLarge
from holdfast.orchestration import history
from holdfast.orchestration.failures import Failure
from holdfast.orchestration.payloads import keepable

if TYPE_CHECKING:
    import asyncio

    from holdfast.orchestration.definitions import Orchestration
    from holdfast.orchestration.history import Event, Json


class ContinueAsNew(BaseException):
    """Ends this run; the next begins with another input. Code that catches every Exception lets it by."""

    def __init__(self, text: Json) -> None:
        super().__init__("the orchestration continues as new")
        self.input = text


def ending_of(
    task: asyncio.Task[Any], definition: Orchestration, cancel_reason: str | None
) -> tuple[type[Event], dict[str, Any]]:
    """The event that a finished main task ends its execution with."""
    if task.cancelled():
        return history.OrchestrationCancelled, {"reason": cancel_reason}
    error = task.exception()
    if error is None:
        try:
            return history.OrchestrationCompleted, {
                "output": keepable(definition.result.dump(task.result()), "An output")
            }
        except (TypeError, TooLarge) as unwritable:
            return history.OrchestrationFailed, {"error": Failure.of(unwritable)}
    following = _continuation(error)
    if following is not None:
        return history.ContinuedAsNew, {"input": following.input}
    return history.OrchestrationFailed, {"error": Failure.of(error)}


def _continuation(error: BaseException) -> ContinueAsNew | None:
    if isinstance(error, ContinueAsNew):
        return error
    if isinstance(error, BaseExceptionGroup):
        # Raised inside a task group, which wraps what it passes on.
        found, others = error.split(ContinueAsNew)
        if found is not None and others is None:
            return _first_leaf(found)
    return None


def _first_leaf(group: BaseExceptionGroup[ContinueAsNew]) -> ContinueAsNew:
    first = group.exceptions[0]
    return _first_leaf(first) if isinstance(first, BaseExceptionGroup) else first
