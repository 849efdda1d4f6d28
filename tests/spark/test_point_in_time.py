"""A snapshot shows one point in time of all tables, while everything moves."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

import holdfast.spark
from holdfast.errors import HoldfastError, InvalidRequest
from tests.support.rest import Server
from tests.support.runs import Run
from tests.support.stacks.served import APP_ID

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from pyspark.sql import DataFrame, SparkSession

ITEMS = 60
# Of each of the two stores, 30 together.
SNAPSHOTS = 15
TABLES = ("queues", "items", "instances", "history")
# Without one, it shows sooner or later.
TRIES = 30

Tables = dict[str, list[dict[str, Any]]]


@pytest.mark.parametrize("stack", ["embedded", "daprd-postgresql"], indirect=True)
def test_every_snapshot_conserves_what_moves(spark: SparkSession, stack: Any) -> None:
    def snapshots() -> None:
        for _ in range(SNAPSHOTS):
            with holdfast.spark.snapshot(spark, stack.url, app_id=APP_ID, partitions=2) as snapshot:
                tables = {name: _rows(snapshot.table(name)) for name in TABLES}
            assert _differences(tables) == []

    def separate_loads() -> None:
        for _ in range(TRIES):
            options = {"url": stack.url, "app_id": APP_ID}
            loads = {name: spark.read.format("holdfast").options(table=name, **options).load() for name in TABLES[:2]}
            tables = {name: _rows(frame) for name, frame in loads.items()} | {"instances": [], "history": []}
            if _differences(tables):
                return
        pytest.fail("it makes no difference whether there is a snapshot")

    stack.run(_under_fire(stack, snapshots, separate_loads))


async def _under_fire(stack: Any, *looks: Callable[[], None]) -> None:
    """Looks while items go to and fro between two queues, and instances come and end."""
    async with Server(stack, "moved") as server:
        queue = server.queue()
        await queue.configure(max_locks=50, max_deliveries=1_000_000)
        await queue.push_many(*range(ITEMS))
        async with asyncio.TaskGroup() as group:
            movers = [group.create_task(_forever(_move, server)) for _ in range(2)]
            movers.append(group.create_task(_forever(_start, server)))
            try:
                for look in looks:
                    await asyncio.to_thread(look)
            finally:
                for mover in movers:
                    mover.cancel()


async def _forever(what: Callable[[Server, int], Coroutine[Any, Any, None]], server: Server) -> None:
    number = 0
    while True:
        number += 1
        await what(server, number)


async def _move(server: Server, number: int) -> None:
    queue = server.queue()
    taken = (await queue.pop(require_ack=True, count=7)).body
    if taken.get("count"):
        await queue.dead_letter(taken["lock_id"], reason="moved")
    await queue.redrive(max=7)


async def _start(server: Server, number: int) -> None:
    run = Run(server, f"run-{id(server)}-{number}")
    await run.begin("fan_out", 3)
    await run.ended()


def _differences(tables: Tables) -> list[Any]:
    """Returns the values in the tables that contradict each other."""
    items = [row for row in tables["items"] if row["queue"].startswith("moved")]
    found = [] if sorted(row["item"] for row in items) == sorted(map(str, range(ITEMS))) else [len(items)]
    counted = Counter((row["queue"], row["state"]) for row in items)
    for row in tables["queues"]:
        if row["queue"].startswith("moved"):
            found += [row for state in ("waiting", "delayed", "locked") if row[state] != counted[row["queue"], state]]
    events = Counter((row["instance_id"], row["execution_id"]) for row in tables["history"])
    found += [row for row in tables["instances"] if row["events"] != events[row["instance_id"], row["execution_id"]]]
    return found


@pytest.mark.parametrize("stack", ["embedded", "daprd-postgresql"], indirect=True)
def test_a_snapshot_that_is_gone_says_so(spark: SparkSession, stack: Any) -> None:
    snapshot = holdfast.spark.snapshot(spark, stack.url, app_id=APP_ID)
    with pytest.raises(InvalidRequest, match="not open"):
        snapshot.items()
    with snapshot:
        frame = snapshot.queues()
        assert frame.count() >= 0
    with pytest.raises(Exception, match="The snapshot no longer exists"):
        frame.count()


def test_what_cannot_be_read_is_told_before_spark_is_asked(spark: SparkSession, tmp_path: Any) -> None:
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection, connection:
        connection.execute("CREATE TABLE other (key text)")
    for url, sentence in (
        (f"sqlite://{tmp_path}/missing.db", "There is no file"),
        (f"sqlite://{tmp_path}/other.db", "has no table"),
        ("postgresql://nobody:hunter2@127.0.0.1:1/none", "PostgreSQL refused"),
        ("mysql://somewhere", "must be sqlite:///path/of/the/file or postgresql://"),
    ):
        with pytest.raises(HoldfastError, match=sentence) as caught:  # noqa: SIM117
            with holdfast.spark.snapshot(spark, url):
                pass
        assert "hunter2" not in str(caught.value)


def _rows(frame: DataFrame) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = frame.toArrow().to_pylist()
    return found
