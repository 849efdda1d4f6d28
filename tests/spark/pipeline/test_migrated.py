"""Audits a store before and after ``holdfast migrate``: running instances, locks and delayed items are the same."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import holdfast.spark
from holdfast.local import LocalPostgres
from holdfast.spark.pipeline.consistency import audit, findings
from holdfast.spark.session import suited_to
from holdfast.spark.source.schemas import SCHEMAS
from tests.migration.test_rows import moved
from tests.spark.pipeline.conftest import copy_of, url_of

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.spark.pipeline.conftest import Moments

    Rows = dict[str, list[str]]

#: What does not depend on the moment at which it is read, as the state of an item and expired locks do.
LASTING = {
    "items": ("queue", "id", "item", "priority", "enqueued_at", "due_at", "delivery_count", "dedup_id"),
    "idempotency": ("key", "result", "owner"),
    **{table: tuple(SCHEMAS[table].names) for table in ("dead_letters", "instances", "history", "problems")},
}


def audited(spark: SparkSession, url: str) -> Rows:
    """Checks that the store adds up, and returns what lasts of it."""
    with (
        ThreadPoolExecutor(2) as pool,
        suited_to(spark, 0),
        holdfast.spark.snapshot(spark, url) as snapshot,
    ):
        tables = {name: snapshot.table(name) for name in SCHEMAS}
        assert findings(audit(tables, pool)) == []
        return {
            name: sorted(str(row.asDict()) for row in tables[name].select(*columns).collect())
            for name, columns in LASTING.items()
        }


async def test_the_audit_agrees_before_and_after_each_migration(
    spark: SparkSession, moments: Moments, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    source = url_of(copy_of(moments.amid, tmp_path / "data" / "holdfast.db"))
    back = url_of(tmp_path / "back" / "holdfast.db")
    before = audited(spark, source)
    assert any("'status': 'RUNNING'" in row for row in before["instances"])
    assert before["items"]
    async with LocalPostgres(tmp_path / "postgresql") as postgres:
        there = await postgres.create_database("moved")
        moved(source, there, "--create", "v2")
        assert audited(spark, there) == before
        moved(there, back)
    assert audited(spark, back) == before
