"""Replays recorded histories with the current code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.errors import InvalidRequest
from holdfast.orchestration.core.history import load_event
from holdfast.orchestration.core.replayer import verify_history

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.app import App


def replay(app: App, recorded: Mapping[str, Any]) -> None:
    """Replays a history that ``holdfast orchestration export`` wrote.

    Raises NonDeterminism, with the step that differs and the line of the code, when the code diverges from it.
    """
    try:
        instance_id, events = recorded["instance_id"], [load_event(event) for event in recorded["events"]]
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidRequest(f"This is not an exported history: {error}.") from error
    verify_history(app.registry, instance_id, events)
