"""The events and requests in the inbox of a BLOCKED instance: how much room is left, and which events are repeats."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.orchestration.core.limits import DEFAULT_LIMITS
from holdfast.orchestration.core.messages import MakeRequest, RaiseEvent
from holdfast.orchestration.core.unread import Unread

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.orchestration.core.messages import Message


class InboxMail:
    """Mail that was delivered still counts until the whole inbox is."""

    def __init__(self, messages: Iterable[Message]) -> None:
        self._unread = Unread()
        self._event_ids: set[str] = set()
        for message in messages:
            self.add(message)

    def add(self, message: Message) -> None:
        if isinstance(message, RaiseEvent | MakeRequest):
            self._unread.add(message.data)
        if isinstance(message, RaiseEvent) and message.event_id is not None:
            self._event_ids.add(message.event_id)

    def has_event(self, event_id: str | None) -> bool:
        return event_id in self._event_ids

    def check_room(self, instance_id: str, message: RaiseEvent | MakeRequest) -> None:
        """Raises Capacity when there is no room for this event or request."""
        self._unread.check_room(instance_id, message.data, DEFAULT_LIMITS)
