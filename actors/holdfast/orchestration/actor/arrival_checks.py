"""Checks of events for an instance whose code cannot process them now, because it is BLOCKED."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import UnknownOrchestration
from holdfast.orchestration.core.history import OrchestrationStarted
from holdfast.orchestration.core.messages import RaiseEvent

if TYPE_CHECKING:
    from holdfast.orchestration.core.messages import Message
    from holdfast.orchestration.definitions import Orchestration
    from holdfast.orchestration.registry import Registry
    from holdfast.orchestration.storage.record import InstanceRecord
    from holdfast.runtime.unit_of_work import Turn


async def check_arrival(turn: Turn, record: InstanceRecord, registry: Registry, message: Message) -> None:
    """Raises InvalidRequest for mail that does not fit the type of its mailbox, if the deployed code has a type."""
    definition = _deployed(record, registry)
    if definition is not None and isinstance(message, RaiseEvent):
        definition.mailboxes.check(message.name, message.data)


async def is_mailbox(turn: Turn, record: InstanceRecord, registry: Registry, name: str) -> bool:
    """Returns whether the instance has this mailbox, by the deployed code or by its history."""
    definition = _deployed(record, registry)
    if definition is not None and name in definition.mailboxes:
        return True
    [started] = await turn.drive(record.page(record.execution_id, 0, 1, with_mail=False))
    return isinstance(started, OrchestrationStarted) and name in (started.mailboxes or ())


def _deployed(record: InstanceRecord, registry: Registry) -> Orchestration | None:
    try:
        return registry.orchestration(record.name, record.version)
    except UnknownOrchestration:
        return None
