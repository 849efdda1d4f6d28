"""What is different between two snapshots."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from holdfast.spark.figures.queues import came_back

if TYPE_CHECKING:
    from collections.abc import Mapping
    from concurrent.futures import Executor

    from pyspark.sql import Column, DataFrame, Row

    Tables = Mapping[str, DataFrame]

#: Queues and orchestrations that are told by name; the others are in the totals.
TOP = 25

_QUEUE = ("app_id", "tenant", "queue")
_ITEM = (*_QUEUE, "partition", "id")
_INSTANCE = ("app_id", "tenant", "instance_id")
_OF_QUEUES = ("before", "now", "new", "gone", "dead_lettered", "returned", "dead_letters_new", "dead_letters_gone")
_OF_INSTANCES = ("before", "now", "new", "completed", "failed", "cancelled", "deleted")


@dataclass(frozen=True)
class QueueChange:
    """Of one queue, or of all when it has no name. What was pushed and taken between the two is in neither."""

    app_id: str | None
    tenant: str | None
    queue: str | None
    before: int
    now: int
    new: int
    #: Done, expired, revoked, purged, or dead-lettered.
    gone: int
    #: Those of the gone that lie in a dead-letter queue now.
    dead_lettered: int
    #: Taken and given back in between.
    returned: int
    #: Dead letters that came from this queue.
    dead_letters_new: int
    dead_letters_gone: int


@dataclass(frozen=True)
class InstanceChange:
    """Of the orchestrations of one name, or of all."""

    name: str | None
    before: int
    now: int
    new: int
    #: Of these and those that were there: how many came to which end in between.
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
    # An item keeps its id as long as it is in its queue; its dead letter remembers it.
    origin = [F.col(f"original_{name}").alias(name) for name in ("queue", "partition", "id")]
    letters = later["dead_letters"].select("app_id", "tenant", *origin, F.lit(True).alias("letter")).distinct()
    both = (
        _side(earlier["items"], "before", came_back())
        .join(_side(later["items"], "after", came_back()), list(_ITEM), "full")
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
    told = of_items.join(of_letters, list(_QUEUE), "full").na.fill(0, list(_OF_QUEUES))
    return _first(told, list(_QUEUE), _OF_QUEUES, ("new", "gone", "returned", "dead_letters_new", "dead_letters_gone"))


def _instances(earlier: DataFrame, later: DataFrame) -> tuple[list[Row], int, Row]:
    # One that was deleted and started again under its id was created at another moment.
    key = [*_INSTANCE, "name", "created_at"]
    both = earlier.select(*key, F.col("status").alias("before")).join(
        later.select(*key, F.col("status").alias("after")), key, "full"
    )
    changed = F.col("before").isNull() | (F.col("before") != F.col("after"))
    told = both.groupBy("name").agg(
        F.count("before").alias("before"),
        F.count("after").alias("now"),
        F.count_if(F.col("before").isNull()).alias("new"),
        *(
            F.count_if(changed & (F.col("after") == status)).alias(status.lower())
            for status in ("COMPLETED", "FAILED", "CANCELLED")
        ),
        F.count_if(F.col("after").isNull()).alias("deleted"),
    )
    return _first(told, ["name"], _OF_INSTANCES, ("new", "completed", "failed", "cancelled", "deleted"))


def _side(items: DataFrame, name: str, value: Column) -> DataFrame:
    return items.select(*_ITEM, value.alias(name))


def _first(
    told: DataFrame, key: list[str], numbers: tuple[str, ...], moving: tuple[str, ...]
) -> tuple[list[Row], int, Row]:
    """Those where most has changed, how many have changed at all, and the sum of all."""
    moved = sum((F.col(name) for name in moving), F.lit(0))
    told = told.withColumn("moved", moved)
    nobody = [F.lit(None).cast("string").alias(name) for name in key]
    total = told.agg(
        *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in numbers),
        F.count_if(F.col("moved") > 0).alias("changed"),
    ).select(*nobody, *numbers, "changed")
    [all_of_it] = total.collect()
    rows = told.where("moved > 0").orderBy(F.desc("moved"), *key).limit(TOP).select(*key, *numbers).collect()
    return rows, all_of_it["changed"], all_of_it


def _queue_change(row: Row) -> QueueChange:
    return QueueChange(*(row[name] for name in (*_QUEUE, *_OF_QUEUES)))


def _instance_change(row: Row) -> InstanceChange:
    return InstanceChange(*(row[name] for name in ("name", *_OF_INSTANCES)))
