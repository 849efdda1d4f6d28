"""The options of a start, beside the input: what an instance begins with."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, Required, TypedDict

from holdfast.client.api.encoding import encode_typed
from holdfast.runtime.serialization import load

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime


class StartEvent(TypedDict, total=False):
    """An event that is raised together with a start, also when the instance exists already."""

    name: Required[str]
    #: A JSON value or a pydantic model.
    data: Any
    #: Events with the same id count once; generated if omitted.
    event_id: str


class StartOptions(TypedDict, total=False):
    """The options of :meth:`Client.start`."""

    #: Short texts by which the instance can be found: 20 at most.
    tags: Mapping[str, str] | None
    #: The priority of its activities in their queues, unless a call has its own; the lowest runs first.
    priority: int | None
    #: When its code begins; until then it is PENDING. A time without a zone is in UTC.
    start_at: datetime | None
    event: StartEvent | None


def start_fields(
    *,
    tags: Mapping[str, str] | None = None,
    priority: int | None = None,
    start_at: datetime | None = None,
    event: StartEvent | None = None,
) -> dict[str, Any]:
    """Returns the options as fields of the request."""
    fields: dict[str, Any] = {
        "tags": None if tags is None else dict(tags),
        "priority": priority,
        "start_at": None if start_at is None else start_at.isoformat(),
        "event": None if event is None else _event(**event),
    }
    return {name: value for name, value in fields.items() if value is not None}


def _event(*, name: str, data: Any = None, event_id: str | None = None) -> dict[str, Any]:
    # With an id, so that the call can be repeated when a response is lost.
    return {"name": name, "data": load(encode_typed(data, "event.data")), "event_id": event_id or uuid.uuid4().hex}
