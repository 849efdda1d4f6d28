"""The spans of an instance: its own, from its start to its end, and one for each event and request that it received.

They are made when the turn that recorded them is saved, and a replay records nothing, so each is made once. The ids are
derived from the incarnation, so that spans of other processes can be below a span that does not exist yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.orchestration.core.history import EventRaised, OrchestrationFailed, RequestReceived
from holdfast.orchestration.status import ENDED, Status
from holdfast.tracing import spans

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.orchestration.core.history import Event
    from holdfast.orchestration.storage.record import InstanceRecord
    from holdfast.tracing.spans import Tracer


class InstanceTrace:
    """Notes what happened in a turn, and makes the spans when it is saved."""

    def __init__(self, record: InstanceRecord, tenant: str) -> None:
        self._record = record
        self._tenant = tenant
        self._received: list[EventRaised | RequestReceived] = []
        self._failure: str | None = None
        self._ended = record.status in ENDED
        #: The record of an instance that was deleted before its end.
        self._deleted: InstanceRecord | None = None

    def replace(self, record: InstanceRecord) -> None:
        """Goes on with the record that is left after a deletion."""
        if self._record.exists and not self._ended:
            self._deleted = self._record
        self._record, self._received, self._failure, self._ended = record, [], None, False

    def note(self, events: Sequence[Event]) -> None:
        """Notes the new events of a turn."""
        if self._record.traceparent is None or spans.tracer() is None:
            return
        self._received += [event for event in events if isinstance(event, EventRaised | RequestReceived)]
        if events and isinstance(ending := events[-1], OrchestrationFailed):
            self._failure = ending.error.type

    def saved(self) -> None:
        """Makes the spans of the saved turn."""
        received, self._received = self._received, []
        had_ended, self._ended = self._ended, self._record.status in ENDED
        deleted, self._deleted = self._deleted, None
        tracer, record = spans.tracer(), self._record
        if tracer is None:
            return
        if deleted is not None and deleted.traceparent is not None:
            failed = "Deleted" if deleted.status not in ENDED else self._error_of(deleted)
            self._record_instance(tracer, deleted, deleted.traceparent, spans.now(), failed)
        if record.traceparent is None:
            return
        own = spans.context_of_instance(record.traceparent, record.instance_id, record.seed)
        for event in received:
            kind = "event" if isinstance(event, EventRaised) else "request"
            tracer.record(
                *(f"{kind} {event.name}", own, event.timestamp, event.timestamp),
                kind="CONSUMER",
                attributes=self._attributes(),
                linked=() if event.traceparent is None else (event.traceparent,),
            )
        if self._ended and not had_ended:
            ended_at = record.created_at if record.ended_at is None else record.ended_at
            self._record_instance(tracer, record, record.traceparent, ended_at, self._error_of(record))

    def _error_of(self, record: InstanceRecord) -> str | None:
        return None if record.status is Status.COMPLETED else self._failure or record.status.value

    def _record_instance(
        self, tracer: Tracer, record: InstanceRecord, traceparent: str, ended_at: float, failed: str | None
    ) -> None:
        attributes = self._attributes() | {
            "holdfast.orchestration": record.name,
            "holdfast.version": record.version,
            "holdfast.status": record.status.value,
        }
        tracer.record(
            *(f"orchestration {record.name}", traceparent, record.created_at, ended_at),
            own_id=spans.instance_span(record.instance_id, record.seed),
            failed=failed,
            attributes=attributes,
        )

    def _attributes(self) -> dict[str, str | int | bool]:
        return {"holdfast.instance_id": self._record.instance_id, "holdfast.tenant": self._tenant}
