"""The filter of lists of instances, and of actions on all that match."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

from holdfast.client.api.encoding import encode_typed
from holdfast.errors import InvalidRequest
from holdfast.runtime.serialization import load

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime


BulkAction: TypeAlias = Literal["cancel", "suspend", "resume", "delete", "rerun", "raise"]


class InstanceFilter(TypedDict, total=False):
    """Selects instances: all that is given has to match. Times without a zone are in UTC."""

    #: One status, or several of which one is enough; not an empty list.
    status: str | Sequence[str] | None
    #: Of the orchestration.
    name: str | None
    version: str | None
    #: All of these tags.
    tags: Mapping[str, str] | None
    #: Started or ended at this time or later, or before it.
    started_after: datetime | None
    started_before: datetime | None
    ended_after: datetime | None
    ended_before: datetime | None
    id_prefix: str | None


def filter_fields(
    *,
    status: str | Sequence[str] | None = None,
    name: str | None = None,
    version: str | None = None,
    tags: Mapping[str, str] | None = None,
    started_after: datetime | None = None,
    started_before: datetime | None = None,
    ended_after: datetime | None = None,
    ended_before: datetime | None = None,
    id_prefix: str | None = None,
) -> dict[str, Any]:
    """Returns the filter as fields of the request. Raises InvalidRequest for an empty list of statuses."""
    if status is not None and not status:
        # Without the field every status would match.
        raise InvalidRequest("status: name one at least, or omit it for all.")
    times = {
        "started_after": started_after,
        "started_before": started_before,
        "ended_after": ended_after,
        "ended_before": ended_before,
    }
    fields: dict[str, Any] = {
        "status": status if status is None or isinstance(status, str) else list(status),
        "name": name,
        "version": version,
        "tag": [f"{key}:{value}" for key, value in (tags or {}).items()],
        **{field: None if time is None else time.isoformat() for field, time in times.items()},
        "id_prefix": id_prefix,
    }
    return {field: value for field, value in fields.items() if value not in (None, [])}


def bulk_body(
    action: BulkAction,
    selected: Mapping[str, Any],
    *,
    every: bool = False,
    dry_run: bool = False,
    reason: str | None = None,
    event: str | None = None,
    data: Any = None,
) -> dict[str, Any]:
    """Returns the request of an action on all instances that match, without limit and cursor."""
    fields = {"reason": reason, "event": event, "data": load(encode_typed(data, "data"))}
    given = {field: value for field, value in fields.items() if value is not None}
    return {"action": action, "filter": dict(selected), "all": every, "dry_run": dry_run, **given}
