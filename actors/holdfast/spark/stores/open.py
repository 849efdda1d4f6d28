"""Opens the database of a URL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.spark.stores.sqlite import SqliteStore

if TYPE_CHECKING:
    from holdfast.spark.source.options import Options
    from holdfast.spark.stores.base import Store


def open_store(options: Options) -> Store:
    """Opens the database at one point in time: that of the snapshot, if the options name one."""
    if options.is_sqlite:
        return SqliteStore(options)
    # Imported here: its driver need not be installed to read SQLite files.
    from holdfast.spark.stores.postgresql import PostgresqlStore

    return PostgresqlStore(options)
