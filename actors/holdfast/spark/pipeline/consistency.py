"""Checks the consistency of a snapshot: figures the system keeps in two places must agree.

Each check is a query for violations, so that Spark returns no rows when everything is consistent.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from holdfast.spark.decode.decoder import BROKEN
from holdfast.spark.history_steps import ENDINGS, EXECUTION, RESOLVED, SCHEDULED, named

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Executor

    from pyspark.sql import Column, DataFrame, Row

    Tables = Mapping[str, DataFrame]

#: Findings listed for each check; further ones are only counted.
MOST_FINDINGS = 20

PARTITION = ("app_id", "tenant", "queue", "partition")
_STATES = ("waiting", "delayed", "locked")
_ENDED_WITH = {
    "COMPLETED": "OrchestrationCompleted",
    "FAILED": "OrchestrationFailed",
    "CANCELLED": "OrchestrationCancelled",
}


@dataclass(frozen=True)
class Check:
    """A condition that must hold, and the violations found."""

    name: str
    holds: str
    wrong: int
    #: The first violations, one sentence each.
    findings: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {"check": self.name, "holds": self.holds, "wrong": self.wrong, "findings": list(self.findings)}


def audit(tables: Tables, pool: Executor) -> list[Check]:
    """Runs all checks and returns their results, passed or failed. ``tables`` must include ``problems``."""
    return list(pool.map(lambda check: check(tables), _CHECKS))


def findings(checks: Sequence[Check]) -> list[str]:
    """Returns all findings as sentences, with one more for each check that has further findings."""
    sentences: list[str] = []
    for check in checks:
        sentences += check.findings
        if more := check.wrong - len(check.findings):
            sentences.append(f"{check.name}: {more:,} more like these.")
    return sentences


def _queue_counts(tables: Tables) -> Check:
    counts = tables["queues"].select(*PARTITION, *_STATES, F.lit(1).alias("known"))
    there = tables["items"].select(
        *PARTITION, *((F.col("state") == state).cast("long").alias(f"{state}_there") for state in _STATES)
    )
    held = tables["locks"].select(*PARTITION, F.col("count").alias("held"))
    rows = reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), (counts, there, held))
    numbers = [*_STATES, *(f"{state}_there" for state in _STATES), "held", "known"]
    gathered = rows.groupBy(*PARTITION).agg(*(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in numbers))
    differs = [F.col(state) != F.col(f"{state}_there") for state in _STATES]
    wrong = gathered.where(_any(F.col("known") != 1, F.col("held") != F.col("locked_there"), *differs))

    def tell(row: Row) -> str:
        where = f"Q{_partition(row)[1:]},"
        if not row["known"]:
            there = sum(row[f"{state}_there"] for state in _STATES)
            return f"{where} does not exist, but {there:,} items and locks on {row['held']:,} are stored for it."
        if row["known"] > 1:
            return f"{where} is stored {row['known']} times."
        apart = [
            f"{row[state]:,} {state} by its count, {row[f'{state}_there']:,} stored"
            for state in _STATES
            if row[state] != row[f"{state}_there"]
        ]
        if row["held"] != row["locked_there"]:
            apart.append(f"its locks cover {row['held']:,} items, but {row['locked_there']:,} are locked")
        return f"{where} is inconsistent: {'; '.join(apart)}."

    return _checked(
        "queues",
        "Each queue stores as many items as it counts, and its locks cover the locked items",
        wrong,
        PARTITION,
        tell,
    )


def _stored_once(tables: Tables) -> Check:
    each = (*PARTITION, "id")
    wrong = tables["items"].groupBy(*each).agg(F.count("*").alias("times")).where("times > 1")
    return _checked(
        "items",
        "No item is stored twice",
        wrong,
        each,
        lambda row: f"Item {row['id']} of {_partition(row)}, is stored {row['times']} times.",
    )


def _dead_letter_origins(tables: Tables) -> Check:
    """Checks that each dead letter names its origin, is no longer stored there, and is the only one from it."""
    origin = ("app_id", "tenant", "original_queue", "original_partition", "original_id")
    letters = (
        tables["dead_letters"]
        .groupBy(*origin)
        .agg(F.count("*").alias("times"), F.min("queue").alias("queue"), F.min("id").alias("id"))
    )
    items = tables["items"].select(
        "app_id",
        "tenant",
        F.col("queue").alias("original_queue"),
        F.col("partition").alias("original_partition"),
        F.col("id").alias("original_id"),
        F.lit(True).alias("there"),
    )
    unknown = _any(*(F.col(name).isNull() for name in origin[2:]))
    wrong = letters.join(items, list(origin), "left").where(_any(unknown, F.col("there"), F.col("times") > 1))

    def tell(row: Row) -> str:
        letter = f"Dead letter {row['id']} of {row['queue']}"
        if None in (row["original_queue"], row["original_partition"], row["original_id"]):
            others = f", nor do {row['times'] - 1:,} others" if row["times"] > 1 else ""
            return f"{letter} does not name its original item{others}."
        origin = f"{row['original_id']} of {row['original_queue']}"
        if row["there"]:
            return f"{letter} came from {origin}, and is still stored there."
        return f"{letter} came from {origin}, and so did {row['times'] - 1:,} more, but there was one such item."

    return _checked("dead letters", "Each dead letter was removed from its original queue, once", wrong, origin, tell)


def _histories(tables: Tables) -> Check:
    """Checks that events are numbered from 1 without gaps, the first is the start, and only the last an end."""
    ending = F.col("type").isin(*ENDINGS)
    each = (
        tables["history"]
        .groupBy(*EXECUTION)
        .agg(
            F.count("*").alias("events"),
            F.count_distinct("seq").alias("numbers"),
            F.min("seq").alias("first"),
            F.max("seq").alias("last"),
            F.min_by("type", "seq").alias("first_type"),
            F.count_if(ending).alias("endings"),
            F.min(F.when(ending, F.col("seq"))).alias("ending"),
        )
    )
    begins = (F.col("first") == 1) & (F.col("first_type") == "OrchestrationStarted")
    ends = (F.col("endings") == 0) | ((F.col("endings") == 1) & (F.col("ending") == F.col("last")))
    unbroken = (F.col("numbers") == F.col("events")) & (F.col("last") == F.col("events"))
    wrong = each.where(~(begins & ends & unbroken))

    def tell(row: Row) -> str:
        where = _execution(row)
        if row["numbers"] != row["events"]:
            return f"{where} has {row['events'] - row['numbers']:,} events with a duplicate number."
        if row["last"] - row["first"] + 1 != row["events"]:
            missing = row["last"] - row["first"] + 1 - row["events"]
            return f"{where} has a gap: of events {row['first']:,} to {row['last']:,}, {missing:,} are missing."
        if row["first"] != 1 or row["first_type"] != "OrchestrationStarted":
            return f"{where} begins with event {row['first']:,}, {row['first_type']}."
        if row["endings"] > 1:
            return f"{where} has ended {row['endings']} times."
        return f"{where} goes on to event {row['last']:,} after it has ended with event {row['ending']:,}."

    return _checked("histories", "Each history has no gaps, and ends once", wrong, EXECUTION, tell)


def _completions(tables: Tables) -> Check:
    """Checks that each completion follows the step it is for, and that each step completes at most once."""
    asked, answered = F.col("type").isin(*SCHEDULED), F.col("type").isin(*RESOLVED)
    each = (*EXECUTION, "about")
    grouped = (
        tables["history"]
        .where(asked | (answered & F.col("scheduled_seq").isNotNull()))
        .withColumn("about", F.when(asked, F.col("seq")).otherwise(F.col("scheduled_seq")))
        .groupBy(*each)
        .agg(
            F.max(F.when(asked, F.col("type"))).alias("asked"),
            F.max(F.when(answered, F.col("type"))).alias("answered"),
            F.count_if(answered).alias("answers"),
            F.min(F.when(answered, F.col("seq"))).alias("answer"),
        )
    )
    fitting = named("asked", SCHEDULED) == named("answered", RESOLVED)
    wrong = grouped.where(
        (F.col("answers") > 1)
        | ((F.col("answers") == 1) & (F.col("asked").isNull() | ~fitting | (F.col("answer") < F.col("about"))))
    )

    def tell(row: Row) -> str:
        where, event = _execution(row), f"{row['answered']} (event {row['answer']:,})"
        if row["asked"] is None:
            return f"{where} has {event} for event {row['about']:,}, which scheduled nothing."
        if row["answers"] > 1:
            return f"{where} has {row['answers']} completions of {row['asked']} (event {row['about']:,})."
        if row["answer"] < row["about"]:
            return f"{where} has {event} before {row['asked']} (event {row['about']:,}), which it completes."
        return f"{where} has {event} as the completion of {row['asked']} (event {row['about']:,})."

    return _checked(
        "completions",
        "Each completion is for a scheduled step, and each step completes at most once",
        wrong,
        each,
        tell,
    )


def _statuses(tables: Tables) -> Check:
    """Checks that the status and event count of each instance match its history."""
    instances = tables["instances"].select(*EXECUTION, "status", F.col("events").alias("counted"))
    present = (
        tables["history"]
        .groupBy(*EXECUTION)
        .agg(F.count("*").alias("stored"), F.max_by("type", "seq").alias("last_type"))
    )
    joined = instances.join(present, list(EXECUTION), "left")
    ended_with = named("status", _ENDED_WITH)
    goes_on = ended_with.isNull() & ~F.coalesce(F.col("last_type"), F.lit("")).isin(*ENDINGS)
    fits = F.coalesce(ended_with == F.col("last_type"), goes_on)
    counted = F.coalesce(F.col("stored"), F.lit(0)) == F.coalesce(F.col("counted"), F.lit(0))
    wrong = joined.where(~(fits & counted))

    def tell(row: Row) -> str:
        where = f"Instance {row['instance_id']}{_tenant(row)}"
        if (row["stored"] or 0) != (row["counted"] or 0):
            return f"{where} counts {row['counted'] or 0:,} events, {row['stored'] or 0:,} are stored."
        return f"{where} is {row['status']}, but its history ends with {row['last_type']}."

    return _checked("instances", "Each instance matches its history", wrong, EXECUTION, tell)


def _readable(tables: Tables) -> Check:
    """Checks that no value is broken. Values of a later version or of other programs are not findings."""
    wrong = tables["problems"].where(F.col("problem") == BROKEN)

    def tell(row: Row) -> str:
        return f"{row['state_key']} of {row['actor_type']} {row['actor_id']} cannot be read: {row['detail']}"

    order = ("app_id", "actor_type", "actor_id", "state_key", "detail")
    return _checked("values", "All stored values can be read", wrong, order, tell)


_CHECKS: tuple[Callable[[Tables], Check], ...] = (
    _queue_counts,
    _stored_once,
    _dead_letter_origins,
    _histories,
    _completions,
    _statuses,
    _readable,
)


def _checked(name: str, holds: str, wrong: DataFrame, order: Sequence[str], tell: Callable[[Row], str]) -> Check:
    first = wrong.orderBy(*order).limit(MOST_FINDINGS + 1).collect()
    count = len(first) if len(first) <= MOST_FINDINGS else wrong.count()
    return Check(name, holds, count, tuple(tell(row) for row in first[:MOST_FINDINGS]))


def _any(*conditions: Column) -> Column:
    """Returns whether any condition is true; null counts as false."""
    return reduce(lambda left, right: left | right, (F.coalesce(condition, F.lit(False)) for condition in conditions))


def _partition(row: Row) -> str:
    return f"queue {row['queue']}, partition {row['partition']}{_tenant(row)}"


def _execution(row: Row) -> str:
    return f"The history of {row['instance_id']}, execution {row['execution_id']}{_tenant(row)},"


def _tenant(row: Row) -> str:
    return "" if row["tenant"] in (None, "default") else f" of tenant {row['tenant']}"
