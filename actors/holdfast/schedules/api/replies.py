"""The replies of a schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from holdfast.pushpop.api.replies import iso

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.schedules.core.schedule import Result, Schedule

Answer = dict[str, Any]


def shown(schedule: Schedule, statuses: Mapping[str, str | None], now: float) -> Answer:
    """Returns a schedule as REST shows it. ``statuses`` are those of the instances in its last results."""
    given = schedule.definition
    answer: Answer = {
        "name": schedule.name,
        "orchestration": given.orchestration,
        "input": orjson.Fragment(given.input.encode()),
        "timezone": given.timezone,
        "overlap": given.overlap,
        "catch_up_seconds": given.catch_up_seconds,
        "jitter_seconds": given.jitter_seconds,
        "tags": given.tags or {},
        "paused": schedule.paused,
        "declared": schedule.declared,
        "missed": schedule.missed,
        "created_at": iso(schedule.created_at),
        "updated_at": iso(schedule.updated_at),
        "next_at": [iso(tick) for tick in schedule.next_ticks(now)],
        "last": [_result(result, statuses) for result in schedule.last],
    }
    optional = {
        "cron": given.cron,
        "every_seconds": given.every_seconds,
        "starts_at": None if given.starts_at is None else iso(given.starts_at),
        "ends_at": None if given.ends_at is None else iso(given.ends_at),
        "paused_reason": schedule.paused_reason,
    }
    return answer | {key: value for key, value in optional.items() if value is not None}


def _result(result: Result, statuses: Mapping[str, str | None]) -> Answer:
    answer: Answer = {"at": iso(result.at)}
    if result.skipped:
        return answer | {"skipped": True}
    assert result.instance_id is not None
    answer |= {"instance_id": result.instance_id, "status": statuses.get(result.instance_id)}
    return answer if result.error is None else answer | {"error": result.error}
