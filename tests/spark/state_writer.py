"""State values that are written straight into a SQLite file, and its tables as the data source's reader makes them.

Without Spark's own process: it is asked as Spark would ask it.
"""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from holdfast.runtime.embedded.sqlite import SqliteStorage
from holdfast.spark import HoldfastSource
from tests.support.queue_driver import MORNING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

Row = dict[str, Any]


def write(path: Path, values: Mapping[str, str | bytes]) -> None:
    """Adds these to the file, by their whole keys."""

    async def make() -> None:
        storage = SqliteStorage(path)
        await storage.open()
        await storage.close()

    asyncio.run(make())
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executemany(
            "INSERT OR REPLACE INTO state (key, value, is_binary, etag) VALUES (?, ?, 0, 'e')", values.items()
        )


def read(path: Path, table: str, *, at: float = MORNING, **options: str) -> list[Row]:
    """All rows of a table at that moment."""
    moment = datetime.fromtimestamp(at, UTC).isoformat()
    source = HoldfastSource({"url": f"sqlite://{path}", "table": table, "as_of": moment} | options)
    reader = source.reader(source.schema())
    found: list[Row] = []
    for partition in reader.partitions():
        for batch in reader.read(partition):
            assert isinstance(batch, pa.RecordBatch)
            found += batch.to_pylist()
    return found
