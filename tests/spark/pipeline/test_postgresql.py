"""Snapshots of the state that daprd has written to PostgreSQL."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from tests.spark.pipeline.conftest import run
from tests.support.rest import Server
from tests.support.runs import Run
from tests.support.stacks.served import APP_ID

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PUSHED = 250


@pytest.mark.parametrize("stack", ["daprd-postgresql"], indirect=True)
def test_a_database_is_kept_and_adds_up(spark: SparkSession, stack: Any, tmp_path: Path) -> None:
    ended: dict[str, int] = {}

    async def work() -> None:
        async with Server(stack, "kept") as server:
            queue, run_of_three = server.queue(), Run(server, "done")
            await queue.push_many(*range(PUSHED))
            await queue.lock(count=7, ttl_seconds=300)
            await run_of_three.begin("fan_out", 3)
            await run_of_three.ended()
            ended[run_of_three.id] = len(await run_of_three.history())

    stack.run(work())
    done = run("--url", stack.url, "--to", str(tmp_path), "--app-id", APP_ID, "--no-report", "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["findings"] == []
    password = urlsplit(stack.url).password
    assert password
    assert password not in done.output + (Path(told["folder"]) / "manifest.json").read_text("utf-8")

    def kept(table: str, **of: str) -> list[dict[str, Any]]:
        frame = spark.read.parquet(f"{told['folder']}/{table}")
        for column, value in of.items():
            frame = frame.where(frame[column] == value)
        found: list[dict[str, Any]] = frame.toArrow().to_pylist()
        return found

    items = kept("items", queue="kept")
    assert sorted(int(row["item"]) for row in items) == list(range(PUSHED))
    assert sum(row["state"] == "locked" for row in items) == 7
    [queue] = kept("queues", queue="kept")
    assert (queue["waiting"], queue["locked"]) == (PUSHED - 7, 7)
    [[instance, events]] = ended.items()
    assert [row["seq"] for row in kept("history", instance_id=instance)] == list(range(1, events + 1))
