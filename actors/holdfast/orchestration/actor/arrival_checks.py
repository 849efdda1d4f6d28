"""Checks of events and requests for an instance whose code cannot process them now, because it is BLOCKED."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import NotFound, StorageBroken, UnknownOrchestration
from holdfast.orchestration.core.history import OrchestrationStarted
from holdfast.orchestration.core.messages import MakeRequest, RaiseEvent

if TYPE_CHECKING:
    from holdfast.orchestration.core.messages import Message
    from holdfast.orchestration.definitions import Orchestration
    from holdfast.orchestration.registry import Registry
    from holdfast.orchestration.storage.record import InstanceRecord
    from holdfast.runtime.unit_of_work import Turn


async def check_arrival(turn: Turn, record: InstanceRecord, registry: Registry, message: Message) -> None:
    """Raises InvalidRequest for data that does not fit its mailbox or request, if the deployed code has a type.

    Raises NotFound for a request that neither the deployed code nor the history of the instance declares.
    """
    definition = _deployed(record, registry)
    if isinstance(message, MakeRequest):
        declared = definition is not None and message.name in definition.requests
        if not declared and message.name not in ((await _started(turn, record)).requests or ()):
            raise NotFound(f"The orchestration {record.name} has no request {message.name}.")
        if definition is not None:
            definition.requests.check(message.name, message.data)
    elif isinstance(message, RaiseEvent) and definition is not None:
        definition.mailboxes.check(message.name, message.data)


async def is_mailbox(turn: Turn, record: InstanceRecord, registry: Registry, name: str) -> bool:
    """Returns whether the instance has this mailbox, by the deployed code or by its history."""
    definition = _deployed(record, registry)
    if definition is not None and name in definition.mailboxes:
        return True
    return name in ((await _started(turn, record)).mailboxes or ())


async def _started(turn: Turn, record: InstanceRecord) -> OrchestrationStarted:
    [started] = await turn.drive(record.page(record.execution_id, 0, 1, with_mail=False))
    if not isinstance(started, OrchestrationStarted):
        raise StorageBroken(f"The history of {record.instance_id} is damaged: it begins with {started.type}.")
    return started


def _deployed(record: InstanceRecord, registry: Registry) -> Orchestration | None:
    try:
        return registry.orchestration(record.name, record.version)
    except UnknownOrchestration:
        return None
