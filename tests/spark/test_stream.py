"""Every event of every history comes once, however late it is committed and however often the reader starts again."""

from __future__ import annotations

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from pyspark.errors import StreamingQueryException

from tests.spark.instance_writer import StoredInstance
from tests.support.rest import Server
from tests.support.runs import Run
from tests.support.stacks.served import APP_ID

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

INSTANCES, TURNS, EVENTS_A_TURN = 125, 10, 8
WRITERS = 3
# Spark (4.3.0) gives a stream's Python process ten seconds to come up, which a busy machine does not always do in.
NOT_IN_TIME = "failed to connect back"
STARTS = 5


class Following:
    """A stream into files, which goes on from where it was."""

    def __init__(self, spark: SparkSession, url: str, app_id: str, folder: Path, **options: str) -> None:
        self._spark = spark
        self._options = {"url": url, "table": "history", "app_id": app_id} | options
        self._folder = folder

    def start(self, **trigger: Any) -> StreamingQuery:
        events = self._spark.readStream.format("holdfast").options(**self._options).load()
        writer = events.writeStream.format("parquet").option("checkpointLocation", str(self._folder / "checkpoint"))
        return writer.trigger(**trigger).start(str(self._folder / "events"))

    def catch_up(self) -> None:
        for _ in range(STARTS):
            query = self.start(availableNow=True)
            try:
                assert query.awaitTermination(240)
            except StreamingQueryException as error:
                if NOT_IN_TIME not in str(error):
                    raise
            else:
                return
        pytest.fail(f"in {STARTS} starts: {NOT_IN_TIME}")

    def events(self) -> Counter[tuple[str, int, int]]:
        found = self._spark.read.parquet(str(self._folder / "events")).toArrow().to_pylist()
        return Counter((row["instance_id"], row["execution_id"], row["seq"]) for row in found)


@pytest.mark.parametrize("stack", ["daprd-postgresql"], indirect=True)
def test_late_commits_and_restarts_lose_and_repeat_nothing(spark: SparkSession, stack: Any, tmp_path: Path) -> None:
    following = Following(spark, stack.url, "streamed", tmp_path)
    instances = [StoredInstance("streamed", f"i-{number}") for number in range(INSTANCES)]
    late = StoredInstance("streamed", "late")
    passed = [threading.Event() for _ in range(2)]

    def write(own: list[StoredInstance]) -> None:
        with psycopg.connect(stack.url) as connection:
            for turn in range(TURNS):
                if turn in (3, 6):
                    assert passed[turn // 3 - 1].wait(120), "the stream has read nothing yet"
                for instance in own:
                    instance.turn(connection, EVENTS_A_TURN)
                    connection.commit()

    with ThreadPoolExecutor(WRITERS) as writers, psycopg.connect(stack.url) as slow:
        jobs = [writers.submit(write, instances[number::WRITERS]) for number in range(WRITERS)]
        for event in passed:
            late.turn(slow, EVENTS_A_TURN)  # has its place among the transactions now, and is committed after others
            query = _until_something_came(following)
            slow.commit()
            event.set()
            query.stop()
        for job in jobs:
            job.result(240)
    following.catch_up()
    expected = {(i.instance_id, 1, seq) for i in [*instances, late] for seq in range(1, i.events + 1)}
    assert len(expected) == INSTANCES * TURNS * EVENTS_A_TURN + 2 * EVENTS_A_TURN
    assert following.events() == Counter(expected)


def test_an_embedded_hosts_file_is_followed(spark: SparkSession, stack: Any, tmp_path: Path) -> None:
    following = Following(spark, stack.url, APP_ID, tmp_path)
    latest = Following(spark, stack.url, APP_ID, tmp_path / "latest", starting="latest")
    seen: dict[tuple[str, int, int], int] = {}

    async def go_on(name: str) -> None:
        async with Server(stack, "followed") as server:
            counted, waiting = Run(server, name), Run(server, "waiting")
            await counted.begin("countdown", 2)
            await counted.ended()
            if name == "first":
                await waiting.begin("waiting")
                await waiting.waits_for("EventSubscribed")
            else:
                await waiting.raise_event("go")
                await waiting.ended()
            for run in (counted, waiting):
                for execution in range(1, (await run.status())["execution_id"] + 1):
                    for event in await run.history(execution_id=execution):
                        seen[run.id, execution, event["seq"]] = 1

    stack.run(go_on("first"))
    following.catch_up()
    assert {name: count for name, count in following.events().items() if name[0].startswith("followed")} == seen
    latest.catch_up()
    before = set(seen)
    stack.run(go_on("second"))
    following.catch_up()
    latest.catch_up()
    assert {name: count for name, count in following.events().items() if name[0].startswith("followed")} == seen
    assert latest.events() == Counter(seen.keys() - before)


def _until_something_came(following: Following) -> StreamingQuery:
    """Starts it, and waits until it has read something."""
    query = following.start(processingTime="0 seconds")
    deadline = time.monotonic() + 120
    while not any(progress["numInputRows"] for progress in query.recentProgress):
        if not query.isActive and NOT_IN_TIME in str(query.exception()):
            query = following.start(processingTime="0 seconds")
        assert query.isActive, query.exception()
        assert time.monotonic() < deadline, "nothing came"
        time.sleep(0.2)
    return query
