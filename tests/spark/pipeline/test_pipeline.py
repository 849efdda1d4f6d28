"""A snapshot is complete, describes itself, and can be compared with an earlier one."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

import holdfast.spark
from holdfast.errors import SettingsError
from holdfast.spark.pipeline.pipeline import take
from holdfast.spark.pipeline.series import series
from tests.spark.pipeline.conftest import url_of
from tests.spark.pipeline.sample_tables import AS_OF

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import DataFrame, SparkSession

    from holdfast.spark.pipeline.pipeline import Work
    from tests.spark.pipeline.conftest import Kept


def rows(frame: DataFrame) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = frame.toArrow().to_pylist()
    return found


def test_every_table_is_kept_as_it_was(spark: SparkSession, kept: Kept) -> None:
    folder = Path(kept.later["folder"])
    # At the moment of the snapshot: locks expire while tests run.
    source = spark.read.format("holdfast").options(url=url_of(kept.store), as_of=kept.later["as_of"])
    for name in ("items", "history"):
        there = {json.dumps(row, default=str) for row in rows(source.option("table", name).load())}
        assert {json.dumps(row, default=str) for row in rows(spark.read.parquet(str(folder / name)))} == there
        assert kept.later["tables"][name]["rows"] == len(there) > 0
    assert set(kept.later["tables"]) == set(holdfast.spark.SCHEMAS)
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        [*holdfast.spark.SCHEMAS, "manifest.json", "report.html"]
    )


def test_the_manifest_says_what_is_kept(spark: SparkSession, kept: Kept) -> None:
    told = json.loads((Path(kept.later["folder"]) / "manifest.json").read_text("utf-8"))
    assert told["version"] == 1
    assert told["url"] == url_of(kept.store)
    assert told["findings"] == []
    assert all(check["wrong"] == 0 for check in told["checks"])
    items = rows(spark.read.parquet(f"{kept.later['folder']}/items").select("state"))
    for state in ("waiting", "delayed", "locked"):
        assert told["totals"][state] == [row["state"] for row in items].count(state)
    # Locks may have expired before it was taken.
    assert told["totals"]["waiting"] > 0 < told["totals"]["delayed"]
    assert told["totals"]["failed"] == 2
    assert told["totals"]["dead_letters"] == told["tables"]["dead_letters"]["rows"]
    day, at = Path(kept.later["folder"]).parts[-2:]
    assert (day, at) == (f"day={told['as_of'][:10]}", f"at={told['as_of'][11:23].replace(':', '')}Z")


def test_what_changed_is_what_is_different(spark: SparkSession, kept: Kept) -> None:
    def ids(told: dict[str, Any]) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for row in rows(spark.read.parquet(f"{told['folder']}/items").select("queue", "id")):
            found.setdefault(row["queue"], set()).add(row["id"])
        return found

    before, now = ids(kept.earlier), ids(kept.later)
    assert kept.earlier["changes"] is None
    assert kept.later["against"]["as_of"] == kept.earlier["as_of"]
    changed = {row["queue"]: row for row in kept.later["changes"]["queues"]}
    queues = [changed[queue] for queue in ("emails", "webhooks", "invoices")]
    for queue, told in zip(("emails", "webhooks", "invoices"), queues, strict=True):
        assert (told["before"], told["now"]) == (len(before[queue]), len(now[queue]))
        assert (told["new"], told["gone"]) == (len(now[queue] - before[queue]), len(before[queue] - now[queue]))
    # All that is gone became dead letters: nothing else was taken for good but activities, when the machine was slow.
    everything = kept.later["changes"]["all_queues"]
    letters = kept.later["totals"]["dead_letters"] - kept.earlier["totals"]["dead_letters"]
    assert everything["dead_letters_new"] == letters > 0
    gone, lettered = (sum(row[name] for row in queues) for name in ("gone", "dead_lettered"))
    assert 0 < gone == lettered <= letters
    assert changed["emails"]["returned"] > 0
    instances = {row["name"]: row for row in kept.later["changes"]["instances"]}
    assert instances["import_catalogue"] == {
        "name": "import_catalogue",
        "before": 2,
        "now": 4,
        "new": 2,
        "completed": 1,
        "failed": 1,
        "cancelled": 0,
        "deleted": 0,
    }


def test_a_series_has_all_finished_ones_in_order(spark: SparkSession, kept: Kept) -> None:
    unfinished = kept.folder / "day=2026-01-01" / "at=000000.000Z" / "items"
    unfinished.mkdir(parents=True)
    found = series(spark, kept.folder)
    assert [str(one.folder) for one in found.snapshots] == [kept.earlier["folder"], kept.later["folder"]]
    counted = {row["as_of"]: row["count"] for row in rows(found.items().groupBy("as_of").count())}
    assert [counted[moment] for moment in sorted(counted)] == [
        kept.earlier["tables"]["items"]["rows"],
        kept.later["tables"]["items"]["rows"],
    ]
    moments = [one.manifest.as_of for one in found.snapshots]
    assert sorted(counted) == [moment.replace(microsecond=moment.microsecond // 1000 * 1000) for moment in moments]


def test_a_folder_without_snapshots(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no finished snapshot"):
        series(spark, tmp_path)


class Broken(Exception):
    """Raised by a table to interrupt the snapshot."""


@dataclass(frozen=True)
class Endless:
    """Tables of which the first takes for ever to read, and the others too unless they are broken."""

    spark: SparkSession
    broken: bool
    as_of: datetime = AS_OF

    def table(self, name: str) -> DataFrame:
        numbers = self.spark.range(0, 10**15, 1, 1).where(F.xxhash64("id") == 0)
        if self.broken and name != "queues":
            numbers = self.spark.range(1).where(F.raise_error(F.lit("torn in two")).isNull())
        return numbers.select(F.lit(None).cast("string").alias("id"))


@pytest.mark.parametrize("broken", [True, False])
def test_nobody_waits_for_the_rest_of_what_failed(spark: SparkSession, tmp_path: Path, broken: bool) -> None:
    def give_up(work: Work) -> None:
        if not broken and work.doing.startswith("Writing"):
            raise Broken

    with ThreadPoolExecutor(1) as apart:
        endless = nullcontext(Endless(spark, broken))
        taking = apart.submit(take, spark, endless, "sqlite:///x", tmp_path, progress=give_up)
        try:
            error = taking.exception(timeout=60)
        finally:
            # Else this test would not end where it fails.
            while not taking.done():
                spark.sparkContext.cancelAllJobs()
                wait([taking], 0.2)
    assert "torn in two" in str(error) if broken else isinstance(error, Broken)
    assert list(tmp_path.rglob("*.parquet")) == []
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("holdfast-snapshot")] == []
