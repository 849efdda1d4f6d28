"""Snapshots that lie in one folder, in the order they were taken, and their tables over time."""

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
from holdfast.spark.manifest import FILE, Manifest
from holdfast.spark.schemas import SCHEMAS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from pyspark.sql import DataFrame, SparkSession

    from holdfast.spark.manifest import Subject

log = logging.getLogger(__name__)

LATEST = "latest"
_FOLDER = re.compile(r"day=\d{4}-\d\d-\d\d/at=\d{6}\.\d{3}Z")
_MEANS_SEVERAL = re.compile(r"[\\{}\[\]*?]")


@dataclass(frozen=True)
class Kept:
    """A finished snapshot on disk."""

    folder: Path
    manifest: Manifest

    @classmethod
    def read(cls, folder: Path) -> Kept:
        """Raises SettingsError for what is none, is damaged, or of a later version."""
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
        """As rows of a series have it: to the millisecond, as the folder's name."""
        as_of = self.manifest.as_of
        return as_of.replace(microsecond=as_of.microsecond // 1000 * 1000)

    def table(self, spark: SparkSession, name: str) -> DataFrame:
        return stored(spark, self.folder, name)

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
        paths = [spark_path(kept.folder / name) for kept in self.snapshots if name in kept.manifest.tables]
        # Given, not guessed: a folder's name is no number, and a column that has come since is null in older ones.
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
    """What ``holdfast snapshot --to`` has kept there. Raises SettingsError when there is none."""
    root = Path(folder).resolve()
    found = kept_in(root)
    if not found:
        raise SettingsError(f"There is no finished snapshot in {folder}.")
    return Series(spark, root, found)


def stored(spark: SparkSession, folder: Path, name: str) -> DataFrame:
    """A table of the snapshot in this folder."""
    return spark.read.schema(SCHEMAS[name]).parquet(spark_path(folder / name))


def spark_path(folder: Path) -> str:
    """Spark reads all that a path with ``*``, ``[`` and the like matches: this one means just itself."""
    return _MEANS_SEVERAL.sub(r"\\\g<0>", str(folder))


def kept_in(root: Path, warn: Callable[[str], None] = log.warning) -> list[Kept]:
    """The finished ones, oldest first. Those that cannot be read are passed over: others do not depend on them."""
    found = []
    for file in root.glob(f"day=*/at=*/{FILE}"):
        folder = file.parent
        if not _FOLDER.fullmatch(folder.relative_to(root).as_posix()):
            continue
        try:
            found.append(Kept.read(folder))
        except SettingsError as error:
            warn(f"Passed over: {error}")
    return sorted(found, key=lambda kept: kept.manifest.as_of)


def folder_of(root: Path, as_of: datetime) -> Path:
    """Where a snapshot of this moment lies: sorted by name is sorted by time, and Spark reads the names as columns."""
    moment = as_of.astimezone(UTC)
    return root / f"day={moment:%Y-%m-%d}" / f"at={moment:%H%M%S}.{moment.microsecond // 1000:03}Z"


def earlier_one(
    root: Path, named: str, series: Sequence[Kept], subject: Subject, warn: Callable[[str], None]
) -> Kept | None:
    """The one that ``--against`` names: the latest of the same, if any, a folder, or a folder inside the series.

    Raises as :func:`named_one` does.
    """
    if named == LATEST:
        return next((kept for kept in reversed(series) if kept.manifest.subject == subject), None)
    kept = named_one(root, named)
    if kept.manifest.subject != subject:
        other = kept.manifest.subject
        warn(f"{kept.folder} is of something else, {other}: what differs has not changed, it is another's.")
    return kept


def named_one(root: Path, named: str) -> Kept:
    """The snapshot in this folder. Raises SettingsError for what is no finished snapshot, or a damaged one."""
    folder = next((path for path in (Path(named), root / named) if path.is_dir()), Path(named))
    return Kept.read(folder.resolve())
