"""Reruns: an instance gives its history to be copied, another one begins with the copy, and the first one lists it."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from holdfast.errors import Conflict, InvalidRequest, NotFound
from holdfast.logs import code_fields
from holdfast.orchestration.api import requests
from holdfast.orchestration.core.copies import Copy
from holdfast.orchestration.core.effects import NoteRerun
from holdfast.orchestration.core.instance import Blocked, Instance

if TYPE_CHECKING:
    from holdfast.orchestration.actor.loaded_instance import LoadedInstance
    from holdfast.orchestration.registry import Registry
    from holdfast.orchestration.storage.record import InstanceRecord
    from holdfast.runtime.unit_of_work import Turn

Answer = dict[str, Any]


async def copy_history(turn: Turn, record: InstanceRecord, data: Any) -> Answer:
    """Returns a page of the history, with stack traces and unread mail, as far as it fits into one reply."""
    request = requests.CopyHistoryRequest.parse(data)
    execution_id = request.execution_id or record.execution_id
    last = record.events_in(execution_id)
    if last is None:
        raise NotFound(f"The history of execution {execution_id} is not kept.")
    events = await turn.drive(record.page(execution_id, request.after, requests.MAX_PAGE))
    return {
        "success": True,
        "execution_id": execution_id,
        "seed": record.seed,
        "last": last,
        "events": [event.dump() for event in events],
    }


def begin(state: LoadedInstance, registry: Registry, data: Any, now: float) -> Answer:
    """Makes the instance from copied events. All of it is saved in one turn, with the note for its source.

    Raises Conflict when its id is in use, or when the code does not fit the copied events.
    """
    request = requests.StartRerunRequest.parse(data)
    try:
        copy = Copy.load(request.copied)
    except ValueError as error:
        raise InvalidRequest(f"copied: {error}") from error
    record, source = state.record, copy.started
    if record.exists:
        if not copy.is_same(record.rerun_of):
            raise Conflict(f"There is an orchestration {record.instance_id} already: choose another instance_id.")
        return {"success": True, "created": False}
    state.check_start(source.name, request.version or source.version)
    try:
        with code_fields(state.about):
            instance, delivery = Instance.rerun(
                registry,
                record.instance_id,
                copy,
                now,
                seed=secrets.token_hex(8),
                version=request.version,
                traceparent=request.traceparent,
                **state.options,
            )
    except Blocked as blocked:
        reason = blocked.reason
        raise Conflict(
            f"The deployed code does not fit the copied events: {reason['message']} "
            "Name an earlier event with from_seq, or deploy code that fits.",
            **{name: reason[name] for name in ("expected", "found", "line") if reason[name] is not None},
        ) from blocked
    note = NoteRerun(instance_id=copy.source_id, incarnation=source.seed, rerun_id=record.instance_id)
    delivery.effects.append(note)
    state.adopt(instance, delivery)
    record.begin_rerun(copy.origin(), now)
    return {"success": True, "created": True}


def note(state: LoadedInstance, data: Any) -> Answer:
    """Adds a rerun to the list of its source, unless that is gone."""
    request = requests.NoteRerunRequest.parse(data)
    if state.record.exists and not state.is_another(request.incarnation):
        state.record.note_rerun(request.rerun_id)
    return {"success": True}
