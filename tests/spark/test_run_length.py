"""Items come from a snapshot in runs, and are what a plain load has, row by row."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import holdfast.spark
from holdfast.spark.decode.run_length import FIRST
from tests.spark.state_writer import read, write
from tests.support.queue_driver import QueueDriver

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

WAITING = 250


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Items that were only pushed, some taken since; others with all there is to know; and one that is wrong."""
    plain, rich, wrong = QueueDriver("plain"), QueueDriver("rich", max_locks=3), QueueDriver("wrong")
    plain.push(*({"n": number, "text": 'Grüße \\ "'} for number in range(WAITING)), priority=7)
    plain.pop(count=30)
    entries = [
        {"item": 1, "dedup_id": "d-1"},
        {"item": 2, "idempotency_key": "i-1", "ttl_seconds": 3600},
        {"item": 3, "delay_seconds": 3600},
        {"item": None},
        {"item": 5, "priority": 3},
    ]
    for entry in entries:
        rich.call("Push", {"items": [{"priority": 0} | entry]})
    rich.lock(count=1, ttl_seconds=300)
    # Too much for the metadata, where all that the others have of some segments lies.
    wrong.push(*["x" * 1000] * 3)
    segment = json.loads(wrong.store["segment-0-0"])
    segment["at"] = [segment["at"], True, segment["at"]]
    values: dict[str, Any] = {
        f"shop||PushPopActor||{queue.actor_id}||{key}": value.decode()
        for queue in (plain, rich, wrong)
        for key, value in queue.store.items()
    }
    values["shop||PushPopActor||wrong||segment-0-0"] = json.dumps(segment)
    write(tmp_path / "state.db", values)
    return tmp_path / "state.db"


@pytest.mark.parametrize(
    "columns",
    [None, ("item",), ("enqueued_at", "id"), ("id", "item"), ("id", "queue", "state"), ("last_error", "enqueued_at")],
)
def test_the_same_as_a_plain_load(spark: SparkSession, file: Path, columns: tuple[str, ...] | None) -> None:
    with holdfast.spark.snapshot(spark, f"sqlite://{file}", partitions=2) as snapshot:
        plain = spark.read.format("holdfast").options(
            url=f"sqlite://{file}", table="items", as_of=snapshot.as_of.isoformat()
        )
        expected = plain.load() if columns is None else plain.load().select(*columns)
        found = snapshot.items() if columns is None else snapshot.items(columns=columns)
        assert found.schema == expected.schema
        assert _rows(found) == _rows(expected)
        assert found.count() == WAITING - 30 + 5 + 2


def test_what_is_asked_of_them_is_right(spark: SparkSession, file: Path) -> None:
    """Spark moves conditions past the lists, and leaves out columns, as it likes."""
    with holdfast.spark.snapshot(spark, f"sqlite://{file}") as snapshot:
        items = snapshot.items()
        assert items.where("id = '0-7-1-3'").select("item").collect()[0]["item"] == (
            json.dumps({"n": 103, "text": 'Grüße \\ "'}, ensure_ascii=False, separators=(",", ":"))
        )
        assert items.where("queue = 'rich' and dedup_id = 'd-1'").count() == 1
        assert {row["queue"]: row["count"] for row in items.groupBy("queue").count().collect()} == {
            "plain": WAITING - 30,
            "rich": 5,
            "wrong": 2,
        }
        again = items.alias("left").join(snapshot.items().alias("right"), ["queue", "id"])
        assert again.count() == WAITING - 30 + 5 + 2


def test_a_run_is_what_lies_in_one_value(file: Path) -> None:
    """So that nothing grows with a queue; and no more rows than that."""
    runs = [row for row in read(file, "items", packed="true") if row["queue"] == "plain"]
    assert sorted((row["id"], row[FIRST], len(row["item"]), len(row["enqueued_at"])) for row in runs) == [
        ("0-7-0-", 30, 70, 70),
        ("0-7-1-", 0, 100, 100),
        ("0-7-2-", 0, 50, 50),
    ]


def _rows(frame: DataFrame) -> list[str]:
    return sorted(map(str, frame.toArrow().to_pylist()))
