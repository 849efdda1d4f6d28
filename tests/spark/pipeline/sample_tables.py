"""Small, consistent tables in memory as input for the queries; a test can break them."""

from __future__ import annotations

import copy
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow
from pyspark.sql.pandas.types import to_arrow_schema

from holdfast.spark.source.schemas import SCHEMAS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

AS_OF = datetime(2026, 3, 14, 15, 9, 26, 535_000, UTC)
_OWN = {"app_id": "shop", "tenant": "default"}


def ago(seconds: float) -> datetime:
    return AS_OF - timedelta(seconds=seconds)


@dataclass
class SampleTables:
    """Rows of each table; what a row does not name is null."""

    rows: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: {name: [] for name in SCHEMAS})

    def copy(self) -> SampleTables:
        return copy.deepcopy(self)

    def add(self, table: str, **values: Any) -> dict[str, Any]:
        row = _OWN | values
        self.rows[table].append(row)
        return row

    def one(self, table: str, **values: Any) -> dict[str, Any]:
        """The row that has these values."""
        [found] = [row for row in self.rows[table] if all(row.get(key) == value for key, value in values.items())]
        return found

    def queue(self, name: str, items: list[dict[str, Any]], **lock: Any) -> None:
        """With counts that fit, and one lock on what is locked."""
        states = [item.setdefault("state", "waiting") for item in items]
        counts = {state: states.count(state) for state in ("waiting", "delayed", "locked")}
        self.add("queues", queue=name, partition=0, config="{}", **counts)
        for number, item in enumerate(items):
            usual = {"priority": 0, "item": "{}", "enqueued_at": ago(60), "delivery_count": 0}
            self.add("items", **(usual | {"queue": name, "partition": 0, "id": f"0-0-0-{number}"} | item))
        if counts["locked"]:
            held = {"lock_id_prefix": "kX3v", "count": counts["locked"], "expires_at": ago(-20)} | lock
            self.add("locks", queue=name, partition=0, created_at=ago(10), **held)

    def instance(self, name: str, of: str, story: list[dict[str, Any]], status: str = "RUNNING", **more: Any) -> None:
        """Its events are numbered as they come, a second apart."""
        first = more.pop("created_at", ago(600))
        for seq, event in enumerate(story, 1):
            known = {"seq": seq, "execution_id": 1, "timestamp": first + timedelta(seconds=seq - 1), "data": "{}"}
            self.add("history", **(known | {"instance_id": name} | event))
        ended = None if status == "RUNNING" else first + timedelta(seconds=len(story) - 1)
        usual = {"execution_id": 1, "events": len(story), "created_at": first, "ended_at": ended, "version": "1"}
        self.add("instances", **(usual | {"instance_id": name, "name": of, "status": status} | more))

    def tables(self, spark: SparkSession) -> dict[str, DataFrame]:
        return {name: _frame(spark, schema, self.rows[name]) for name, schema in SCHEMAS.items()}


def _frame(spark: SparkSession, schema: StructType, rows: list[dict[str, Any]]) -> DataFrame:
    # Through Arrow: of a list of rows, Spark would make one that asks Python for them again in every query.
    return spark.createDataFrame(pyarrow.Table.from_pylist(rows, to_arrow_schema(schema, timezone="UTC")), schema)


@dataclass(frozen=True)
class Opened:
    as_of: datetime
    tables: dict[str, DataFrame]

    def table(self, name: str) -> DataFrame:
        return self.tables[name]


@contextmanager
def opened(spark: SparkSession, sample: SampleTables, as_of: datetime = AS_OF) -> Iterator[Opened]:
    """As a snapshot of the state store is."""
    yield Opened(as_of, sample.tables(spark))


def started(of: str) -> dict[str, Any]:
    return {"type": "OrchestrationStarted", "name": of}


def small_shop() -> SampleTables:
    """A bit of everything, and all of it adds up."""
    shop = SampleTables()
    shop.queue(
        "orders",
        [
            {"priority": 2, "enqueued_at": ago(4000), "delivery_count": 3, "last_error": "no stock"},
            {"priority": 0, "enqueued_at": ago(30)},
            {"state": "delayed", "due_at": ago(-60)},
            {"state": "locked", "delivery_count": 1},
            {"state": "locked", "delivery_count": 2, "priority": 1},
        ],
        expires_at=ago(-4),
    )
    shop.queue("mails", [{"enqueued_at": ago(0.5)}])
    shop.queue("idle", [])
    shop.queue("orders-deadletter", [{"id": "0-0-0-0"}])
    shop.add(
        "dead_letters",
        queue="orders-deadletter",
        id="0-0-0-0",
        item='{"goods": "kedge"}',
        reason="max deliveries",
        attempts=10,
        last_error="<b>kedges</b> are sold out",
        original_queue="orders",
        original_partition=0,
        original_id="0-0-0-99",
        dead_lettered_at=ago(100),
    )
    shop.instance(
        "order-1",
        "order",
        [
            started("order"),
            {"type": "ActivityScheduled", "name": "charge", "data": '{"attempt": 1}'},
            {"type": "ActivityFailed", "scheduled_seq": 2, "data": '{"error": {"type": "IOError", "message": "down"}}'},
            {"type": "ActivityScheduled", "name": "charge", "data": '{"attempt": 2}'},
            {"type": "ActivityCompleted", "scheduled_seq": 4},
            {"type": "OrchestrationCompleted"},
        ],
        "COMPLETED",
    )
    shop.instance(
        "order-2",
        "order",
        [
            started("order"),
            {"type": "EventSubscribed", "name": "approved"},
            {"type": "EventRaised", "name": "approved", "scheduled_seq": 2},
            {"type": "ActivityScheduled", "name": "ship", "data": '{"attempt": 1}'},
            {"type": "ActivityFailed", "scheduled_seq": 4, "data": '{"error": {"type": "E", "message": "sold out"}}'},
            {"type": "OrchestrationFailed"},
        ],
        "FAILED",
        error='{"type": "ValueError", "message": "kedges are sold out"}',
    )
    shop.instance(
        "order-3", "order", [started("order"), {"type": "EventSubscribed", "name": "approved"}], custom_status='"waits"'
    )
    shop.add("idempotency", key="k-1", status="SUCCESS", attempts=1)
    return shop
