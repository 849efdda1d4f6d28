"""The deletion of an instance: by a call, or by its retention."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from holdfast.orchestration.core.replay import unanswered
from holdfast.orchestration.storage.retention import records_to_delete

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.orchestration.actor.loaded_instance import LoadedInstance
    from holdfast.orchestration.core.history import Event
    from holdfast.orchestration.registry import Registry
    from holdfast.orchestration.storage.record import InstanceRecord
    from holdfast.runtime.unit_of_work import Turn

log = logging.getLogger(__name__)

# The pause after which a deletion is tried again that has to wait for effects to arrive.
_RETRY_SECONDS = 60.0


async def delete(turn: Turn, state: LoadedInstance, registry: Registry, now: float) -> None:
    """Deletes the instance with its history, and the idempotency records of its activities."""
    record = state.record
    awaited: Sequence[Event] = ()
    if not record.ended:
        awaited = unanswered(await turn.drive(record.history()))
    records = await turn.drive(records_to_delete(record, registry.may_have_record, now))
    state.replace(record.deleted(awaited, now, records))


async def delete_if_over(
    turn: Turn, state: LoadedInstance, registry: Registry, now: float, default: float | None
) -> None:
    """Deletes the instance if its retention is over and its last effects, as to its parent, have arrived.

    A parent that has not heard of the end would start its child again.
    """
    moment = _over_at(state.record, default)
    if moment is None or moment > now:
        return
    state.record.outbox.remove_arrived()
    if not state.record.outbox:
        await delete(turn, state, registry, now)


def next_deletion(record: InstanceRecord, now: float, default: float | None) -> float | None:
    """Returns when the deletion of an instance is to be tried, or tried again."""
    moment = _over_at(record, default)
    return now + _RETRY_SECONDS if moment is not None and moment <= now else moment


def _over_at(record: InstanceRecord, default: float | None) -> float | None:
    """Returns when the retention of an instance is over; None if it has not ended, or is kept for good."""
    seconds = default if record.retention.seconds is None else record.retention.seconds
    if record.ended_at is None or seconds is None or not record.ended:
        return None
    return record.ended_at + seconds
