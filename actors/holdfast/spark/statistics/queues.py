"""Computes the report's figures of queues in Spark, which returns only a few rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from holdfast.spark.history_steps import epoch
from holdfast.spark.statistics.buckets import Bucket, Scale

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

TOP = 12
MOST_PRIORITIES = 8
NEWEST = 8

QUEUE = ("app_id", "tenant", "queue")

AGES = Scale(
    (1, "1 s"),
    (10, "10 s"),
    (60, "1 min"),
    (600, "10 min"),
    (3600, "1 h"),
    (21600, "6 h"),
    (86400, "1 d"),
    (604800, "7 d"),
)
RETURNS = Scale((1, "never"), (2, "1"), (3, "2"), (4, "3"), (5, "4"), (10, "5 to 9"), last="10 +")
EXPIRES_IN = Scale((0, "past"), (5, "5 s"), (15, "15 s"), (30, "30 s"), (60, "1 min"), (120, "2 min"), (300, "5 min"))


@dataclass(frozen=True)
class QueueDepth:
    app_id: str
    tenant: str
    queue: str
    waiting: int
    delayed: int
    locked: int
    returned: int
    most_deliveries: int
    #: The age of the oldest waiting item.
    oldest_seconds: float | None
    #: The number of items of each priority; those beyond the first few are summed under None.
    priorities: list[tuple[int | None, int]]
    #: All items, including those in transfer to another queue.
    stored: int


@dataclass(frozen=True)
class QueueFigures:
    queues: int
    not_empty: int
    waiting: int
    delayed: int
    locked: int
    returned: int
    oldest_seconds: float | None
    ages: list[Bucket]
    #: Stored items by number of redeliveries.
    returns: list[Bucket]
    deepest: list[QueueDepth]
    retried: list[QueueDepth]


@dataclass(frozen=True)
class Lock:
    app_id: str
    tenant: str
    queue: str
    partition: int
    prefix: str
    count: int
    expires_in: float


@dataclass(frozen=True)
class LockFigures:
    locks: int
    items: int
    expires_in: list[Bucket]
    soonest: list[Lock]


@dataclass(frozen=True)
class Reason:
    reason: str
    count: int
    queues: int
    #: The queue with most of them.
    queue: str
    newest_at: float | None
    #: The most frequent last error.
    last_error: str | None


@dataclass(frozen=True)
class DeadLetter:
    app_id: str
    tenant: str
    queue: str
    reason: str
    attempts: int | None
    last_error: str | None
    item: str
    at: float | None


@dataclass(frozen=True)
class DeadLetterFigures:
    letters: int
    reasons: int
    by_reason: list[Reason]
    newest: list[DeadLetter]


def queue_figures(queues: DataFrame, items: DataFrame, as_of: float) -> QueueFigures:
    waits = F.col("state") == "waiting"
    # A delayed item has been waiting since it was due.
    since = F.greatest(epoch("enqueued_at"), F.coalesce(epoch("due_at"), F.lit(0.0)))
    aged = items.withColumn("age", F.when(waits, F.greatest(F.lit(as_of) - since, F.lit(0.0)))).withColumn(
        "returns", redeliveries()
    )
    returned = F.count_if(F.col("returns") > 0).alias("returned")
    total = aged.agg(
        F.count_distinct(F.struct(*QUEUE)).alias("not_empty"),
        *_states(),
        returned,
        F.max("age").alias("oldest"),
        *AGES.columns(F.col("age"), "age"),
        *RETURNS.columns(F.col("returns"), "returns"),
    ).collect()[0]
    each_priority = aged.groupBy(*QUEUE, "priority").agg(
        *_states(),
        returned,
        F.max("delivery_count").alias("most"),
        F.max("age").alias("oldest"),
        F.count("*").alias("stored"),
    )
    priorities = F.slice(F.sort_array(F.collect_list(F.struct("priority", "stored"))), 1, MOST_PRIORITIES)
    each_queue = each_priority.groupBy(*QUEUE).agg(
        *(F.sum(name).alias(name) for name in ("waiting", "delayed", "locked", "returned", "stored")),
        F.max("most").alias("most"),
        F.max("oldest").alias("oldest"),
        priorities.alias("priorities"),
    )
    return QueueFigures(
        queues=queues.select(*QUEUE).distinct().count(),
        not_empty=total["not_empty"],
        waiting=total["waiting"],
        delayed=total["delayed"],
        locked=total["locked"],
        returned=total["returned"],
        oldest_seconds=total["oldest"],
        ages=AGES.read(total, "age"),
        returns=RETURNS.read(total, "returns"),
        deepest=[_depth(row) for row in each_queue.orderBy(F.desc("stored"), *QUEUE).limit(TOP).collect()],
        retried=[
            _depth(row)
            for row in each_queue.where("returned > 0").orderBy(F.desc("returned"), *QUEUE).limit(TOP).collect()
        ],
    )


def lock_figures(locks: DataFrame, as_of: float) -> LockFigures:
    timed = locks.withColumn("expires_in", epoch("expires_at") - F.lit(as_of))
    total = timed.agg(
        F.count("*").alias("locks"),
        F.coalesce(F.sum("count"), F.lit(0)).alias("items"),
        *EXPIRES_IN.columns(F.col("expires_in"), "expires"),
    ).collect()[0]
    soonest = timed.orderBy("expires_in", *QUEUE).limit(TOP).collect()
    return LockFigures(
        locks=total["locks"],
        items=total["items"],
        expires_in=EXPIRES_IN.read(total, "expires"),
        soonest=[
            Lock(
                row["app_id"],
                row["tenant"],
                row["queue"],
                row["partition"],
                row["lock_id_prefix"],
                row["count"],
                row["expires_in"],
            )
            for row in soonest
        ],
    )


def dead_letter_figures(letters: DataFrame) -> DeadLetterFigures:
    reason = F.coalesce(F.substring("reason", 1, 200), F.lit("no reason given")).alias("reason")
    source = F.coalesce("original_queue", "queue").alias("source")
    labelled = letters.select("*", reason.alias("label"), source)
    error = F.substring("last_error", 1, 200)
    each_source = labelled.groupBy("label", "source", error.alias("error")).agg(
        F.count("*").alias("count"), F.max(epoch("dead_lettered_at")).alias("newest_at")
    )
    reasons = each_source.groupBy("label").agg(
        F.sum("count").alias("count"),
        F.count_distinct("source").alias("queues"),
        F.max_by("error", "count").alias("error"),
        F.max_by("source", "count").alias("source"),
        F.max("newest_at").alias("newest_at"),
    )
    total = letters.agg(F.count("*").alias("letters"), F.count_distinct(reason).alias("reasons")).collect()[0]
    newest = (
        labelled.withColumn("at", epoch("dead_lettered_at"))
        .withColumn("excerpt", F.substring("item", 1, 400))
        .orderBy(F.desc("dead_lettered_at"), "queue", "id")
        .limit(NEWEST)
        .collect()
    )
    return DeadLetterFigures(
        letters=total["letters"],
        reasons=total["reasons"],
        by_reason=[
            Reason(row["label"], row["count"], row["queues"], row["source"], row["newest_at"], row["error"])
            for row in reasons.orderBy(F.desc("count"), "label").limit(TOP).collect()
        ],
        newest=[
            DeadLetter(
                row["app_id"],
                row["tenant"],
                row["source"],
                row["label"],
                row["attempts"],
                row["last_error"],
                row["excerpt"],
                row["at"],
            )
            for row in newest
        ],
    )


def redeliveries() -> Column:
    """Returns how often a stored item was abandoned or its lock expired."""
    return F.col("delivery_count") - (F.col("state") == "locked").cast("int")


def _states() -> list[Column]:
    return [F.count_if(F.col("state") == name).alias(name) for name in ("waiting", "delayed", "locked")]


def _depth(row: Row) -> QueueDepth:
    priorities: list[tuple[int | None, int]] = [(entry["priority"], entry["stored"]) for entry in row["priorities"]]
    left = row["stored"] - sum(count for _, count in priorities)
    columns: dict[str, Any] = {name: row[name] for name in (*QUEUE, "waiting", "delayed", "locked", "returned")}
    return QueueDepth(
        **columns,
        most_deliveries=row["most"],
        oldest_seconds=row["oldest"],
        priorities=[*priorities, (None, left)] if left else priorities,
        stored=row["stored"],
    )
