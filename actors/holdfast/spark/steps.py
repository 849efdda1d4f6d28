"""What orchestrations asked for, one row each, with what came of it: made from the events of their histories."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: What an orchestration asks for, by the event that says so.
ASKED = {
    "ActivityScheduled": "activity",
    "SubOrchestrationScheduled": "sub-orchestration",
    "TimerCreated": "timer",
    "EventSubscribed": "event",
}
#: What comes of it.
ANSWERED = {
    "ActivityCompleted": "activity",
    "ActivityFailed": "activity",
    "SubOrchestrationCompleted": "sub-orchestration",
    "SubOrchestrationFailed": "sub-orchestration",
    "TimerFired": "timer",
    "EventRaised": "event",
}
FAILURES = ("ActivityFailed", "SubOrchestrationFailed")
#: What an execution ends with.
ENDINGS = ("OrchestrationCompleted", "OrchestrationFailed", "OrchestrationCancelled", "ContinuedAsNew")

EXECUTION = ("app_id", "tenant", "instance_id", "execution_id")


def steps(history: DataFrame) -> DataFrame:
    """One row for each thing that was asked for: ``app_id, tenant, instance_id, execution_id, seq, kind, name, attempt,
    asked_at, answered_at, outcome, seconds``.

    ``kind`` is ``activity``, ``sub-orchestration``, ``timer`` or ``event``; ``outcome`` is ``done``, ``failed`` or,
    while it is waited for, null. Each attempt of an activity is a row of its own.
    """
    asked, answered = F.col("type").isin(*ASKED), F.col("type").isin(*ANSWERED)
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
            named("asked.type", ASKED).alias("kind"),
            F.col("asked.name").alias("name"),
            F.coalesce(F.col("asked.attempt"), F.lit(1)).alias("attempt"),
            F.col("asked.timestamp").alias("asked_at"),
            "answered_at",
            F.when(F.col("failed"), "failed").when(F.col("answered_at").isNotNull(), "done").alias("outcome"),
            between("asked.timestamp", "answered_at").alias("seconds"),
        )
    )


def named(column: str, names: dict[str, str]) -> Column:
    """What a dictionary says of a column; null for what it does not have."""
    return F.create_map(*(F.lit(part) for pair in names.items() for part in pair))[F.col(column)]


def between(earlier: str | Column, later: str | Column) -> Column:
    """Seconds from one timestamp to another, never below 0: clocks may step. Null where one of them is."""
    passed = (F.unix_micros(later) - F.unix_micros(earlier)) / 1e6
    # Not greatest() alone, which passes over nulls: what has not been answered would have taken no time.
    return F.when(passed.isNotNull(), F.greatest(passed, F.lit(0.0)))


def epoch(column: str | Column) -> Column:
    """Seconds since 1970: what is collected so is the same moment whatever the time zones of driver and session."""
    return F.unix_micros(column) / 1e6
