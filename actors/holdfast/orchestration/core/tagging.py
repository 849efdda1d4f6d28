"""The tags of one execution: as its history has them, and as its code sees them within a step."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from holdfast.orchestration.core.history import TagsSet
from holdfast.orchestration.tags import check_changes, merged

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from holdfast.orchestration.core.history import Event
    from holdfast.orchestration.tags import Tags


class Tagging:
    """The tags of one execution. What the history records counts, also where the code has changed."""

    def __init__(self, recorded: Tags) -> None:
        self.recorded = recorded
        self._current = recorded

    def change(self, changes: Mapping[str, str | None]) -> dict[str, str | None]:
        """Returns the changes to record. Raises InvalidRequest when they, or the tags after them, are not valid."""
        checked = check_changes(self._current, changes)
        self._current = merged(self._current, checked)
        return checked

    def settle(self, events: Iterable[Event]) -> None:
        """Applies the recorded changes of a step."""
        changes = [event for event in events if isinstance(event, TagsSet)]
        if changes:
            for event in sorted(changes, key=attrgetter("seq")):
                self.recorded = merged(self.recorded, event.tags)
            self._current = self.recorded
