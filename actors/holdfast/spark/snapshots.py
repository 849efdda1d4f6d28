"""A consistent snapshot of all tables, while it is open."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partialmethod
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from holdfast.errors import InvalidRequest, Unavailable
from holdfast.spark.decode.run_length import can_be_packed, explode_runs, packed_schema
from holdfast.spark.source.options import MAX_PARTITIONS, Options
from holdfast.spark.source.schemas import SCHEMAS, some_columns
from holdfast.spark.stores.open import open_store
from holdfast.spark.stores.sqlite import COPY
from holdfast.state_store.sqlite_copy import copy

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType
    from typing import Self

    from pyspark.sql import DataFrame, SparkSession


def snapshot(
    spark: SparkSession,
    url: str,
    *,
    app_id: str | None = None,
    tenant: str | None = None,
    partitions: int | None = None,
    table_name: str | None = None,
    table_prefix: str | None = None,
    directory: str | Path | None = None,
) -> Snapshot:
    """Returns a snapshot of all tables at one point in time, to be used inside ``with``. Writers are not blocked.

    ``directory`` is where a SQLite file is copied to: on a cluster, a folder every executor can read.
    """
    return Snapshot(
        spark,
        {
            "url": url,
            "app_id": app_id,
            "tenant": tenant,
            "partitions": None if partitions is None else str(partitions),
            "table_name": table_name,
            "table_prefix": table_prefix,
        },
        directory,
    )


class Snapshot:
    def __init__(self, spark: SparkSession, options: dict[str, str | None], directory: str | Path | None) -> None:
        self._spark = spark
        self._given = {name: value for name, value in options.items() if value is not None}
        self._options = Options.read(self._given)
        self._directory = directory
        self._held = ExitStack()
        self._as_of: datetime | None = None

    def __enter__(self) -> Self:
        with open_store(self._options):
            pass  # errors are raised now, not by the first read
        try:
            if self._options.is_sqlite:
                self._copy()
            else:
                self._export()
        except BaseException:
            self._held.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._as_of = None
        self._held.close()

    @property
    def as_of(self) -> datetime:
        """The point in time of the snapshot."""
        if self._as_of is None:
            raise InvalidRequest("The snapshot is not open: use it inside 'with'.")
        return self._as_of

    def table(self, name: str, *, columns: Sequence[str] | None = None, **narrowed: str) -> DataFrame:
        """Returns a table; ``queue`` and ``instance`` filter it in the database, ``columns`` limits its columns."""
        options = self._given | {"table": name, "as_of": self.as_of.isoformat()} | _cores(self._spark) | narrowed
        Options.read(options)
        wanted = SCHEMAS[name] if columns is None else some_columns(name, columns)
        reader = self._spark.read.format("holdfast").options(**options)
        if can_be_packed(name, wanted):
            return explode_runs(reader.option("packed", "true").schema(packed_schema(wanted)).load(), wanted)
        return (reader if columns is None else reader.schema(wanted)).load()

    queues = partialmethod(table, "queues")
    items = partialmethod(table, "items")
    locks = partialmethod(table, "locks")
    dead_letters = partialmethod(table, "dead_letters")
    instances = partialmethod(table, "instances")
    history = partialmethod(table, "history")
    idempotency = partialmethod(table, "idempotency")
    #: The rows that the other tables skip.
    problems = partialmethod(table, "problems")

    def _copy(self) -> None:
        try:
            folder = Path(tempfile.mkdtemp(prefix="holdfast-snapshot-", dir=self._directory))
        except OSError as error:
            where = self._directory or "the folder for temporary files"
            raise Unavailable(f"Cannot copy the database to {where}: {error.strerror}.") from error
        self._held.callback(shutil.rmtree, folder, ignore_errors=True)
        file = folder / "state.db"
        as_of = time.time()
        try:
            copy(self._options.sqlite_path, file)
        except sqlite3.Error as error:
            raise Unavailable(f"The file {self._options.sqlite_path} cannot be copied: {error}.") from error
        self._given |= {"url": f"sqlite://{quote(str(file.absolute()))}", "snapshot": COPY}
        self._as_of = datetime.fromtimestamp(as_of, UTC)

    def _export(self) -> None:
        from holdfast.spark.stores.postgresql import export

        held = self._held.enter_context(export(self._options))
        self._given |= {"snapshot": held.name}
        self._as_of = datetime.fromtimestamp(held.as_of, UTC)


def _cores(spark: SparkSession) -> dict[str, str]:
    """Returns the number of tasks that Spark runs at once; unknown over Spark Connect."""
    context = getattr(spark, "sparkContext", None)
    return {} if context is None else {"cores": str(min(context.defaultParallelism, MAX_PARTITIONS))}
