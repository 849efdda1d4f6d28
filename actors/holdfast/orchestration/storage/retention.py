"""The retention of an instance, and the idempotency records that are deleted with it. No I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.idempotency.record import DEFAULT_RETENTION
from holdfast.orchestration.core.effects import DeleteRecords
from holdfast.orchestration.core.history import ActivityScheduled

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.orchestration.storage.record import InstanceRecord
    from holdfast.runtime.reads import Reads

# How long after their activity ended records are deleted by themselves, with room for late reminders.
_RECORDS_SECONDS = DEFAULT_RETENTION + 300.0
_EVENTS_AT_ONCE = 1000
_CALLS_AT_ONCE = 1000


class Retention:
    """How long an instance is kept after its end, as far as its code says it."""

    def __init__(self) -> None:
        #: The ``retention_seconds`` of its orchestration when its code ran last; None for those of the server.
        self.seconds: float | None = None
        #: Whether it may have activities with idempotency records.
        self.has_records = False

    def dump(self) -> dict[str, Any]:
        """Returns the fields for the head."""
        is_default = self.seconds is None and not self.has_records
        return {} if is_default else {"retention": [self.seconds, self.has_records]}

    @classmethod
    def restore(cls, head: dict[str, Any]) -> Retention:
        retention = cls()
        if "retention" in head:
            retention.seconds, retention.has_records = head["retention"]
        return retention


def records_to_delete(
    record: InstanceRecord, may_have_record: Callable[[str], bool], now: float
) -> Reads[list[DeleteRecords]]:
    """Reads the histories that are kept. Returns the effects that delete the idempotency records of their activities.

    ``may_have_record`` returns whether an activity of this name may have records. There are none left a day after the
    end of the instance, nor of executions that ended a day ago.
    """
    if not record.retention.has_records or (record.ended_at is not None and now > record.ended_at + _RECORDS_SECONDS):
        return []
    assert record.seed is not None
    calls: list[list[int]] = []
    for execution_id in record.kept_executions:
        after, last = 0, record.events_in(execution_id) or 0
        while after < last:
            page = yield from record.page(execution_id, after, _EVENTS_AT_ONCE, with_mail=False)
            calls += [
                [execution_id, event.seq]
                for event in page
                if isinstance(event, ActivityScheduled) and may_have_record(event.name)
            ]
            after = page[-1].seq
    return [
        DeleteRecords(
            instance_id=record.instance_id, incarnation=record.seed, calls=calls[first : first + _CALLS_AT_ONCE]
        )
        for first in range(0, len(calls), _CALLS_AT_ONCE)
    ]
