"""The snapshots of one folder in the order they were taken, and their tables over time."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from datetime import UTC
from functools import partialmethod
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructType

from holdfast.errors import SettingsError
from holdfast.spark.pipeline.manifest import FILE, Manifest
from holdfast.spark.source.schemas import SCHEMAS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from pyspark.sql import DataFrame, SparkSession

    from holdfast.spark.pipeline.manifest import Subject

log = logging.getLogger(__name__)

LATEST = "latest"
_FOLDER = re.compile(r"day=\d{4}-\d\d-\d\d/at=\d{6}\.\d{3}Z")
_MEANS_SEVERAL = re.compile(r"[\\{}\[\]*?]")


@dataclass(frozen=True)
class StoredSnapshot:
    """A finished snapshot on disk."""

    folder: Path
    manifest: Manifest

    @classmethod
    def read(cls, folder: Path) -> StoredSnapshot:
        """Reads a snapshot. Raises SettingsError if there is none, or if it is damaged or of a later version."""
        manifest = Manifest.read(folder)
        for name, extent in manifest.tables.items():
            if not (folder / name).is_dir():
                raise SettingsError(f"The snapshot {folder} is damaged: it has no {name}.")
            try:
                sizes = [file.stat().st_size for file in (folder / name).glob("*.parquet")]
            except OSError as error:
                raise SettingsError(f"The snapshot {folder} cannot be read: {error}.") from error
            if (len(sizes), sum(sizes)) != (extent.files, extent.bytes):
                raise SettingsError(
                    f"The snapshot {folder} is damaged: {name} should have {extent.files} files of {extent.bytes:,} "
                    f"bytes, and has {len(sizes)} of {sum(sizes):,}."
                )
        return cls(folder, manifest)

    @property
    def moment(self) -> datetime:
        """The time of the snapshot in a series: to the millisecond, like the folder's name."""
        as_of = self.manifest.as_of
        return as_of.replace(microsecond=as_of.microsecond // 1000 * 1000)

    def table(self, spark: SparkSession, name: str) -> DataFrame:
        return stored(spark, self.folder, name)

    def tables(self, spark: SparkSession) -> dict[str, DataFrame]:
        # An older snapshot may lack a table that was added since.
        return {
            name: self.table(spark, name) if name in self.manifest.tables else spark.createDataFrame([], schema)
            for name, schema in SCHEMAS.items()
        }


class Series:
    """The tables of all snapshots in a folder, with the column ``as_of``: the time of the row's snapshot."""

    def __init__(self, spark: SparkSession, root: Path, snapshots: Sequence[StoredSnapshot]) -> None:
        self.snapshots = snapshots
        self._spark = spark
        self._root = root

    def table(self, name: str) -> DataFrame:
        paths = [spark_path(kept.folder / name) for kept in self.snapshots if name in kept.manifest.tables]
        # An explicit schema: folder names are not numbers, and a column added since is null in older snapshots.
        own = StructType(list(SCHEMAS[name].fields))
        schema = own.add("day", StringType()).add("at", StringType())
        rows = (
            self._spark.read.schema(schema).option("basePath", str(self._root)).parquet(*paths)
            if paths
            else self._spark.createDataFrame([], schema)
        )
        moment = F.to_timestamp(F.concat_ws(" ", "day", "at"), "yyyy-MM-dd HHmmss.SSSX")
        return rows.select(moment.alias("as_of"), *SCHEMAS[name].fieldNames())

    queues = partialmethod(table, "queues")
    items = partialmethod(table, "items")
    locks = partialmethod(table, "locks")
    dead_letters = partialmethod(table, "dead_letters")
    instances = partialmethod(table, "instances")
    history = partialmethod(table, "history")
    idempotency = partialmethod(table, "idempotency")


def series(spark: SparkSession, folder: str | Path) -> Series:
    """Returns the snapshots ``holdfast snapshot --to`` saved in a folder. Raises SettingsError if there are none."""
    root = Path(folder).resolve()
    found = kept_in(root)
    if not found:
        raise SettingsError(f"There is no finished snapshot in {folder}.")
    return Series(spark, root, found)


def stored(spark: SparkSession, folder: Path, name: str) -> DataFrame:
    """Returns a table of the snapshot in this folder."""
    return spark.read.schema(SCHEMAS[name]).parquet(spark_path(folder / name))


def spark_path(folder: Path) -> str:
    """Escapes ``*``, ``[`` and other glob characters of a path, which Spark would expand."""
    return _MEANS_SEVERAL.sub(r"\\\g<0>", str(folder))


def kept_in(root: Path, warn: Callable[[str], None] = log.warning) -> list[StoredSnapshot]:
    """Returns the finished snapshots, oldest first. Calls ``warn`` for each that cannot be read, and skips it."""
    found = []
    for file in root.glob(f"day=*/at=*/{FILE}"):
        folder = file.parent
        if not _FOLDER.fullmatch(folder.relative_to(root).as_posix()):
            continue
        try:
            found.append(StoredSnapshot.read(folder))
        except SettingsError as error:
            warn(f"Skipped: {error}")
    return sorted(found, key=lambda kept: kept.manifest.as_of)


def folder_of(root: Path, as_of: datetime) -> Path:
    """Returns the folder of a snapshot: names sort by time, and Spark reads them as partition columns."""
    moment = as_of.astimezone(UTC)
    return root / f"day={moment:%Y-%m-%d}" / f"at={moment:%H%M%S}.{moment.microsecond // 1000:03}Z"


def earlier_one(
    root: Path, named: str, series: Sequence[StoredSnapshot], subject: Subject, warn: Callable[[str], None]
) -> StoredSnapshot | None:
    """Returns the snapshot ``--against`` names: the latest of the same subject if any, or the one in a folder.

    Raises as :func:`named_one` does.
    """
    if named == LATEST:
        return next((kept for kept in reversed(series) if kept.manifest.subject == subject), None)
    kept = named_one(root, named)
    if kept.manifest.subject != subject:
        other = kept.manifest.subject
        warn(f"{kept.folder} is a snapshot of something else, {other}: the differences are not changes over time.")
    return kept


def named_one(root: Path, named: str) -> StoredSnapshot:
    """Returns the snapshot in a folder. Raises SettingsError if it is not a finished snapshot, or is damaged."""
    folder = next((path for path in (Path(named), root / named) if path.is_dir()), Path(named))
    return StoredSnapshot.read(folder.resolve())
