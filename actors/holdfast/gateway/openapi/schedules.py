"""The OpenAPI descriptions of the schedule calls: all answers, errors included, with examples."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic import Field

from holdfast import errors
from holdfast.gateway.openapi.queues import document as any_document
from holdfast.gateway.openapi.schemas import Answer, inlined
from holdfast.schedules.api import requests
from holdfast.schedules.core.schedule import Overlap  # noqa: TC001 (pydantic looks it up)

if TYPE_CHECKING:
    from pydantic import BaseModel

document = partial(any_document, tag="schedules")


class TickAnswer(Answer):
    at: str
    #: None for a tick that was skipped.
    instance_id: str | None = None
    #: The status of the instance; None if it was deleted.
    status: str | None = None
    skipped: bool | None = None
    #: Why the instance could not be started.
    error: str | None = None


class ScheduleAnswer(Answer):
    name: str
    orchestration: str
    cron: str | None = None
    every_seconds: int | None = None
    input: Any
    timezone: str
    overlap: Overlap
    catch_up_seconds: int
    jitter_seconds: int
    tags: dict[str, str]
    starts_at: str | None = None
    ends_at: str | None = None
    paused: bool
    paused_reason: str | None = None
    #: Whether the code of an app declares it.
    declared: bool
    missed: int = Field(description="Ticks that were later than catch_up_seconds, and did not run.")
    created_at: str
    updated_at: str
    next_at: list[str]
    last: list[TickAnswer]


class SchedulesAnswer(Answer):
    schedules: list[ScheduleAnswer]
    next_cursor: str | None = None


class SuccessAnswer(Answer):
    success: bool


class TriggerAnswer(SuccessAnswer):
    instance_id: str


class BackfillAnswer(SuccessAnswer):
    ticks: int


_EXAMPLE: dict[str, Any] = {
    "name": "nightly",
    "orchestration": "report",
    "cron": "0 6 * * *",
    "input": {"format": "pdf"},
    "timezone": "Europe/Berlin",
    "overlap": "skip",
    "catch_up_seconds": 60,
    "jitter_seconds": 0,
    "tags": {},
    "paused": False,
    "declared": False,
    "missed": 0,
    "created_at": "2026-11-16T09:30:00.000Z",
    "updated_at": "2026-11-16T09:30:00.000Z",
    "next_at": ["2026-11-18T05:00:00.000Z"],
    "last": [{"at": "2026-11-17T05:00:00.000Z", "instance_id": "nightly-20261117T050000Z", "status": "COMPLETED"}],
}
_DONE = {"success": True}


def listed(query: type[BaseModel]) -> dict[str, Any]:
    return document("List the schedules, by name", SchedulesAnswer, {"schedules": [_EXAMPLE]}, query=query)


PUT = document(
    "Make a schedule, or replace its definition",
    ScheduleAnswer,
    _EXAMPLE,
    errors.NotFound,
    errors.Capacity,
    body=inlined(requests.Put),
    sent={"orchestration": "report", "cron": "0 6 * * *", "timezone": "Europe/Berlin", "input": {"format": "pdf"}},
)
GET = document("Get a schedule, its next ticks and its last ones", ScheduleAnswer, _EXAMPLE, errors.NotFound)
DELETE = document("Delete a schedule; its instances stay", SuccessAnswer, _DONE, errors.NotFound, status=202)
PAUSE = document("Pause a schedule", SuccessAnswer, _DONE, errors.NotFound, status=202)
RESUME = document("Resume a paused schedule", SuccessAnswer, _DONE, errors.NotFound, status=202)
TRIGGER = document(
    "Start an instance now, also while the schedule is paused",
    TriggerAnswer,
    _DONE | {"instance_id": "nightly-manual-20261117T093000Z-5f2d7a90"},
    errors.NotFound,
    errors.Capacity,
    status=202,
)
BACKFILL = document(
    "Start the instances of past ticks, each once",
    BackfillAnswer,
    _DONE | {"ticks": 31},
    errors.NotFound,
    errors.Capacity,
    body=inlined(requests.Backfill),
    sent={"from": "2026-10-01T00:00:00Z", "to": "2026-11-01T00:00:00Z"},
    status=202,
)
