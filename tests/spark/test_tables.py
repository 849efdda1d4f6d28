"""Every table has what REST says, whatever the store."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import holdfast.spark
from holdfast.errors import InvalidRequest
from tests.spark.sample_data import KEY, LONG_NUMBER, ExpectedRows, expected_rows, store_samples
from tests.spark.stacks import STACKS
from tests.support.rest import Server
from tests.support.stacks.served import APP_ID

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row = dict[str, Any]


@pytest.mark.parametrize("stack", STACKS, indirect=True)
def test_every_table_has_what_rest_says(spark: SparkSession, stack: Any) -> None:
    expected = ExpectedRows()

    async def prepare(server: Server) -> None:
        await store_samples(server)
        vars(expected).update(vars(await expected_rows(server)))

    async def run() -> None:
        async with Server(stack, "spark") as server:
            await prepare(server)

    stack.run(run())
    with holdfast.spark.snapshot(spark, stack.url, app_id=APP_ID, partitions=3) as snapshot:
        tables = {name: _own(rows(snapshot.table(name))) for name in holdfast.spark.SCHEMAS}
        narrowed = rows(snapshot.items(queue="spark-spread")), rows(snapshot.history(instance="spark-done"))
        some_columns = rows(snapshot.items(queue="spark-spread", columns=("item", "id")))
        with pytest.raises(InvalidRequest, match=r"The columns of items are app_id, .*: name some of them\."):
            snapshot.items(columns=("id", "colour"))
    assert tables.pop("problems") == []
    assert _same(narrowed[0], [row for row in tables["items"] if row["queue"] == "spark-spread"])
    assert _same(narrowed[1], [row for row in tables["history"] if row["instance_id"] == "spark-done"])
    assert _same(some_columns, [{"item": row["item"], "id": row["id"]} for row in narrowed[0]])
    for table in tables.values():
        assert {(row["app_id"], row["tenant"]) for row in table} <= {(APP_ID, "default"), (APP_ID, "spark")}
    _check_queues(tables["queues"], tables["items"], expected)
    _check_items(tables["items"], expected)
    _check_locks(tables["locks"], expected)
    _check_dead_letters(tables["dead_letters"], expected)
    _check_instances(tables["instances"], expected)
    _check_history(tables["history"], expected)
    _check_idempotency(tables["idempotency"], expected)


def _own(table: list[Row]) -> list[Row]:
    """Other tests have put things into the same store."""

    def is_own(row: Row) -> bool:
        if "problem" in row:
            return bool(row["app_id"] == APP_ID)
        if "queue" in row:
            return bool(row["queue"].startswith("spark-"))
        if "instance_id" in row:
            return bool(row["instance_id"].startswith("spark-"))
        return bool(row["tenant"] == "spark")

    return [row for row in table if is_own(row)]


def _same(found: list[Row], expected: list[Row]) -> bool:
    return sorted(map(str, found)) == sorted(map(str, expected)) != []


def rows(frame: DataFrame) -> list[Row]:
    found: list[Row] = frame.toArrow().to_pylist()
    return found


def _check_queues(table: list[Row], items: list[Row], expected: ExpectedRows) -> None:
    counted = Counter((row["queue"], row["partition"], row["state"]) for row in items)
    for row in table:
        for state in ("waiting", "delayed", "locked"):
            assert row[state] == counted[row["queue"], row["partition"], state], row
    for (queue, _), stats in expected.queues.items():
        found = [row for row in table if row["queue"] == queue]
        assert len(found) == stats["config"]["partitions"]
        assert sum(row["waiting"] + row["delayed"] for row in found) == stats["count"]
        assert sum(row["delayed"] for row in found) == stats["delayed"]
        assert sum(row["locked"] for row in found) == stats["locked"]
        assert json.loads(found[0]["config"]) == stats["config"]
        oldest = [row["oldest_enqueued_at"] for row in found if row["oldest_enqueued_at"] is not None]
        assert bool(oldest) == (stats["oldest_age_seconds"] is not None)


def _check_items(table: list[Row], expected: ExpectedRows) -> None:
    found = {(row["queue"], row["id"]): row for row in table}
    assert len(found) == len(table)
    for name, shown in expected.items.items():
        row = found[name]
        assert json.loads(row["item"]) == shown["item"]
        assert moment(row["enqueued_at"]) == shown["enqueued_at"]
        assert row["delivery_count"] == shown["delivery_count"]
        for column in ("state", "priority", "partition"):
            assert row[column] == shown[column]
        for column in ("dedup_id", "idempotency_key", "last_error"):
            assert row[column] == shown.get(column)
    states = Counter((row["queue"], row["state"]) for row in found.values())
    assert states == {
        ("spark-mixed", "waiting"): 230,
        ("spark-mixed", "delayed"): 2,
        ("spark-mixed", "locked"): 4,
        ("spark-spread", "waiting"): 6,
        ("spark-bad", "waiting"): 1,
        ("spark-bad-deadletter", "waiting"): 2,
    }
    delayed = [row for row in found.values() if row["state"] == "delayed"]
    assert all(row["due_at"] > row["enqueued_at"] for row in delayed)
    assert {row["last_error"] for row in delayed} == {None, "not now"}
    [first] = [row for row in found.values() if row["dedup_id"] == "d-1"]
    assert json.loads(first["item"]) == {"first": LONG_NUMBER}
    assert (first["expires_at"] - first["enqueued_at"]).total_seconds() == 3600


def _check_locks(table: list[Row], expected: ExpectedRows) -> None:
    found = {(row["queue"], row["lock_id_prefix"]): row for row in table}
    assert found.keys() == expected.locks.keys()
    for name, lock in expected.locks.items():
        assert found[name]["count"] == lock["count"]
        assert moment(found[name]["expires_at"]) == lock["expires_at"]
        assert found[name]["created_at"] < found[name]["expires_at"]


def _check_dead_letters(table: list[Row], expected: ExpectedRows) -> None:
    found = {(row["queue"], row["id"]): row for row in table}
    assert found.keys() == expected.dead_letters.keys()
    for name, letter in expected.dead_letters.items():
        row = found[name]
        assert json.loads(row["item"]) == letter["item"]
        assert moment(row["dead_lettered_at"]) == letter["dead_lettered_at"]
        for column in letter.keys() - {"item", "dead_lettered_at"}:
            assert row[column] == letter[column]


def _check_instances(table: list[Row], expected: ExpectedRows) -> None:
    found = {row["instance_id"]: row for row in table}
    assert found.keys() == expected.instances.keys()
    for name, status in expected.instances.items():
        row = found[name]
        for column in ("input", "output", "error", "custom_status", "parent"):
            assert json.loads(row[column] or "null") == status[column]
        for column in ("created_at", "updated_at", "ended_at"):
            assert moment(row[column]) == status[column]
        for column in ("name", "version", "status", "execution_id", "events"):
            assert row[column] == status[column]
        for column, without in (("tags", {}), ("rerun_of", None), ("reruns", [])):
            assert json.loads(row[column] or json.dumps(without)) == status.get(column, without)
    assert json.loads(found["spark-broken"]["reruns"]) == ["spark-again"]
    assert json.loads(found["spark-again"]["rerun_of"])["instance_id"] == "spark-broken"
    assert found["spark-done"]["tags"] is found["spark-done"]["rerun_of"] is found["spark-done"]["reruns"] is None
    assert {row["status"] for row in table} == {"COMPLETED", "FAILED", "CANCELLED", "RUNNING"}


def _check_history(table: list[Row], expected: ExpectedRows) -> None:
    found = {(row["instance_id"], row["execution_id"], row["seq"]): row for row in table}
    assert len(found) == len(table)
    assert found.keys() == expected.history.keys()
    for name, event in expected.history.items():
        row = found[name]
        shown = json.loads(row["data"]) | {"timestamp": moment(row["timestamp"])}
        shown |= {column: row[column] for column in ("execution_id", "seq", "type")}
        shown |= {column: row[column] for column in ("name", "scheduled_seq") if row[column] is not None}
        assert shown == event


def _check_idempotency(table: list[Row], expected: ExpectedRows) -> None:
    found = {(row["tenant"], row["key"]): row for row in table}
    assert found.keys() == expected.idempotency.keys()
    for name, record in expected.idempotency.items():
        row = found[name]
        assert json.loads(row["result"] or "null") == record.get("result")
        for column in ("lease_expires_at", "updated_at"):
            assert moment(row[column]) == record.get(column)
        for column in ("status", "last_error", "owner", "attempts"):
            assert row[column] == record.get(column)
    assert json.loads(found["spark", KEY]["result"]) == {"ok": LONG_NUMBER}


def moment(value: Any) -> str | None:
    """As REST writes it."""
    if value is None:
        return None
    written: str = value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return written
