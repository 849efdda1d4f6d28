"""Which kind of database an address is of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.spark.sqlite import SqliteStore

if TYPE_CHECKING:
    from holdfast.spark.options import Options
    from holdfast.spark.store import Store


def opened(options: Options) -> Store:
    """One point in time of it: that of the snapshot, if one is named."""
    if options.is_sqlite:
        return SqliteStore(options)
    # Has a library of its own, which whoever reads files need not have.
    from holdfast.spark.postgresql import PostgresqlStore

    return PostgresqlStore(options)
