"""The audit finds what does not add up, and nothing else."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import holdfast.spark
from holdfast.errors import ComponentFailed
from holdfast.spark.pipeline.consistency import MOST_FINDINGS, audit, findings
from holdfast.spark.session import suited_to
from holdfast.spark.source.schemas import SCHEMAS
from tests.spark.pipeline.conftest import copy_of, run, url_of
from tests.spark.pipeline.sample_tables import SampleTables, small_shop, started

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from holdfast.spark.pipeline.consistency import Check
    from tests.spark.pipeline.conftest import Moments


def audited(spark: SparkSession, sample: SampleTables) -> list[Check]:
    with ThreadPoolExecutor(2) as pool, suited_to(spark, 0):
        return audit(sample.tables(spark), pool)


def test_what_adds_up(spark: SparkSession) -> None:
    assert findings(audited(spark, small_shop())) == []


def test_nothing_is_found_in_what_is_under_way(spark: SparkSession, moments: Moments) -> None:
    with (
        ThreadPoolExecutor(2) as pool,
        suited_to(spark, 0),
        holdfast.spark.snapshot(spark, url_of(moments.amid)) as snapshot,
    ):
        assert snapshot.instances().where("status = 'RUNNING'").count() > 1
        assert findings(audit({name: snapshot.table(name) for name in SCHEMAS}, pool)) == []


def test_each_fault_is_one_sentence(spark: SparkSession) -> None:
    shop = small_shop()
    shop.one("queues", queue="mails")["waiting"] = 3
    shop.queue("leaky", [{"state": "locked"}, {"state": "locked"}], count=1)
    shop.queue("double", [{"id": "0-0-0-7"}, {"id": "0-0-0-7"}])
    shop.add("items", queue="nowhere", partition=2, id="2-0-0-0", priority=0, state="waiting", delivery_count=0)
    letter = {"queue": "orders-deadletter", "original_queue": "orders", "original_partition": 0}
    shop.add("dead_letters", **letter, id="0-0-0-1", original_id="0-0-0-0")
    shop.add("dead_letters", queue="orders-deadletter", id="0-0-0-2")
    shop.add("dead_letters", **letter, id="0-0-0-3", original_id="0-0-0-99")
    asked = {"type": "ActivityScheduled", "name": "charge"}
    done = {"type": "ActivityCompleted", "scheduled_seq": 2}
    end = {"type": "OrchestrationCompleted"}
    shop.instance("gap", "order", [started("order"), {"type": "TimerCreated", "seq": 3}])
    shop.instance("twice", "order", [started("order"), asked, done, done])
    shop.instance("unasked", "order", [started("order"), {"type": "ActivityCompleted", "scheduled_seq": 9}])
    shop.instance("mixed-up", "order", [started("order"), asked, {"type": "TimerFired", "scheduled_seq": 2}])
    shop.instance("undead", "order", [started("order"), end, asked], "COMPLETED")
    shop.instance("says-it-runs", "order", [started("order"), end])
    shop.instance("short", "order", [started("order")], events=2)
    told = findings(audited(spark, shop))
    for sentence in (
        "Queue mails, partition 0, is inconsistent: 3 waiting by its count, 1 stored.",
        "Queue leaky, partition 0, is inconsistent: its locks cover 1 items, but 2 are locked.",
        "Queue nowhere, partition 2, does not exist, but 1 items and locks on 0 are stored for it.",
        "Item 0-0-0-7 of queue double, partition 0, is stored 2 times.",
        "Dead letter 0-0-0-1 of orders-deadletter came from 0-0-0-0 of orders, and is still stored there.",
        "Dead letter 0-0-0-2 of orders-deadletter does not name its original item.",
        "Dead letter 0-0-0-0 of orders-deadletter came from 0-0-0-99 of orders, and so did 1 more, "
        "but there was one such item.",
        "The history of gap, execution 1, has a gap: of events 1 to 3, 1 are missing.",
        "The history of twice, execution 1, has 2 completions of ActivityScheduled (event 2).",
        "The history of unasked, execution 1, has ActivityCompleted (event 2) for event 9, which scheduled nothing.",
        "The history of mixed-up, execution 1, has TimerFired (event 3) as the completion of "
        "ActivityScheduled (event 2).",
        "The history of undead, execution 1, goes on to event 3 after it has ended with event 2.",
        "Instance undead is COMPLETED, but its history ends with ActivityScheduled.",
        "Instance says-it-runs is RUNNING, but its history ends with OrchestrationCompleted.",
        "Instance short counts 2 events, 1 are stored.",
    ):
        assert sentence in told
        told.remove(sentence)
    assert told == []


def test_of_many_faults_the_first_are_told_and_all_counted(spark: SparkSession) -> None:
    shop = SampleTables()
    for number in range(MOST_FINDINGS + 5):
        shop.add("queues", queue=f"q{number:03}", partition=0, waiting=1, delayed=0, locked=0)
    [queues, *others] = audited(spark, shop)
    assert (queues.wrong, len(queues.findings)) == (MOST_FINDINGS + 5, MOST_FINDINGS)
    assert findings([queues])[-1] == "queues: 5 more like these."
    assert [check.wrong for check in others] == [0] * len(others)


def test_a_fault_in_the_store_is_exit_code_3(spark: SparkSession, moments: Moments, tmp_path: Path) -> None:
    broken = copy_of(moments.earlier, tmp_path / "broken.db")
    with closing(sqlite3.connect(broken)) as store, store:
        [[key, value]] = store.execute("SELECT key, value FROM state WHERE key LIKE '%||search-index||metadata'")
        metadata = json.loads(value)
        priority = next(name for name in metadata if name.isdigit())
        metadata[priority] += 2
        store.execute("UPDATE state SET value = ? WHERE key = ?", (json.dumps(metadata), key))
    done = run("--url", url_of(broken), "--to", str(tmp_path / "series"), "--no-report")
    [sentence] = done.stderr.splitlines()
    assert sentence.startswith("Check failed: Queue search-index, partition 0, is inconsistent: ")
    assert done.exit_code == 3
    [manifest] = tmp_path.glob("series/day=*/at=*/manifest.json")
    assert json.loads(manifest.read_text("utf-8"))["findings"] == [sentence.removeprefix("Check failed: ")]
    assert not (manifest.parent / "report.html").exists()


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (
            "INSERT INTO state (key, value, is_binary, etag) "
            "SELECT replace(key, '||search-index||metadata', '||lost||segment-0-0'), value, 0, etag "
            "FROM state WHERE key LIKE '%||search-index||metadata'",
            "'metadata' is missing from the store",
        ),
        ("UPDATE state SET value = '{' WHERE key LIKE '%||search-index||metadata'", "cannot be read"),
        ("UPDATE state SET value = '[]' WHERE key LIKE '%||OrchestrationActor||%||instance'", "cannot be read"),
    ],
)
def test_what_cannot_be_read_does_not_add_up(
    spark: SparkSession, moments: Moments, tmp_path: Path, damage: str, told: str
) -> None:
    broken = copy_of(moments.earlier, tmp_path / "broken.db")
    with closing(sqlite3.connect(broken)) as store, store:
        assert store.execute(damage).rowcount > 0
    done = run("--url", url_of(broken), "--to", str(tmp_path / "series"), "--no-report", "--json")
    found = [line for line in done.stderr.splitlines() if line.startswith("Check failed: ")]
    assert found
    assert told in found[0]
    assert done.exit_code == 3
    assert json.loads(done.stdout)["findings"] == [line.removeprefix("Check failed: ") for line in found]


def test_a_file_that_is_damaged_is_said_to_be(spark: SparkSession, moments: Moments, tmp_path: Path) -> None:
    broken = copy_of(moments.earlier, tmp_path / "broken.db")
    with broken.open("r+b") as file:
        file.seek(8192)
        file.write(b"\x00" * (broken.stat().st_size - 8192))
    with pytest.raises(ComponentFailed, match=r"^The copy .+ cannot be read: database disk image is malformed\.$"):
        run("--url", url_of(broken), "--to", str(tmp_path / "series"))
    assert list(tmp_path.rglob("day=*")) == []


def test_spark_itself_is_not_heard(tmp_path: Path) -> None:
    """As a command of its own, which has to start Spark."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    done = subprocess.run(
        [Path(sys.executable).with_name("holdfast"), "snapshot", "--url", f"sqlite://{tmp_path}/none.db"],
        cwd=tmp_path,
        env=own,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    [sentence] = done.stderr.splitlines()
    assert f"{tmp_path}/none.db" in sentence
    assert (done.returncode, done.stdout) == (1, "")
    assert list(tmp_path.rglob("day=*")) == []
