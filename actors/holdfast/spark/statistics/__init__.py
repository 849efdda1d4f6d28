"""Computes the report's figures; their size does not depend on the size of the tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from holdfast.spark.statistics.instances import (
    ENDED,
    STATUSES,
    InstanceFigures,
    StepFigures,
    instance_figures,
    step_figures,
)
from holdfast.spark.statistics.queues import (
    DeadLetterFigures,
    LockFigures,
    QueueFigures,
    dead_letter_figures,
    lock_figures,
    queue_figures,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from concurrent.futures import Executor

    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Figures:
    """All figures of the report."""

    queues: QueueFigures
    locks: LockFigures
    dead_letters: DeadLetterFigures
    instances: InstanceFigures
    steps: StepFigures
    #: Idempotency records by status.
    idempotency: dict[str, int]

    @property
    def totals(self) -> dict[str, int]:
        """The totals stored in the manifest, from which a series shows the trend."""
        return {
            "queues": self.queues.queues,
            "waiting": self.queues.waiting,
            "delayed": self.queues.delayed,
            "locked": self.queues.locked,
            "returned": self.queues.returned,
            "dead_letters": self.dead_letters.letters,
            "instances": self.instances.instances,
            "running": sum(self.instances.by_status[status] for status in STATUSES if status not in ENDED),
            "failed": self.instances.by_status["FAILED"],
        }


def figures(tables: Mapping[str, DataFrame], as_of: float, pool: Executor) -> Figures:
    """Computes all figures; the pool plans one query while another runs."""
    queues = pool.submit(queue_figures, tables["queues"], tables["items"], as_of)
    steps = pool.submit(step_figures, tables["history"])
    instances = pool.submit(instance_figures, tables["instances"], tables["history"], as_of)
    locks = pool.submit(lock_figures, tables["locks"], as_of)
    dead_letters = pool.submit(dead_letter_figures, tables["dead_letters"])
    idempotency = pool.submit(_idempotency, tables["idempotency"])
    return Figures(
        queues.result(), locks.result(), dead_letters.result(), instances.result(), steps.result(), idempotency.result()
    )


def _idempotency(records: DataFrame) -> dict[str, int]:
    rows = records.groupBy("status").agg(F.count("*").alias("records")).orderBy("status").collect()
    return {row["status"]: row["records"] for row in rows}
