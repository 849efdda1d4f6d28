"""Rows that are foreign, broken or of a later version are skipped, counted and reported; reading goes on."""

from __future__ import annotations

import asyncio
import base64
import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from holdfast.runtime.embedded.sqlite import SqliteStorage
from holdfast.spark import SCHEMAS, snapshot
from tests.support.queue_driver import MORNING, QueueDriver

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture
def database(tmp_path: Path, segments_apart: None) -> Path:
    """A file in which some things are wrong."""
    path = tmp_path / "state.db"

    async def make() -> None:
        storage = SqliteStorage(path)
        await storage.open()
        await storage.close()

    asyncio.run(make())
    queues = {}
    for name in ("good", "torn", "later", "missing", "@acme@orders", "@acme@orders@2", "@@bad"):
        queue = QueueDriver("x@2" if name.endswith("@2") else "x")
        queue.push(*({"of": name, "n": number} for number in range(150)))
        queue.lock(count=5)
        queues[name] = {key: value.decode() for key, value in queue.store.items()}
    queues["torn"]["segment-0-1"] = '{"lines": "1\\n2'
    queues["later"]["metadata"] = json.dumps(json.loads(queues["later"]["metadata"]) | {"_format": 99})
    del queues["missing"]["segment-0-0"]
    rows = [
        (f"shop||PushPopActor||{name}||{key}", value, 0) for name, row in queues.items() for key, value in row.items()
    ]
    # As it is written over gRPC.
    rows += [
        (f"shop||PushPopActor||bytes||{key}", base64.b64encode(value.encode()).decode(), 1)
        for key, value in queues["good"].items()
    ]
    rows += [(f"other||PushPopActor||good||{key}", value, 0) for key, value in queues["good"].items()]
    rows += [
        ("shop||Counter||one||value", "1", 0),
        ("shop||settings", "{}", 0),
        ("lonely", "1", 0),
        ("shop||PushPopActor||good|||segment-0-1", '{"lines": "1", "at": 1.0}', 0),
        ("shop||PushPopActor||else|||metadata", "{}", 0),
        ("shop||PushPopActor||bytes||delayed-0", "not base64", 1),
        ("shop||OrchestrationActor||later||instance", '{"format": 99}', 0),
        ("shop||OrchestrationActor||orphan||history-0-1-0", "[]", 0),
        ("shop||IdempotencyActor||default@abc||record", "[]", 0),
        ("shop||QueueIndexActor||3||pages", "1", 0),
    ]
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executemany("INSERT INTO state (key, value, is_binary, etag) VALUES (?, ?, ?, 'e')", rows)
        connection.execute(
            "INSERT INTO state (key, value, is_binary, etag, expiration_time) "
            "SELECT replace(key, '||good||', '||past||'), value, 0, 'e', datetime('now', '-1 minute') "
            "FROM state WHERE key LIKE 'shop||PushPopActor||good||%'"
        )
    return path


def test_they_are_passed_over_and_told(spark: SparkSession, database: Path) -> None:
    with snapshot(spark, f"sqlite://{database}", app_id="shop", partitions=2) as taken:
        tables = {name: _rows(taken.table(name, as_of=_at_night())) for name in SCHEMAS}
    names = ("good", "bytes", "orders")
    counts = {name: len([row for row in tables["items"] if row["queue"] == name]) for name in names}
    assert counts == {"good": 150, "bytes": 150, "orders": 300}
    # What of them can be read, is.
    assert len([row for row in tables["items"] if row["queue"] == "torn"]) == 100
    assert len([row for row in tables["items"] if row["queue"] == "missing"]) == 50
    assert {row["queue"] for row in tables["items"]} == {*names, "torn", "missing"}
    assert {(row["tenant"], row["partition"]) for row in tables["items"] if row["queue"] == "orders"} == {
        ("acme", 0),
        ("acme", 2),
    }
    assert tables["instances"] == tables["history"] == tables["idempotency"] == []
    _check_problems(tables["problems"])


def _check_problems(problems: list[dict[str, Any]]) -> None:
    foreign = {(row["app_id"], row["actor_type"]): 0 for row in problems if row["problem"] == "foreign"}
    for row in problems:
        if row["problem"] == "foreign":
            foreign[row["app_id"], row["actor_type"]] += row["count"]
    assert foreign.pop(("other", "PushPopActor")) > 2
    assert foreign == {("shop", "Counter"): 1, ("shop", None): 1, (None, None): 1}
    told = {(row["actor_id"], row["state_key"], row["problem"]) for row in problems if row["problem"] != "foreign"}
    assert {name for name, _, problem in told if problem == "later version"} == {"later"}
    assert {(name, key) for name, key, problem in told if problem == "broken" and name != "@@bad"} == {
        ("torn", "segment-0-1"),
        ("missing", "metadata"),
        ("bytes", "delayed-0"),
        ("orphan", "history-0-1-0"),
        ("default@abc", "record"),
    }
    assert all(row["detail"] for row in problems)


def test_options_narrow_what_is_read(spark: SparkSession, database: Path) -> None:
    def items(**options: str) -> set[tuple[str, str, str]]:
        reader = spark.read.format("holdfast").options(url=f"sqlite:///{database}", table="items", **options)
        return {(row["app_id"], row["tenant"], row["queue"]) for row in _rows(reader.load())}

    assert items(queue="good") == {("shop", "default", "good"), ("other", "default", "good")}
    assert items(tenant="acme") == {("shop", "acme", "orders")}
    assert items(queue="orders", tenant="default") == set()
    assert items(actor_type="Counter") == set()


@pytest.mark.parametrize("stack", ["daprd-postgresql-v1"], indirect=True)
def test_bytes_in_jsonb_are_read_too(spark: SparkSession, stack: Any) -> None:
    """As the first version of the component keeps what is written over gRPC."""
    queue = QueueDriver("orders")
    queue.push(*range(150))
    insert = "INSERT INTO state (key, value, isbinary) VALUES (%s, %s::jsonb, true)"
    with psycopg.connect(stack.url) as connection:
        for key, value in queue.store.items():
            text = json.dumps(base64.b64encode(value).decode())
            connection.execute(insert, (f"bytes||PushPopActor||orders||{key}", text))
    with snapshot(spark, stack.url, app_id="bytes") as taken:
        assert [row["item"] for row in _rows(taken.items().orderBy("id"))] == sorted(map(str, range(150)), key=_by_id)
        # All that the queue refers to is found.
        assert _rows(taken.problems().where("app_id = 'bytes'")) == []


def _by_id(item: str) -> str:
    """The ids of the first 150 items, in the order of text."""
    return f"0-0-{int(item) // 100}-{int(item) % 100}"


def _at_night() -> str:
    return datetime.fromtimestamp(MORNING, UTC).isoformat()


def _rows(frame: DataFrame) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = frame.toArrow().to_pylist()
    return found
