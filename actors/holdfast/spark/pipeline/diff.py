"""Compares two snapshots: what changed in each queue and orchestration."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from holdfast.spark.statistics.queues import redeliveries

if TYPE_CHECKING:
    from collections.abc import Mapping
    from concurrent.futures import Executor

    from pyspark.sql import Column, DataFrame, Row

    Tables = Mapping[str, DataFrame]

#: Queues and orchestrations listed by name; the others are in the totals only.
TOP = 25

_QUEUE = ("app_id", "tenant", "queue")
_ITEM = (*_QUEUE, "partition", "id")
_INSTANCE = ("app_id", "tenant", "instance_id")
_OF_QUEUES = ("before", "now", "new", "gone", "dead_lettered", "returned", "dead_letters_new", "dead_letters_gone")
_OF_INSTANCES = ("before", "now", "new", "completed", "failed", "cancelled", "deleted")


@dataclass(frozen=True)
class QueueChange:
    """The changes of one queue, or of all when it has no name. Items pushed and removed in between are not seen."""

    app_id: str | None
    tenant: str | None
    queue: str | None
    before: int
    now: int
    new: int
    #: Items acknowledged, expired, revoked, purged, or dead-lettered.
    gone: int
    #: Removed items that are in a dead-letter queue now.
    dead_lettered: int
    #: Items redelivered in between.
    returned: int
    #: New dead letters from this queue.
    dead_letters_new: int
    dead_letters_gone: int


@dataclass(frozen=True)
class InstanceChange:
    """The changes of the instances of one orchestration, or of all."""

    name: str | None
    before: int
    now: int
    new: int
    #: Instances, new or not, that ended in between.
    completed: int
    failed: int
    cancelled: int
    deleted: int


@dataclass(frozen=True)
class Changes:
    queues: list[QueueChange]
    queues_left_out: int
    all_queues: QueueChange
    instances: list[InstanceChange]
    instances_left_out: int
    all_instances: InstanceChange

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def nothing(self) -> bool:
        return not (self.queues or self.instances)


def changes(earlier: Tables, later: Tables, pool: Executor) -> Changes:
    queues = pool.submit(_queues, earlier, later)
    instances = pool.submit(_instances, earlier["instances"], later["instances"])
    queue_rows, queues_changed, all_queues = queues.result()
    instance_rows, instances_changed, all_instances = instances.result()
    return Changes(
        queues=[_queue_change(row) for row in queue_rows],
        queues_left_out=queues_changed - len(queue_rows),
        all_queues=_queue_change(all_queues),
        instances=[_instance_change(row) for row in instance_rows],
        instances_left_out=instances_changed - len(instance_rows),
        all_instances=_instance_change(all_instances),
    )


def _queues(earlier: Tables, later: Tables) -> tuple[list[Row], int, Row]:
    # An item keeps its id while it is in its queue; its dead letter has it as the original id.
    origin = [F.col(f"original_{name}").alias(name) for name in ("queue", "partition", "id")]
    letters = later["dead_letters"].select("app_id", "tenant", *origin, F.lit(True).alias("letter")).distinct()
    both = (
        _side(earlier["items"], "before", redeliveries())
        .join(_side(later["items"], "after", redeliveries()), list(_ITEM), "full")
        .join(letters, list(_ITEM), "left")
    )
    here, there = F.col("before").isNotNull(), F.col("after").isNotNull()
    of_items = both.groupBy(*_QUEUE).agg(
        F.count("before").alias("before"),
        F.count("after").alias("now"),
        F.count_if(~here & there).alias("new"),
        F.count_if(here & ~there).alias("gone"),
        F.count_if(here & ~there & F.col("letter")).alias("dead_lettered"),
        F.count_if(F.col("after") > F.col("before")).alias("returned"),
    )
    source = F.coalesce("original_queue", "queue")
    letter = ("app_id", "tenant", F.col("queue").alias("lies_in"), "id", source.alias("queue"))
    of_letters = (
        earlier["dead_letters"]
        .select(*letter, F.lit(1).alias("had"))
        .join(later["dead_letters"].select(*letter, F.lit(1).alias("has")), [*_QUEUE, "lies_in", "id"], "full")
        .groupBy(*_QUEUE)
        .agg(
            F.count_if(F.col("had").isNull()).alias("dead_letters_new"),
            F.count_if(F.col("has").isNull()).alias("dead_letters_gone"),
        )
    )
    counts = of_items.join(of_letters, list(_QUEUE), "full").na.fill(0, list(_OF_QUEUES))
    return _first(
        counts, list(_QUEUE), _OF_QUEUES, ("new", "gone", "returned", "dead_letters_new", "dead_letters_gone")
    )


def _instances(earlier: DataFrame, later: DataFrame) -> tuple[list[Row], int, Row]:
    # An instance that was deleted and started again with its id has another creation time.
    key = [*_INSTANCE, "name", "created_at"]
    both = earlier.select(*key, F.col("status").alias("before")).join(
        later.select(*key, F.col("status").alias("after")), key, "full"
    )
    changed = F.col("before").isNull() | (F.col("before") != F.col("after"))
    counts = both.groupBy("name").agg(
        F.count("before").alias("before"),
        F.count("after").alias("now"),
        F.count_if(F.col("before").isNull()).alias("new"),
        *(
            F.count_if(changed & (F.col("after") == status)).alias(status.lower())
            for status in ("COMPLETED", "FAILED", "CANCELLED")
        ),
        F.count_if(F.col("after").isNull()).alias("deleted"),
    )
    return _first(counts, ["name"], _OF_INSTANCES, ("new", "completed", "failed", "cancelled", "deleted"))


def _side(items: DataFrame, name: str, value: Column) -> DataFrame:
    return items.select(*_ITEM, value.alias(name))


def _first(
    counts: DataFrame, key: list[str], numbers: tuple[str, ...], moving: tuple[str, ...]
) -> tuple[list[Row], int, Row]:
    """Returns the rows with the most changes, the number of changed rows, and the sum of all rows."""
    moved = sum((F.col(name) for name in moving), F.lit(0))
    counts = counts.withColumn("moved", moved)
    no_key = [F.lit(None).cast("string").alias(name) for name in key]
    total = counts.agg(
        *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in numbers),
        F.count_if(F.col("moved") > 0).alias("changed"),
    ).select(*no_key, *numbers, "changed")
    [all_of_it] = total.collect()
    rows = counts.where("moved > 0").orderBy(F.desc("moved"), *key).limit(TOP).select(*key, *numbers).collect()
    return rows, all_of_it["changed"], all_of_it


def _queue_change(row: Row) -> QueueChange:
    return QueueChange(*(row[name] for name in (*_QUEUE, *_OF_QUEUES)))


def _instance_change(row: Row) -> InstanceChange:
    return InstanceChange(*(row[name] for name in ("name", *_OF_INSTANCES)))
