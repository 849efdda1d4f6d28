"""Verifies that the current code still replays a recorded history."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import NonDeterminism
from holdfast.orchestration.core import history
from holdfast.orchestration.core.execution import Execution

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.orchestration.core.history import Event
    from holdfast.orchestration.registry import Registry

# Kinds of failures that the code did not cause itself, so that a replay does not reproduce them.
_NOT_OF_THE_CODE = ("never_yields",)


def verify_history(registry: Registry, instance_id: str, events: Sequence[Event]) -> None:
    """Replays one execution completely. Raises NonDeterminism or UnknownOrchestration when the code does not fit."""
    if not events or not isinstance(events[0], history.OrchestrationStarted):
        raise NonDeterminism("A history begins with OrchestrationStarted.")
    started, ending = events[0], events[-1]
    if isinstance(ending, history.OrchestrationFailed) and ending.forced:
        events = events[:-1]
    elif isinstance(ending, history.OrchestrationFailed) and ending.error.kind in _NOT_OF_THE_CODE:
        raise NonDeterminism(f"This history ended with an error that cannot be replayed: {ending.error}")
    definition = registry.orchestration(started.name, started.version)
    execution = Execution(registry, definition, instance_id, started)
    try:
        execution.replay(events)
    finally:
        execution.close()
