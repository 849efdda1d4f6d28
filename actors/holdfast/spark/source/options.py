"""The options of the data source. Passwords in the URL are not passed on to messages."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from holdfast.errors import InvalidRequest
from holdfast.spark.decode.run_length import packed_schema
from holdfast.spark.source.schemas import MADE_BY, SCHEMAS
from holdfast.state_store.url import StoreUrl

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.types import StructType

#: The tables that each of these options filters.
_NARROWED = {"queue": ("queues", "items", "locks", "dead_letters"), "instance": ("instances", "history")}
MAX_PARTITIONS = 10_000
#: The default table name of Dapr's components.
USUAL_TABLE = "state"


@dataclass(frozen=True, slots=True)
class Options:
    """The options of one load. Their repr omits the URL, which may have a password."""

    url: str = field(repr=False)
    table: str = "items"
    app_id: str | None = None
    tenant: str | None = None
    queue: str | None = None
    instance: str | None = None
    #: The type of the actors to read, if it is not the default.
    actor_type: str | None = None
    #: The table of Dapr's component, or its prefix.
    table_name: str | None = None
    table_prefix: str | None = None
    partitions: int | None = None
    #: Tasks that run at once.
    cores: int | None = None
    #: Unix seconds: decides which items are due and which have expired.
    as_of: float | None = None
    #: The name of the snapshot to read.
    snapshot: str | None = None
    #: Whether each row has a whole run of items.
    packed: bool = False
    #: The start of a stream: ``earliest`` or ``latest``.
    starting: str = "earliest"

    @classmethod
    def read(cls, given: Mapping[str, str]) -> Options:
        """Parses the options. Raises InvalidRequest for invalid ones."""
        names = {entry.name for entry in fields(cls)}
        # Spark passes option names as they were written.
        values = {name.lower(): value for name, value in given.items()}
        unknown = sorted(values.keys() - names)
        if unknown:
            raise InvalidRequest(f"There is no option {unknown[0]!r}. The options are {', '.join(sorted(names))}.")
        if "url" not in values:
            raise InvalidRequest("The option 'url' is missing: sqlite:///path/of/the/file or postgresql://….")
        if values.get("table", "items") not in SCHEMAS:
            raise InvalidRequest(f"There is no table {values['table']!r}. The tables are {', '.join(SCHEMAS)}.")
        table = values.get("table", "items")
        for name, tables in _NARROWED.items():
            if name in values and table not in tables:
                raise InvalidRequest(
                    f"The option {name!r} does not apply to the table {table!r}, only to {', '.join(tables)}."
                )
        StoreUrl(values["url"]).check("The option 'url'")
        if "table_name" in values and "table_prefix" in values:
            raise InvalidRequest("The options 'table_name' and 'table_prefix' exclude each other: give one of them.")
        if values.get("starting", "earliest") not in ("earliest", "latest"):
            raise InvalidRequest("The option 'starting' must be 'earliest' or 'latest'.")
        if values.get("packed", "true") != "true" or ("packed" in values and table != "items"):
            raise InvalidRequest("The option 'packed' is for snapshots, which set it to 'true' for the table 'items'.")
        counts = ("partitions", "cores")
        read: dict[str, Any] = {name: _whole(name, values[name], MAX_PARTITIONS) for name in counts if name in values}
        if "as_of" in values:
            read["as_of"] = _moment(values["as_of"])
        if "packed" in values:
            read["packed"] = True
        return cls(**{**values, **read})

    @property
    def schema(self) -> StructType:
        whole = SCHEMAS[self.table]
        return packed_schema(whole) if self.packed else whole

    @property
    def is_sqlite(self) -> bool:
        return StoreUrl(self.url).is_sqlite

    @property
    def sqlite_path(self) -> str:
        """The path of the file: ``sqlite:///a/b`` and ``sqlite:////a/b`` both mean /a/b."""
        return StoreUrl(self.url).sqlite_path

    @property
    def state_table(self) -> str:
        return state_table(self.table_name, self.table_prefix)

    @property
    def made_by(self) -> str | None:
        """The type of the actors whose values are read; None for all types."""
        usual = MADE_BY.get(self.table)
        return usual and (self.actor_type or usual)

    def without_secrets(self, text: str) -> str:
        """Removes the URL and its secrets from a message of another library."""
        return StoreUrl(self.url).without_secrets(text)


def state_table(table_name: str | None, table_prefix: str | None) -> str:
    """Returns the name of the table of Dapr's component."""
    return table_name or f"{table_prefix or ''}{USUAL_TABLE}"


def _whole(name: str, value: str, most: int) -> int:
    if not (value.isascii() and value.isdigit() and 1 <= int(value) <= most):
        raise InvalidRequest(f"The option {name!r} must be a whole number from 1 to {most}.")
    return int(value)


def _moment(value: str) -> float:
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise InvalidRequest("The option 'as_of' must be an ISO 8601 time, as in 2026-02-28T16:13:35Z.") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
