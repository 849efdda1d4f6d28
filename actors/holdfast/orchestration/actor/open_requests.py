"""The requests without a reply of an instance whose code cannot run, read from what is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.orchestration.core.history import OrchestrationStarted, RequestAnswered, RequestReceived
from holdfast.orchestration.core.messages import MakeRequest

if TYPE_CHECKING:
    from holdfast.orchestration.storage.record import InstanceRecord
    from holdfast.runtime.unit_of_work import Turn


async def open_requests(turn: Turn, record: InstanceRecord, *, with_history: bool) -> set[str]:
    """Reads the ids of the requests that wait in the inbox, and with the history also of those it leaves open."""
    found: set[str] = set()
    if with_history:
        for event in await turn.drive(record.history()):
            if isinstance(event, OrchestrationStarted):
                found |= {mail["request_id"] for mail in event.unread or () if "request_id" in mail}
            elif isinstance(event, RequestReceived):
                found.add(event.request_id)
            elif isinstance(event, RequestAnswered):
                found.discard(event.request_id)
    if not record.blocking.inbox.empty:
        kept = await turn.drive(record.blocking.inbox.all())
        found |= {message.request_id for message in kept if isinstance(message, MakeRequest)}
    return found
