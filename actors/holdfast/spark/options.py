"""What can be said to the data source, and what it makes of it. No word of a password gets further than here."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from holdfast.spark.packed import packed
from holdfast.spark.refusals import invalid
from holdfast.spark.schemas import MADE_BY, SCHEMAS
from holdfast.spark.secrets import hidden_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.types import StructType

#: Which tables these narrow.
_NARROWED = {"queue": ("queues", "items", "locks", "dead_letters"), "instance": ("instances", "history")}
_POSTGRESQL = ("postgresql://", "postgres://")
_SQLITE = "sqlite://"
MAX_PARTITIONS = 10_000
#: What Dapr's components call theirs.
USUAL_TABLE = "state"


@dataclass(frozen=True, slots=True)
class Options:
    """One load. What is shown of it never holds the address, which may hold a password."""

    url: str = field(repr=False)
    table: str = "items"
    app_id: str | None = None
    tenant: str | None = None
    queue: str | None = None
    instance: str | None = None
    #: Of the actors the table is about, where it is not the usual one.
    actor_type: str | None = None
    #: The table of Dapr's component, or what its name begins with.
    table_name: str | None = None
    table_prefix: str | None = None
    partitions: int | None = None
    #: How many tasks run at once.
    cores: int | None = None
    #: Unix seconds: the moment that decides what is due or has expired.
    as_of: float | None = None
    #: What a snapshot is known by.
    snapshot: str | None = None
    #: Items in a row for each run of them.
    packed: bool = False
    #: Of a stream: from where on.
    starting: str = "earliest"

    @classmethod
    def read(cls, given: Mapping[str, str]) -> Options:
        """Raises InvalidRequest, in one sentence, for what cannot be meant."""
        names = {entry.name for entry in fields(cls)}
        # Spark hands over a path under its own name, and lower-cases nothing.
        values = {name.lower(): value for name, value in given.items()}
        unknown = sorted(values.keys() - names)
        if unknown:
            raise invalid(f"There is no option {unknown[0]!r}: there are {', '.join(sorted(names))}.")
        if "url" not in values:
            raise invalid("The option 'url' is missing: sqlite:///path/of/the/file or postgresql://….")
        if values.get("table", "items") not in SCHEMAS:
            raise invalid(f"There is no table {values['table']!r}: there are {', '.join(SCHEMAS)}.")
        table = values.get("table", "items")
        for name, tables in _NARROWED.items():
            if name in values and table not in tables:
                raise invalid(
                    f"The option {name!r} does not narrow the table {table!r}: it is for {', '.join(tables)}."
                )
        if not values["url"].startswith((*_POSTGRESQL, _SQLITE)):
            raise invalid("This url is of neither kind: sqlite:///path/of/the/file or postgresql://….")
        if "table_name" in values and "table_prefix" in values:
            raise invalid("The options 'table_name' and 'table_prefix' say the same: give one of them.")
        if values.get("starting", "earliest") not in ("earliest", "latest"):
            raise invalid("The option 'starting' is 'earliest' or 'latest'.")
        if values.get("packed", "true") != "true" or ("packed" in values and table != "items"):
            raise invalid("The option 'packed' is for snapshots, which set it to 'true' for the table 'items'.")
        if values["url"].startswith(_SQLITE) and not values["url"][len(_SQLITE) :].partition("?")[0].strip("/"):
            raise invalid("This url has no path: sqlite:///path/of/the/file.")
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
        return packed(whole) if self.packed else whole

    @property
    def is_sqlite(self) -> bool:
        return self.url.startswith(_SQLITE)

    @property
    def sqlite_path(self) -> str:
        """``sqlite:///a/b`` is /a/b, and so is ``sqlite:////a/b``."""
        path = unquote(self.url[len(_SQLITE) :].partition("?")[0])
        return "/" + path.lstrip("/")

    @property
    def state_table(self) -> str:
        return state_table(self.table_name, self.table_prefix)

    @property
    def made_by(self) -> str | None:
        """The type of the actors whose values are read; None where it is all of them."""
        usual = MADE_BY.get(self.table)
        return usual and (self.actor_type or usual)

    def without_secrets(self, text: str) -> str:
        """A message of somebody else's, with nothing in it that the url alone knows."""
        return hidden_in(text, self.url)


def state_table(table_name: str | None, table_prefix: str | None) -> str:
    """The table of Dapr's component."""
    return table_name or f"{table_prefix or ''}{USUAL_TABLE}"


def _whole(name: str, value: str, most: int) -> int:
    if not (value.isascii() and value.isdigit() and 1 <= int(value) <= most):
        raise invalid(f"The option {name!r} is a whole number from 1 to {most}.")
    return int(value)


def _moment(value: str) -> float:
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise invalid("The option 'as_of' is a time as ISO 8601 has it, as 2026-02-28T16:13:35Z.") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
