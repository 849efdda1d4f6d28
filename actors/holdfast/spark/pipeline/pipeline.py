"""Writes a snapshot of every table to Parquet, checks and compares it, and renders the report."""

from __future__ import annotations

import logging
import shutil
import time
from concurrent.futures import as_completed
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow.parquet
from pyspark.sql import functions as F

import holdfast
from holdfast.errors import ComponentFailed, SettingsError
from holdfast.spark.pipeline.consistency import audit, findings
from holdfast.spark.pipeline.diff import changes
from holdfast.spark.pipeline.manifest import Extent, Manifest, Subject
from holdfast.spark.pipeline.query_pool import QueryPool
from holdfast.spark.pipeline.series import StoredSnapshot, earlier_one, folder_of, kept_in, stored
from holdfast.spark.report import render
from holdfast.spark.session import suited_to
from holdfast.spark.source.options import USUAL_TABLE
from holdfast.spark.source.schemas import SCHEMAS
from holdfast.spark.statistics import figures
from holdfast.state_store.redaction import without_secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from datetime import datetime
    from pathlib import Path
    from typing import Protocol

    from pyspark.sql import DataFrame, SparkSession

    class Tables(Protocol):
        """The source of the tables: a snapshot of the state store."""

        @property
        def as_of(self) -> datetime: ...

        def table(self, name: str) -> DataFrame: ...


log = logging.getLogger(__name__)

REPORT = "report.html"
MOST_PROBLEMS = 50


@dataclass(frozen=True)
class Work:
    """The progress of :func:`take`."""

    done: int
    of: int
    doing: str


@dataclass(frozen=True)
class Taken:
    """The result of :func:`take`."""

    kept: StoredSnapshot
    against: StoredSnapshot | None
    report: Path | None


def take(
    spark: SparkSession,
    source: AbstractContextManager[Tables],
    url: str,
    to: Path,
    *,
    app_id: str | None = None,
    tenant: str | None = None,
    state_table: str = USUAL_TABLE,
    against: str | None = None,
    with_report: bool = True,
    progress: Callable[[Work], None] = lambda work: None,
    warn: Callable[[str], None] = log.warning,
) -> Taken:
    """Saves a snapshot in its own folder below ``to``, the folder of the series.

    ``warn`` is called with a sentence for each earlier snapshot that cannot be read or compared.
    """
    began = time.monotonic()
    shown_url = without_secrets(url)
    root = to.resolve()
    subject = Subject.of(shown_url, app_id, tenant, state_table)
    series = kept_in(root, warn)
    earlier = earlier_one(root, against, series, subject, warn) if against else None
    steps = len(SCHEMAS) + 2 + bool(earlier) + with_report
    done = 0

    def step(doing: str, *, ended: int = 0) -> None:
        nonlocal done
        done += ended
        progress(Work(done, steps, doing))

    with ExitStack() as reading:
        step("Opening the snapshot")
        tables = reading.enter_context(source)
        as_of = tables.as_of
        folder = folder_of(root, as_of)
        with _new(folder), QueryPool(spark) as pool:
            writing = {pool.submit(_write, tables.table(name), folder / name): name for name in SCHEMAS}
            step(f"Writing {next(iter(SCHEMAS))}")
            for written in as_completed(list(writing)):
                written.result()
                del writing[written]
                step(f"Writing {next(iter(writing.values()), 'done')}", ended=1)
            # The rest is read from the written files, so the source can be closed.
            reading.close()
            extents = {name: _extent(folder / name) for name in SCHEMAS}
            found = {name: stored(spark, folder, name) for name in SCHEMAS}
            changed = None
            with suited_to(spark, sum(extent.bytes for extent in extents.values())):
                step("Checking consistency")
                checks = audit(found, pool)
                problems = _problems(found["problems"])
                step("Counting", ended=1)
                counted = figures(found, as_of.timestamp(), pool)
                if earlier:
                    step("Comparing", ended=1)
                    changed = changes(earlier.tables(spark), found, pool)
            step("Finishing", ended=1)
            manifest = Manifest(
                as_of=as_of,
                holdfast=holdfast.__version__,
                url=shown_url,
                app_id=app_id,
                tenant=tenant,
                seconds=round(time.monotonic() - began, 3),
                tables=extents,
                totals=counted.totals,
                problems=problems,
                checks=[check.to_json() for check in checks],
                findings=findings(checks),
                against=None if earlier is None else _against(earlier, root),
                changes=None if changed is None else changed.to_json(),
                state_table=state_table,
            )
            report = folder / REPORT if with_report else None
            if report:
                same = [kept.manifest for kept in series if kept.manifest.subject == subject]
                before = [manifest for manifest in same if manifest.as_of < as_of]
                report.write_text(render(manifest, counted, checks, changed, before), "utf-8")
            manifest.write(folder)
            step("Done", ended=1)
    return Taken(StoredSnapshot(folder, manifest), earlier, report)


@contextmanager
def _new(folder: Path) -> Iterator[None]:
    """Makes a folder, and removes it when the block fails."""
    try:
        folder.mkdir(parents=True)
    except FileExistsError as error:
        raise SettingsError(f"There is already a snapshot of the same time in {folder}.") from error
    except OSError as error:
        raise SettingsError(f"Cannot write to {folder}: {error.strerror}.") from error
    try:
        yield
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):  # not empty: it has other snapshots of this day
            folder.parent.rmdir()
        raise


def _write(table: DataFrame, folder: Path) -> None:
    table.write.parquet(str(folder))


def _extent(folder: Path) -> Extent:
    if not folder.is_dir():
        raise ComponentFailed(f"{folder}, which Spark has written, is not visible here: use a folder both can access.")
    files = sorted(folder.glob("*.parquet"))
    rows = sum(pyarrow.parquet.read_metadata(file).num_rows for file in files)
    return Extent(rows=rows, bytes=sum(file.stat().st_size for file in files), files=len(files))


def _problems(problems: DataFrame) -> list[dict[str, Any]]:
    grouped = (
        problems.groupBy("actor_type", "problem")
        .agg(F.sum("count").alias("count"), F.min("actor_id").alias("example"), F.min("detail").alias("detail"))
        .orderBy(F.desc("count"), "actor_type", "problem")
        .limit(MOST_PROBLEMS)
    )
    return [row.asDict() for row in grouped.collect()]


def _against(earlier: StoredSnapshot, root: Path) -> dict[str, Any]:
    inside = earlier.folder.is_relative_to(root)
    folder = earlier.folder.relative_to(root) if inside else earlier.folder
    return {"as_of": earlier.manifest.as_of.isoformat(), "folder": folder.as_posix()}
