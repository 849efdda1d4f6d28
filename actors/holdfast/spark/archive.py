"""Snapshots that lie in one folder, in the order they were taken, and their tables over time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC
from functools import partialmethod
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructType

from holdfast.errors import SettingsError
from holdfast.spark.manifest import FILE, Manifest
from holdfast.spark.schemas import SCHEMAS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from pyspark.sql import DataFrame, SparkSession

LATEST = "latest"
_FOLDER = re.compile(r"day=\d{4}-\d\d-\d\d/at=\d{6}\.\d{3}Z")


@dataclass(frozen=True)
class Kept:
    """A finished snapshot on disk."""

    folder: Path
    manifest: Manifest

    def table(self, spark: SparkSession, name: str) -> DataFrame:
        return spark.read.schema(SCHEMAS[name]).parquet(str(self.folder / name))

    def tables(self, spark: SparkSession) -> dict[str, DataFrame]:
        # An older one may lack a table that has come since.
        return {
            name: self.table(spark, name) if name in self.manifest.tables else spark.createDataFrame([], schema)
            for name, schema in SCHEMAS.items()
        }


class Series:
    """Tables of all snapshots in a folder. Besides its table's, each row has ``as_of``: its snapshot's moment."""

    def __init__(self, spark: SparkSession, root: Path, snapshots: Sequence[Kept]) -> None:
        self.snapshots = snapshots
        self._spark = spark
        self._root = root

    def table(self, name: str) -> DataFrame:
        paths = [str(kept.folder / name) for kept in self.snapshots if name in kept.manifest.tables]
        # Given, not guessed: a folder's name is no number, and a column that has come since is null in older ones.
        own = StructType(list(SCHEMAS[name].fields))
        schema = own.add("day", StringType()).add("at", StringType())
        rows = self._spark.read.schema(schema).option("basePath", str(self._root)).parquet(*paths)
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
    """What ``holdfast snapshot --to`` has kept there. Raises SettingsError when there is none."""
    root = Path(folder).resolve()
    found = kept_in(root)
    if not found:
        raise SettingsError(f"There is no finished snapshot in {folder}.")
    return Series(spark, root, found)


def kept_in(root: Path) -> list[Kept]:
    """The finished ones, oldest first."""
    folders = [found.parent for found in root.glob(f"day=*/at=*/{FILE}")]
    finished = [folder for folder in folders if _FOLDER.fullmatch(folder.relative_to(root).as_posix())]
    return sorted((Kept(folder, Manifest.read(folder)) for folder in finished), key=lambda kept: kept.manifest.as_of)


def folder_of(root: Path, as_of: datetime) -> Path:
    """Where a snapshot of this moment lies: sorted by name is sorted by time, and Spark reads the names as columns."""
    moment = as_of.astimezone(UTC)
    return root / f"day={moment:%Y-%m-%d}" / f"at={moment:%H%M%S}.{moment.microsecond // 1000:03}Z"


def earlier_one(root: Path, named: str) -> Kept | None:
    """The one that ``--against`` names: the latest there is, if any, a folder, or a folder inside the series."""
    if named == LATEST:
        return next(reversed(kept_in(root)), None)
    folder = next((path for path in (Path(named), root / named) if path.is_dir()), Path(named))
    return Kept(folder.resolve(), Manifest.read(folder))
