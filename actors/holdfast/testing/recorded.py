"""Histories that were recorded, against the code of today."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.errors import InvalidRequest, NonDeterminism
from holdfast.orchestration.execution import Execution
from holdfast.orchestration.history import OrchestrationStarted, load_event

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.app import App
    from holdfast.orchestration.history import Event


def replay(app: App, recorded: Mapping[str, Any]) -> None:
    """Plays a history again that ``holdfast orchestration export`` wrote.

    Raises NonDeterminism, with the step that differs and the line of the code, when the code would not do the same.
    """
    try:
        instance_id, events = recorded["instance_id"], [load_event(event) for event in recorded["events"]]
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidRequest(f"This is not a history that was exported: {error}.") from error
    if not events or not isinstance(events[0], OrchestrationStarted):
        raise InvalidRequest("A history begins with OrchestrationStarted.")
    started = events[0]
    definition = app.registry.orchestration(started.name, started.version)
    execution = Execution(app.registry, definition, instance_id, started)
    try:
        execution.replay(events)
        _compare_end(execution, events[-1])
    finally:
        execution.close()


def _compare_end(execution: Execution, last: Event) -> None:
    if execution.ended is not None and execution.ended.seq != last.seq:
        raise NonDeterminism(f"The code ends with event {execution.ended.seq}, the history with {last.seq}.")
