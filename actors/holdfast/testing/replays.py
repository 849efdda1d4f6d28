"""Replays every run of a test environment, so that code that is not deterministic is found by its first test."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.orchestration.core import history
from holdfast.orchestration.core.history import load_event
from holdfast.orchestration.core.replayer import verify_history

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.orchestration.core.history import Event
    from holdfast.orchestration.registry import Registry


class ReplayCheck:
    """Replays the executions of one instance."""

    def __init__(self, registry: Registry, instance_id: str) -> None:
        self._registry = registry
        self._instance_id = instance_id
        self._events: list[Event] = []
        self._replayed = 0

    def add(self, events: Sequence[Event]) -> None:
        """Adds new events. Raises NonDeterminism when the code does not do the same again."""
        for event in events:
            if isinstance(event, history.OrchestrationStarted):
                self.replay()
                self._events, self._replayed = [], 0
            self._events.append(event)

    def replay(self, *, at_least: int = 1) -> None:
        """Replays the current execution if it has so many new events. Raises NonDeterminism."""
        if len(self._events) - self._replayed < at_least:
            return
        self._replayed = len(self._events)
        # As another process reads them: without the exceptions that failures have here.
        stored = [load_event(event.dump()) for event in self._events]
        ending = stored[-1]
        if isinstance(ending, history.OrchestrationFailed) and ending.error.kind == "never_yields":
            return
        verify_history(self._registry, self._instance_id, stored, exactly=True)

    def replay_when_idle(self, *, ended: bool) -> None:
        """Replays when the history has doubled, so that long runs take no more than a few replays, and at the end."""
        self.replay(at_least=1 if ended else max(1, self._replayed))
