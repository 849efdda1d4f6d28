"""Derives the scheduled steps of orchestrations, with their outcomes, from the events of their histories."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: The kind of step each scheduling event begins.
SCHEDULED = {
    "ActivityScheduled": "activity",
    "SubOrchestrationScheduled": "sub-orchestration",
    "TimerCreated": "timer",
    "EventSubscribed": "event",
}
#: The kind of step each completing event ends.
RESOLVED = {
    "ActivityCompleted": "activity",
    "ActivityFailed": "activity",
    "SubOrchestrationCompleted": "sub-orchestration",
    "SubOrchestrationFailed": "sub-orchestration",
    "TimerFired": "timer",
    "EventRaised": "event",
}
FAILURES = ("ActivityFailed", "SubOrchestrationFailed")
#: The events that end an execution.
ENDINGS = ("OrchestrationCompleted", "OrchestrationFailed", "OrchestrationCancelled", "ContinuedAsNew")

EXECUTION = ("app_id", "tenant", "instance_id", "execution_id")


def steps(history: DataFrame) -> DataFrame:
    """Returns one row for each scheduled step: ``app_id, tenant, instance_id, execution_id, seq, kind, name, attempt,
    asked_at, answered_at, outcome, seconds``.

    ``kind`` is ``activity``, ``sub-orchestration``, ``timer`` or ``event``. ``outcome`` is ``done``, ``failed``, or
    null until the step completes. Each attempt of an activity is a separate row.
    """
    asked, answered = F.col("type").isin(*SCHEDULED), F.col("type").isin(*RESOLVED)
    failed = F.col("type").isin(*FAILURES)
    of_asked = F.struct(
        "type", "name", "timestamp", F.get_json_object("data", "$.attempt").cast("int").alias("attempt")
    )
    return (
        history.where(asked | (answered & F.col("scheduled_seq").isNotNull()))
        .groupBy(*EXECUTION, F.when(asked, F.col("seq")).otherwise(F.col("scheduled_seq")).alias("seq"))
        .agg(
            F.first(F.when(asked, of_asked), ignorenulls=True).alias("asked"),
            F.min(F.when(answered, F.col("timestamp"))).alias("answered_at"),
            F.max(F.when(answered, failed)).alias("failed"),
        )
        .where(F.col("asked").isNotNull())
        .select(
            *EXECUTION,
            "seq",
            named("asked.type", SCHEDULED).alias("kind"),
            F.col("asked.name").alias("name"),
            F.coalesce(F.col("asked.attempt"), F.lit(1)).alias("attempt"),
            F.col("asked.timestamp").alias("asked_at"),
            "answered_at",
            F.when(F.col("failed"), "failed").when(F.col("answered_at").isNotNull(), "done").alias("outcome"),
            between("asked.timestamp", "answered_at").alias("seconds"),
        )
    )


def named(column: str, names: dict[str, str]) -> Column:
    """Maps the values of a column through a dictionary; null for values it does not have."""
    return F.create_map(*(F.lit(part) for pair in names.items() for part in pair))[F.col(column)]


def between(earlier: str | Column, later: str | Column) -> Column:
    """Returns the seconds between two timestamps, at least 0 since clocks may step back. Null if either is null."""
    passed = (F.unix_micros(later) - F.unix_micros(earlier)) / 1e6
    # greatest() ignores nulls: on its own it would return 0 for steps that have not completed.
    return F.when(passed.isNotNull(), F.greatest(passed, F.lit(0.0)))


def epoch(column: str | Column) -> Column:
    """Returns a timestamp in Unix seconds, which do not depend on the time zones of driver and session."""
    return F.unix_micros(column) / 1e6
