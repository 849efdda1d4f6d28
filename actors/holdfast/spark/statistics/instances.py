"""Computes the report's figures of orchestrations in Spark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from holdfast.spark.history_steps import between, epoch, steps

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

TOP = 12
#: Events of one instance, from the beginning and from the end each.
MOST_EVENTS = 40

STATUSES = ("RUNNING", "SUSPENDED", "BLOCKED", "PENDING", "COMPLETED", "CANCELLED", "FAILED")
ENDED = ("COMPLETED", "CANCELLED", "FAILED")
_PERCENTILES = (0.5, 0.95, 0.99)
# The accuracy of percentiles: finer than a chart can show.
_ACCURACY = 1000


@dataclass(frozen=True)
class Durations:
    name: str
    #: Completed or failed.
    ended: int
    failed: int
    #: The numbers of attempts after the first, and of those that have not ended.
    again: int
    open: int
    p50: float | None
    p95: float | None
    p99: float | None
    longest: float | None


@dataclass(frozen=True)
class Statuses:
    name: str
    counts: dict[str, int]

    @property
    def total(self) -> int:
        return sum(self.counts.values())


@dataclass(frozen=True)
class LongInstance:
    app_id: str
    tenant: str
    instance_id: str
    name: str
    status: str
    seconds: float
    custom_status: str | None


@dataclass(frozen=True)
class Event:
    seq: int
    type: str
    at: float
    name: str | None
    scheduled_seq: int | None
    data: str | None


@dataclass(frozen=True)
class Story:
    """The history of one instance."""

    app_id: str
    tenant: str
    instance_id: str
    name: str
    status: str
    execution_id: int
    error: str | None
    events_in_all: int
    events: list[Event]


@dataclass(frozen=True)
class InstanceFigures:
    instances: int
    names: int
    by_status: dict[str, int]
    by_name: list[Statuses]
    durations: list[Durations]
    slowest: list[LongInstance]
    story: Story | None


@dataclass(frozen=True)
class StepFigures:
    activities: list[Durations]
    #: Wait times of external events.
    events: list[Durations]


def instance_figures(instances: DataFrame, history: DataFrame, as_of: float) -> InstanceFigures:
    moment = F.timestamp_micros(F.lit(round(as_of * 1e6)))
    timed = instances.withColumn("seconds", between("created_at", F.coalesce("ended_at", moment)))
    ended = F.col("status").isin(*ENDED)
    each_name = timed.groupBy("name").agg(
        *(F.count_if(F.col("status") == status).alias(status) for status in STATUSES),
        F.count("*").alias("instances"),
        F.count_if(ended).alias("ended"),
        F.count_if(F.col("status") == "FAILED").alias("failed"),
        F.lit(0).alias("again"),
        F.count_if(~ended).alias("open"),
        *_spread(F.when(ended, F.col("seconds"))),
    )
    total = (
        timed.groupBy()
        .agg(F.count_distinct("name").alias("names"), *(F.count_if(F.col("status") == s).alias(s) for s in STATUSES))
        .collect()[0]
    )
    rows = each_name.orderBy(F.desc("instances"), "name").limit(TOP).collect()
    slowest = timed.orderBy(F.desc("seconds"), "instance_id").limit(TOP).collect()
    by_status = {status: total[status] for status in STATUSES}
    return InstanceFigures(
        instances=sum(by_status.values()),
        names=total["names"],
        by_status=by_status,
        by_name=[Statuses(row["name"] or "", {status: row[status] for status in STATUSES}) for row in rows],
        durations=[_durations(row) for row in rows if row["ended"]],
        slowest=[
            LongInstance(
                row["app_id"],
                row["tenant"],
                row["instance_id"],
                row["name"] or "",
                row["status"],
                row["seconds"],
                row["custom_status"],
            )
            for row in slowest
        ],
        story=_story(timed, history),
    )


def step_figures(history: DataFrame) -> StepFigures:
    """Computes the durations of activities and the wait times of events, by name."""
    each_name = (
        steps(history)
        .where(F.col("kind").isin("activity", "event"))
        .groupBy("kind", "name")
        .agg(
            F.count("outcome").alias("ended"),
            F.count_if(F.col("outcome") == "failed").alias("failed"),
            F.count_if(F.col("attempt") > 1).alias("again"),
            F.count_if(F.col("outcome").isNull()).alias("open"),
            *_spread(F.col("seconds")),
        )
    )
    found: dict[str, list[Durations]] = {}
    for kind in ("activity", "event"):
        rows = each_name.where(F.col("kind") == kind).orderBy(F.desc("p95"), "name").limit(TOP).collect()
        found[kind] = [_durations(row) for row in rows]
    return StepFigures(activities=found["activity"], events=found["event"])


def _spread(seconds: Column) -> list[Column]:
    return [
        *(F.percentile_approx(seconds, share, _ACCURACY).alias(f"p{round(share * 100)}") for share in _PERCENTILES),
        F.max(seconds).alias("longest"),
    ]


def _durations(row: Row) -> Durations:
    return Durations(
        row["name"] or "",
        *(row[name] for name in ("ended", "failed", "again", "open", "p50", "p95", "p99", "longest")),
    )


def _story(instances: DataFrame, history: DataFrame) -> Story | None:
    """Returns the history of the instance that failed last, or else of the longest-running one."""
    failed = (F.col("status") == "FAILED").cast("int")
    last_failed = F.when(failed == 1, epoch("ended_at")).desc_nulls_last()
    rows = instances.orderBy(failed.desc(), last_failed, F.desc("seconds"), "instance_id").limit(1).collect()
    if not rows:
        return None
    [row] = rows
    own = history.where(
        (F.col("app_id") == row["app_id"])
        & (F.col("tenant") == row["tenant"])
        & (F.col("instance_id") == row["instance_id"])
        & (F.col("execution_id") == row["execution_id"])
    )
    last = row["events"] or 0
    events = (
        own.where((F.col("seq") <= MOST_EVENTS) | (F.col("seq") > last - MOST_EVENTS))
        .select(
            "seq",
            "type",
            epoch("timestamp").alias("at"),
            "name",
            "scheduled_seq",
            F.substring("data", 1, 2000).alias("data"),
        )
        .orderBy("seq")
        .limit(2 * MOST_EVENTS)
        .collect()
    )
    return Story(
        row["app_id"],
        row["tenant"],
        row["instance_id"],
        row["name"] or "",
        row["status"],
        row["execution_id"],
        row["error"],
        last,
        [Event(*event) for event in events],
    )
