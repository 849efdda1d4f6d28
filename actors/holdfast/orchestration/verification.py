"""Whether today's code still does what a recorded history says it did."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import NonDeterminism
from holdfast.orchestration import history
from holdfast.orchestration.execution import Execution

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.orchestration.history import Event
    from holdfast.orchestration.registry import Registry

# What ended these was not the code's own doing, and does not come again when it is replayed.
_NOT_OF_THE_CODE = ("non_determinism", "never_yields")


def verify_history(registry: Registry, instance_id: str, events: Sequence[Event]) -> None:
    """Replays one execution, to its end if it has one. Raises NonDeterminism, or UnknownOrchestration."""
    if not events or not isinstance(events[0], history.OrchestrationStarted):
        raise NonDeterminism("A history begins with OrchestrationStarted.")
    ending = events[-1]
    if isinstance(ending, history.OrchestrationFailed) and ending.error.kind in _NOT_OF_THE_CODE:
        raise NonDeterminism(f"This history ended with an error that cannot be replayed: {ending.error}")
    definition = registry.orchestration(events[0].name, events[0].version)
    execution = Execution(registry, definition, instance_id, events[0])
    try:
        execution.replay(events)
    finally:
        execution.close()
