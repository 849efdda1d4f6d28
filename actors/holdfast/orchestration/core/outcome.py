"""The end of an execution: clean-up after its main task, the event that ends it, and the effects that follow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.errors import TooLarge
from holdfast.orchestration.core import history
from holdfast.orchestration.core.effects import ABANDON, CancelActivity, CancelSubOrchestration, NotifyParent
from holdfast.orchestration.core.failures import Failure
from holdfast.orchestration.core.payloads import keepable
from holdfast.orchestration.core.replay import unanswered
from holdfast.orchestration.core.time_limit import TIME_IS_OVER, failed_at_limit

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from holdfast.orchestration.core.effects import Effect
    from holdfast.orchestration.core.history import Event, Json
    from holdfast.orchestration.core.json_records import Parent
    from holdfast.orchestration.definitions import Orchestration
    from holdfast.orchestration.loop.loop import ReplayLoop


class ContinueAsNew(BaseException):
    """Raised to end this execution and start the next with a new input. ``except Exception`` does not catch it."""

    def __init__(self, text: Json, version: str | None = None) -> None:
        super().__init__("the orchestration continues as new")
        self.input = text
        self.version = version


class CleanUp:
    """Ends the tasks left by the main task, as ``asyncio.run`` does: other tasks first, then async generators."""

    def __init__(self, loop: ReplayLoop) -> None:
        self._loop = loop
        closings = loop.closing_tasks()
        # A task that closes a generator is clean-up itself: it is awaited, where asyncio.run would cancel it.
        self._tasks = [task for task in loop.live_tasks() if task not in closings]
        self._closes_generators = False
        for task in self._tasks:
            task.cancel()

    def advance(self) -> bool:
        """Runs the clean-up until every task waits. Returns whether all tasks have ended."""
        self._loop.run_ready()
        if self._closes_generators or self.tasks():
            return not self.tasks()
        self._closes_generators = True
        self._loop.close_generators()
        self._loop.run_ready()
        return not self.tasks()

    def tasks(self) -> list[asyncio.Task[Any]]:
        """Returns the tasks that have not ended."""
        return [*(task for task in self._tasks if not task.done()), *self._loop.closing_tasks()]


def terminal_event(
    task: asyncio.Task[Any], definition: Orchestration, cancel_reason: str | None
) -> tuple[type[Event], dict[str, Any]]:
    """Returns the type and the fields of the event that ends the execution of a finished main task."""
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
        return history.ContinuedAsNew, {"input": following.input, "version": following.version}
    return history.OrchestrationFailed, {"error": Failure.of(error)}


def cancelled_without_code(
    instance_id: str, events: Sequence[Event], reason: str | None, now: float
) -> tuple[list[Event], list[Effect]]:
    """Returns the events and effects that cancel an instance whose code cannot run and therefore cannot clean up."""
    place: dict[str, Any] = {"execution_id": events[0].execution_id, "timestamp": now}
    last = events[-1].seq
    ended = history.OrchestrationCancelled(seq=last + 2, reason=reason, **place)
    cancelled = history.CancelRequested(seq=last + 1, reason=reason, **place)
    return [cancelled, ended], _ended(instance_id, events, ended, reason)


def timed_out_without_code(instance_id: str, events: Sequence[Event], now: float) -> tuple[list[Event], list[Effect]]:
    """Returns the events and effects that end an instance at its time limit whose code cannot run."""
    place: dict[str, Any] = {"execution_id": events[0].execution_id, "timestamp": now}
    failure = failed_at_limit(TIME_IS_OVER)
    ended = history.OrchestrationFailed(seq=events[-1].seq + 1, error=failure, forced=True, **place)
    return [ended], _ended(instance_id, events, ended, TIME_IS_OVER)


def _ended(instance_id: str, events: Sequence[Event], ended: Event, reason: str | None) -> list[Effect]:
    """Returns the effects of the end of an instance whose open calls are in its history."""
    started = events[0]
    assert isinstance(started, history.OrchestrationStarted)
    return [
        *released(unanswered(events), instance_id, started.seed, reason),
        *parent_notification(started.parent, ended),
    ]


def released(scheduled: Sequence[Event], instance_id: str, seed: str, reason: str | None) -> list[Effect]:
    """Returns the effects that cancel scheduled activities and children whose results are no longer needed.

    Children that their parent abandons are not cancelled.
    """
    effects: list[Effect] = []
    for event in scheduled:
        if isinstance(event, history.ActivityScheduled):
            effects.append(
                CancelActivity(
                    execution_id=event.execution_id, scheduled_seq=event.seq, name=event.name, queue=event.queue
                )
            )
        elif isinstance(event, history.SubOrchestrationScheduled) and event.on_parent_end != ABANDON:
            effects.append(CancelSubOrchestration.of(event, instance_id, seed, reason))
    return effects


def parent_notification(parent: Parent | None, ended: Event) -> list[Effect]:
    """Returns the effect that reports the outcome to the parent, if there is one."""
    if parent is None:
        return []
    if isinstance(ended, history.OrchestrationCompleted):
        return [NotifyParent(parent=parent, result=ended.output)]
    if isinstance(ended, history.OrchestrationFailed):
        return [NotifyParent(parent=parent, error=ended.error)]
    if isinstance(ended, history.OrchestrationCancelled):
        cancelled = Failure(type="CancelledError", message=ended.reason or "", kind="cancelled")
        return [NotifyParent(parent=parent, error=cancelled)]
    return []


def _continuation(error: BaseException) -> ContinueAsNew | None:
    if isinstance(error, ContinueAsNew):
        return error
    if isinstance(error, BaseExceptionGroup):
        # Raised inside a task group, which wraps the exceptions of its tasks.
        found, others = error.split(ContinueAsNew)
        if found is not None and others is None:
            return _first_leaf(found)
    return None


def _first_leaf(group: BaseExceptionGroup[ContinueAsNew]) -> ContinueAsNew:
    first = group.exceptions[0]
    return _first_leaf(first) if isinstance(first, BaseExceptionGroup) else first
