"""The replies of an instance: the same JSON objects by REST and by actor call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from holdfast.errors import HoldfastError, Rejected, by_code
from holdfast.orchestration.core.failures import shown_failure
from holdfast.orchestration.core.history import shown_payload
from holdfast.pushpop.api.replies import iso, refused
from holdfast.runtime.serialization import is_deep

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.orchestration.core.history import Event
    from holdfast.orchestration.core.instance import Reply
    from holdfast.orchestration.storage.record import InstanceRecord
    from holdfast.orchestration.storage.replies import StoredAnswer

Answer = dict[str, Any]

_TIMES = ("timestamp", "fire_at", "start_at", "deadline")


def taken(reply: Reply) -> Answer:
    """Returns the reply to a message."""
    if isinstance(reply, HoldfastError):
        return refused(reply)
    return {"success": True, "outcome": reply.value}


def raised(reply: Reply, *, delivered: bool) -> Answer:
    """Returns the reply to an event; ``delivered`` is whether a mailbox or waiting code has it."""
    if isinstance(reply, HoldfastError):
        return refused(reply)
    return taken(reply) | {"delivered": delivered}


def replied(request_id: str, answer: StoredAnswer) -> Answer:
    """Returns the reply to a request, as the code gave it."""
    if answer.rejected is not None:
        return refused(by_code(answer.error_code or Rejected.code, answer.rejected, request_id=request_id))
    return {"success": True, "request_id": request_id, "answered": True, "reply": _value(answer.reply)}


def unanswered(request_id: str) -> Answer:
    """Returns the reply to a request that the code has not answered yet."""
    return {"success": True, "request_id": request_id, "answered": False}


def is_unanswered(answer: Answer) -> bool:
    return answer.get("answered") is False


def started(record: InstanceRecord, reply: Reply, *, created: bool, delivered: bool | None = None) -> Answer:
    """Returns the reply to a start; ``delivered`` is whether its event, if it has one, was taken."""
    if isinstance(reply, HoldfastError):
        return refused(reply)
    answer: Answer = {
        "success": True,
        "instance_id": record.instance_id,
        "created": created,
        "parent": None if record.parent is None else record.parent.dump(),
    }
    return answer if delivered is None else answer | {"delivered": delivered}


def status(record: InstanceRecord, given: str | None, ending: Answer | None) -> Answer:
    ending = ending or {}
    answer: Answer = {
        "instance_id": record.instance_id,
        "name": record.name,
        "version": record.version,
        "status": record.status.value,
        "input": _value(given),
        "output": _value(ending.get("output")),
        "error": shown_failure(ending["error"]) if "error" in ending else None,
        "custom_status": _value(record.custom_status),
        "tags": record.tags,
        "priority": record.priority,
        "execution_id": record.execution_id,
        "events": record.events,
        "created_at": iso(record.created_at),
        "updated_at": iso(record.updated_at),
        "ended_at": None if record.ended_at is None else iso(record.ended_at),
        "waiting_for": awaited(record),
    }
    if ending.get("reason") is not None:
        answer["reason"] = ending["reason"]
    if record.blocking.reason is not None:
        answer["blocked"] = shown_reason(record.blocking.reason)
    if record.parent is not None:
        answer["parent"] = shown_parent(record.parent.dump())
    if record.rerun_of is not None:
        answer["rerun_of"] = shown_source(record.rerun_of)
    if record.reruns:
        answer["reruns"] = record.reruns
    return answer


def awaited(record: InstanceRecord) -> list[Answer]:
    """Returns what the code of an instance awaits."""
    return list(map(_waiting, record.waiting_for))


def _waiting(dumped: list[Any]) -> Answer:
    kind, name, since, due_at, scheduled_seq = dumped
    shown: Answer = {"kind": kind, "name": name, "since": iso(since), "scheduled_seq": scheduled_seq}
    return shown if due_at is None else shown | {"due_at": iso(due_at)}


def history(events: Sequence[Event], last: int, *, recorded: bool = False, begun: bool = True) -> Answer:
    """Returns a page. A history that is ``recorded``, for a replay, says if the first step is still to come."""
    answer: Answer = {"events": [_recorded(event) if recorded else shown_event(event) for event in events]}
    if recorded and not begun:
        answer["begun"] = False
    if events and events[-1].seq < last:
        answer["next_cursor"] = str(events[-1].seq)
    return answer


def shown_reason(reason: Answer) -> Answer:
    """Returns the reason why an instance is BLOCKED, as it is shown."""
    return {**reason, "since": iso(reason["since"])}


def shown_source(rerun_of: Answer) -> Answer:
    """Returns where the first events of a rerun are from, as it is shown."""
    return {name: rerun_of[name] for name in ("instance_id", "execution_id", "from_seq")}


def shown_parent(parent: Answer) -> Answer:
    """Returns a parent without its incarnation, which is internal."""
    return {key: parent[key] for key in ("instance_id", "execution_id", "scheduled_seq")}


def _recorded(event: Event) -> Answer:
    """Returns an event exactly as recorded, for a replay, without stack traces."""
    dumped = event.dump()
    if "error" in dumped:
        dumped["error"].pop("traceback", None)
        dumped["error"].pop("cause", None)
    return dumped


def shown_event(event: Event) -> Answer:
    shown = event.show()
    for name in _TIMES:
        if name in shown:
            shown[name] = iso(shown[name])
    if "error" in shown:
        shown["error"] = shown_failure(shown["error"])
    if "parent" in shown:
        shown["parent"] = shown_parent(shown["parent"])
    for hidden in ("seed", "mail", "mailboxes", "origins", "original_id"):
        shown.pop(hidden, None)
    return shown


def _value(text: str | None) -> Any:
    if text is None:
        return None
    # Embed the text without parsing it, except deeply nested text, which a client may be unable to parse.
    return shown_payload(text) if is_deep(text) else orjson.Fragment(text.encode())
