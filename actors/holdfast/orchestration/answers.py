"""What an instance answers: the same JSON objects by REST and by actor call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from holdfast.errors import HoldfastError
from holdfast.orchestration.instance import Verdict
from holdfast.pushpop.replies import iso, refused

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.orchestration.chronicle import Chronicle
    from holdfast.orchestration.history import Event
    from holdfast.orchestration.instance import Reply

Answer = dict[str, Any]

_TIMES = ("timestamp", "fire_at")


def taken(reply: Reply) -> Answer:
    """What became of a message."""
    if isinstance(reply, HoldfastError):
        return refused(reply)
    return {"success": True, "outcome": reply.value}


def started(chronicle: Chronicle, reply: Reply) -> Answer:
    if isinstance(reply, HoldfastError):
        return refused(reply)
    return {
        "success": True,
        "instance_id": chronicle.instance_id,
        "created": reply is Verdict.RECORDED,
        "parent": None if chronicle.parent is None else chronicle.parent.dump(),
    }


def status(chronicle: Chronicle, given: str | None, ending: Answer | None) -> Answer:
    ending = ending or {}
    answer: Answer = {
        "instance_id": chronicle.instance_id,
        "name": chronicle.name,
        "version": chronicle.version,
        "status": chronicle.status.value,
        "input": _value(given),
        "output": _value(ending.get("output")),
        "error": shown_failure(ending["error"]) if "error" in ending else None,
        "custom_status": _value(chronicle.custom_status),
        "execution_id": chronicle.execution_id,
        "events": chronicle.events,
        "created_at": iso(chronicle.created_at),
        "updated_at": iso(chronicle.updated_at),
        "ended_at": None if chronicle.ended_at is None else iso(chronicle.ended_at),
    }
    if ending.get("reason") is not None:
        answer["reason"] = ending["reason"]
    if chronicle.parent is not None:
        answer["parent"] = shown_parent(chronicle.parent.dump())
    return answer


def history(events: Sequence[Event], last: int, *, recorded: bool = False) -> Answer:
    answer: Answer = {"events": [_recorded(event) if recorded else shown_event(event) for event in events]}
    if events and events[-1].seq < last:
        answer["next_cursor"] = str(events[-1].seq)
    return answer


def shown_failure(failure: Answer) -> Answer:
    """Without its stack, which is for the log."""
    return {key: failure[key] for key in ("type", "message", "kind")}


def shown_parent(parent: Answer) -> Answer:
    """Without what only tells instances of one id apart."""
    return {key: parent[key] for key in ("instance_id", "execution_id", "scheduled_seq")}


def _recorded(event: Event) -> Answer:
    """All that a replay needs, to the last digit."""
    dumped = event.dump()
    if "error" in dumped:
        dumped["error"].pop("stack", None)
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
    for hidden in ("seed", "event_ids"):
        shown.pop(hidden, None)
    return shown


def _value(text: str | None) -> Any:
    # As it was written, without reading it again.
    return None if text is None else orjson.Fragment(text.encode())
