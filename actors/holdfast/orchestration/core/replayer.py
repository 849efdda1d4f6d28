"""Replays recorded histories with the current code, without side effects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.errors import NonDeterminism
from holdfast.orchestration.core import history
from holdfast.orchestration.core.execution import Execution
from holdfast.orchestration.core.instance import Blocked, Instance
from holdfast.orchestration.core.replay import nondeterminism

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.orchestration.core.history import Event
    from holdfast.orchestration.registry import Registry

# Kinds of failures that the code did not cause itself, so that a replay does not reproduce them.
_NOT_OF_THE_CODE = ("never_yields",)


def find_obstacle(
    registry: Registry, instance_id: str, events: Sequence[Event], *, begun: bool = True
) -> dict[str, Any] | None:
    """Returns the reason why the code would block a running instance with this history; None when the code fits.

    ``events`` are all of its current execution, whose first step is still to come if it has not ``begun``.
    """
    instance = None
    try:
        instance = Instance.restore(
            registry, instance_id, events, begun=begun, mail_is_stored=True, executions_at_once=1
        )
        if not begun:
            instance.deliver([], events[-1].timestamp)
    except Blocked as blocked:
        return blocked.reason
    finally:
        if instance is not None:
            instance.close()
    return None


def verify_history(registry: Registry, instance_id: str, events: Sequence[Event], *, exactly: bool = False) -> None:
    """Replays one execution completely. Raises NonDeterminism or UnknownOrchestration when the code does not fit.

    With ``exactly`` inputs, due times and the outcome have to be the recorded ones too, as for code that has not
    changed.
    """
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
        if exactly:
            _check_same(execution, ending)
    finally:
        execution.close()


def _check_same(execution: Execution, ending: Event) -> None:
    """Raises NonDeterminism for what a replay by changed code may differ in."""
    if execution.accepted:
        recorded = execution.accepted[0]
        raise nondeterminism(recorded, "the same call with another input or due time", None, content=True)
    for name, made in execution.end_fields.items() if execution.ended is not None else ():
        recorded_value = getattr(ending, name, made)
        if str(recorded_value) != str(made):
            raise nondeterminism(ending, f"{ending.type} with another {name}", None)
