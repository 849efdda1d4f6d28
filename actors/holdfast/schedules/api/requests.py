"""The requests to a schedule, validated on arrival."""

from __future__ import annotations

from math import floor
from typing import Annotated, Any

from pydantic import Field

from holdfast.errors import InvalidRequest
from holdfast.names import check_id
from holdfast.orchestration.api.requests import Name, TagsField, payload
from holdfast.orchestration.tags import check_tags
from holdfast.pushpop.api.requests import MAX_SECONDS, Request
from holdfast.schedules.core.schedule import Definition, Overlap
from holdfast.schedules.core.ticks import check_cron, check_timezone
from holdfast.wire.times import read_time

#: Leaves room in an instance id for the time of a tick.
MAX_NAME = 200
# Finding the ticks of a rare time takes long: 1000 times February 29 take 0.2 s.
_MAX_BACKFILL_SECONDS = 100 * 366 * 86_400

Time = Annotated[str, Field(max_length=64, examples=["2026-11-17T06:00:00Z"])]


def check_schedule_name(name: str) -> str:
    """Returns the name of a schedule, if valid."""
    check_id(name, "schedule name")
    if len(name) > MAX_NAME:
        raise InvalidRequest(f"The name of a schedule has at most {MAX_NAME} characters; this has {len(name)}.")
    return name


class Put(Request):
    orchestration: Name
    cron: Annotated[
        str | None, Field(max_length=255, description="Minute, hour, day, month, day of week.", examples=["0 6 * * *"])
    ] = None
    every_seconds: Annotated[
        int | None, Field(ge=1, le=MAX_SECONDS, description="Counted from starts_at, or from the creation.")
    ] = None
    input: Annotated[Any, Field(description="The input of each instance: any JSON value.")] = None
    timezone: Annotated[str, Field(max_length=64, description="For cron.", examples=["Europe/Berlin"])] = "UTC"
    overlap: Annotated[
        Overlap, Field(description="What a tick does while the instance of the last one has not ended.")
    ] = "skip"
    catch_up_seconds: Annotated[
        int, Field(ge=0, le=MAX_SECONDS, description="A tick that is later than this is missed.")
    ] = 60
    jitter_seconds: Annotated[
        int, Field(ge=0, le=86400, description="Each tick is delayed by a random part of this.")
    ] = 0
    paused: bool = False
    tags: TagsField = None
    starts_at: Annotated[Time | None, Field(description="No tick is before this time.")] = None
    ends_at: Annotated[Time | None, Field(description="No tick is after this time.")] = None

    def definition(self) -> Definition:
        if (self.cron is None) == (self.every_seconds is None):
            raise InvalidRequest("Give either cron or every_seconds.")
        check_timezone(self.timezone)
        if self.cron is not None:
            check_cron(self.cron)
        starts_at = None if self.starts_at is None else float(floor(read_time(self.starts_at, "starts_at")))
        ends_at = None if self.ends_at is None else read_time(self.ends_at, "ends_at")
        if starts_at is not None and ends_at is not None and ends_at < starts_at:
            raise InvalidRequest("ends_at: is before starts_at.")
        return Definition(
            orchestration=self.orchestration,
            cron=self.cron,
            every_seconds=self.every_seconds,
            input=payload(self.input, "input"),
            timezone=self.timezone,
            overlap=self.overlap,
            catch_up_seconds=self.catch_up_seconds,
            jitter_seconds=self.jitter_seconds,
            tags=None if not self.tags else check_tags(self.tags),
            starts_at=starts_at,
            ends_at=ends_at,
        )


class Backfill(Request):
    since: Annotated[Time, Field(alias="from", description="The first tick that may run.")]
    until: Annotated[Time, Field(alias="to", description="Ticks at this time and later do not run.")]

    def times(self) -> tuple[float, float]:
        since, until = read_time(self.since, "from"), read_time(self.until, "to")
        if until < since:
            raise InvalidRequest("to: is before from.")
        if until - since > _MAX_BACKFILL_SECONDS:
            raise InvalidRequest("to: at most 100 years after from.")
        return since, until


class ConfirmCalls(Request):
    #: When the schedule was made: calls of different schedules of one name have the same numbers.
    created_at: float
    made: dict[Annotated[str, Field(pattern=r"^[0-9]{1,15}$")], str | None]


class ConfirmIndexed(Request):
    listed: bool


class ListRequest(Request):
    after: str = ""
    limit: Annotated[int, Field(ge=1, le=1000)]
