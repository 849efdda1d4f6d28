"""Five questions about stored data, each answered by a few lines of Spark. Runs as a script, or cell by cell.

pip install 'holdfast[spark]'
python -m examples.questions sqlite:///path/to/holdfast-data/holdfast.db    # a database: its current state
python -m examples.questions ./holdfast-snapshots                           # a series of snapshots: its development
"""

# %% Tables: a database, or a series of snapshots
from __future__ import annotations

import argparse
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

import holdfast.spark
from holdfast.errors import HoldfastError
from holdfast.spark.history_steps import between, steps
from holdfast.spark.session import spark_session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from pyspark.sql import Column, DataFrame, SparkSession


@dataclass(frozen=True)
class Tables:
    """The tables of a database at this moment, or of a series of snapshots."""

    spark: SparkSession
    #: Returns a table by its name. Each row also has ``as_of``, the moment of its snapshot.
    all: Callable[[str], DataFrame]
    #: The moments of all snapshots, oldest first, including those in which a table is empty.
    moments: list[datetime]

    def latest(self, name: str) -> DataFrame:
        """Returns a table as of the last snapshot."""
        return self.all(name).where(F.col("as_of") == at(self.moments[-1]))

    def each_moment(self) -> DataFrame:
        return self.spark.range(1).select(F.explode(F.array(*map(at, self.moments))).alias("as_of"))


@contextmanager
def opened(spark: SparkSession, place: str) -> Iterator[Tables]:
    if "://" not in place:
        series = holdfast.spark.series(spark, place)
        yield Tables(spark, series.table, [kept.moment for kept in series.snapshots])
        return
    with holdfast.spark.snapshot(spark, place) as snapshot:
        now = snapshot.as_of
        yield Tables(spark, lambda name: snapshot.table(name).withColumn("as_of", at(now)), [now])


def at(moment: datetime) -> Column:
    """Returns a timestamp literal that does not depend on the time zones of driver and session."""
    return F.lit(moment.isoformat()).cast("timestamp")


# %% 1. What is stuck? The longest-waiting items of queues and instances of orchestrations.
def what_is_stuck(tables: Tables) -> DataFrame:
    items = tables.latest("items").where("state = 'waiting'")
    waiting = items.groupBy("tenant", F.concat(F.lit("queue "), "queue").alias("where")).agg(
        F.count("*").alias("waiting"),
        F.max(between(F.greatest("enqueued_at", F.coalesce("due_at", "enqueued_at")), "as_of")).alias("seconds"),
        # The error of the item that has waited longest among those with an error.
        F.min_by("last_error", F.when(F.col("last_error").isNotNull(), F.col("enqueued_at"))).alias("says"),
    )
    under_way = tables.latest("instances").where("status IN ('RUNNING', 'SUSPENDED', 'BLOCKED')")
    silent = under_way.groupBy("tenant", F.concat(F.lit("orchestration "), "name").alias("where")).agg(
        F.count("*").alias("waiting"),
        F.max(between("updated_at", "as_of")).alias("seconds"),
        F.max_by("custom_status", between("updated_at", "as_of")).alias("says"),
    )
    return waiting.unionByName(silent).orderBy(F.desc("seconds"))


# %% 2. Who retries most? Each attempt of an activity is a separate step.
def who_retries_most(tables: Tables) -> DataFrame:
    activities = steps(tables.latest("history")).where("kind = 'activity'")
    return (
        activities.groupBy("name")
        .agg(
            F.count_if(F.col("attempt") == 1).alias("calls"),
            F.count_if(F.col("attempt") > 1).alias("repeated"),
            F.count_if(F.col("outcome") == "failed").alias("failed"),
            F.max("attempt").alias("most_attempts"),
        )
        .orderBy(F.desc("repeated"), F.desc("failed"), "name")
    )


# %% 3. How long do approvals take? The time from waiting for an event to receiving it. Mailboxes are not included: a
# history does not record when the code began to wait for one.
def how_long_approvals_take(tables: Tables, event: str = "approv%") -> DataFrame:
    waited = steps(tables.latest("history")).where(F.col("kind") == "event").where(F.col("name").like(event))
    # An instance that has ended no longer waits for its events.
    execution = ["app_id", "tenant", "instance_id", "execution_id"]
    under_way = tables.latest("instances").where("ended_at IS NULL").select(*execution, F.lit(True).alias("under_way"))
    waited = waited.join(under_way, execution, "left")
    awaited = F.col("outcome").isNull() & F.col("under_way")
    shares = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
    return waited.groupBy("name").agg(
        F.count("outcome").alias("came"),
        F.count_if(awaited).alias("awaited"),
        *(F.round(F.percentile_approx("seconds", share), 3).alias(name) for name, share in shares.items()),
        F.min(F.when(awaited, F.col("asked_at"))).alias("awaited_since"),
    )


# %% 4. Which tenant grows? Stored items and instances in the first and in the last snapshot.
def which_tenant_grows(tables: Tables) -> DataFrame:
    kept = [
        tables.all(name).groupBy("tenant", "as_of").agg(F.count("*").alias(name)) for name in ("items", "instances")
    ]
    # Include snapshots in which a tenant had no data.
    everyone = kept[0].select("tenant").union(kept[1].select("tenant")).distinct()
    both = everyone.crossJoin(tables.each_moment())
    for counted in kept:
        both = both.join(counted, ["tenant", "as_of"], "left")
    both = both.na.fill(0)
    return (
        both.groupBy("tenant")
        .agg(
            F.min_by("items", "as_of").alias("items_first"),
            F.max_by("items", "as_of").alias("items_last"),
            F.min_by("instances", "as_of").alias("instances_first"),
            F.max_by("instances", "as_of").alias("instances_last"),
        )
        .withColumn(
            "grown", F.col("items_last") - F.col("items_first") + F.col("instances_last") - F.col("instances_first")
        )
        .orderBy(F.desc("grown"), F.desc("items_last"), "tenant")
    )


# %% 5. What was lost when? Dead letters and failed orchestrations by the hour, including those purged since.
def what_was_lost_when(tables: Tables) -> DataFrame:
    letters = tables.all("dead_letters").dropDuplicates(["app_id", "tenant", "queue", "id", "dead_lettered_at"])
    failed = (
        tables.all("instances")
        .where("status = 'FAILED'")
        .dropDuplicates(["app_id", "tenant", "instance_id", "ended_at"])
    )
    lost = letters.select(
        F.col("dead_lettered_at").alias("at"),
        F.concat(F.lit("item of "), F.coalesce("original_queue", "queue")).alias("what"),
        F.coalesce("last_error", "reason").alias("why"),
    ).unionByName(
        failed.select(
            F.col("ended_at").alias("at"),
            F.concat(F.lit("orchestration "), "name").alias("what"),
            F.coalesce(F.get_json_object("error", "$.message"), "error").alias("why"),
        )
    )
    return (
        lost.groupBy(F.date_trunc("hour", "at").alias("hour"), "what", "why")
        .agg(F.count("*").alias("lost"))
        .orderBy(F.desc("hour"), F.desc("lost"), "what")
    )


# %% All questions
QUESTIONS = {
    "What is stuck?": what_is_stuck,
    "Who retries most?": who_retries_most,
    "How long do approvals take?": how_long_approvals_take,
    "Which tenant grows?": which_tenant_grows,
    "What was lost when?": what_was_lost_when,
}


def main(place: str) -> None:
    with spark_session() as spark, opened(spark, place) as tables:
        for question, answer in QUESTIONS.items():
            print(question)
            answer(tables).show(20, truncate=60)


if __name__ == "__main__":
    command = argparse.ArgumentParser(
        prog="python -m examples.questions",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("place", nargs="?", default="holdfast-snapshots", help="a database, or a folder of snapshots")
    try:
        main(command.parse_args().place)
    except HoldfastError as error:
        command.exit(1, f"{error}\n")
