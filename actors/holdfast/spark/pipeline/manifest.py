"""The manifest of a stored snapshot. It is written last: a folder without one is not a finished snapshot."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from pydantic import AwareDatetime, TypeAdapter, ValidationError

from holdfast.errors import SettingsError
from holdfast.spark.source.options import USUAL_TABLE

if TYPE_CHECKING:
    from pathlib import Path

FILE = "manifest.json"
VERSION = 1
#: The tables every snapshot has; tables added later may be missing from older snapshots.
TABLES = ("queues", "items", "locks", "dead_letters", "instances", "history", "idempotency", "problems")


@dataclass(frozen=True)
class Extent:
    """The size of a table."""

    rows: int
    bytes: int
    files: int


class Subject(NamedTuple):
    """The database and filters of a snapshot; snapshots of the same subject can be compared."""

    database: str
    app_id: str | None
    tenant: str | None
    #: The table of Dapr's component.
    state_table: str = USUAL_TABLE

    @classmethod
    def of(cls, url: str, app_id: str | None, tenant: str | None, state_table: str = USUAL_TABLE) -> Subject:
        """Returns the subject of a URL, from which secrets were removed."""
        scheme, _, rest = url.partition("://")
        if scheme == "sqlite":
            # The number of slashes and quoting do not matter: it is the same file.
            return cls(f"{scheme}:///{unquote(rest).lstrip('/')}", app_id, tenant, state_table)
        return cls(f"postgresql://{rest}", app_id, tenant, state_table)

    def __str__(self) -> str:
        table = None if self.state_table == USUAL_TABLE else self.state_table
        narrowed = (("table", table), ("app id", self.app_id), ("tenant", self.tenant))
        return ", ".join((self.database, *(f"{what} {value}" for what, value in narrowed if value)))


@dataclass(frozen=True)
class Manifest:
    """The metadata, totals and check results of a snapshot."""

    #: The point in time of all tables.
    as_of: AwareDatetime
    holdfast: str
    #: The database, without secrets.
    url: str
    app_id: str | None
    tenant: str | None
    seconds: float
    tables: dict[str, Extent]
    totals: dict[str, int]
    #: Rows that could not be read, grouped and counted.
    problems: list[dict[str, Any]]
    checks: list[dict[str, Any]]
    #: The findings of the consistency checks, one sentence each.
    findings: list[str]
    #: The earlier snapshot it was compared with, and what changed since.
    against: dict[str, Any] | None = None
    changes: dict[str, Any] | None = None
    state_table: str = USUAL_TABLE
    version: int = field(default=VERSION)

    @property
    def subject(self) -> Subject:
        return Subject.of(self.url, self.app_id, self.tenant, self.state_table)

    def to_json(self) -> dict[str, Any]:
        return {"version": self.version, **asdict(self), "as_of": self.as_of.isoformat()}

    def write(self, folder: Path) -> None:
        """Writes the file atomically."""
        unfinished = folder / f".{FILE}"
        with unfinished.open("w", encoding="utf-8") as file:
            json.dump(self.to_json(), file, indent=2, ensure_ascii=False)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(folder / FILE)

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """Reads a manifest. Raises SettingsError if there is none, or if it is damaged or of a later version."""
        file = folder / FILE
        try:
            parsed = json.loads(file.read_text("utf-8"))
            if not isinstance(parsed, dict) or type(parsed.get("version")) is not int:
                raise SettingsError(f"{file} is not the manifest of a snapshot: it has no version number.")
            if parsed["version"] > VERSION:
                raise SettingsError(f"{folder} was written by a later version of Holdfast.")
            manifest = _MANIFEST.validate_python(parsed)
        except FileNotFoundError as error:
            raise SettingsError(f"{folder} is not a finished snapshot: it has no {FILE}.") from error
        except ValidationError as error:
            [first, *_] = error.errors()
            where = ".".join(str(part) for part in first["loc"])
            raise SettingsError(f"{file} cannot be read: {where}: {first['msg']}.") from error
        except (OSError, ValueError, RecursionError) as error:
            raise SettingsError(f"{file} cannot be read: {error}.") from error
        if missing := [name for name in TABLES if name not in manifest.tables]:
            raise SettingsError(f"The snapshot {folder} is damaged: its manifest lacks {', '.join(missing)}.")
        return manifest


_MANIFEST = TypeAdapter(Manifest)
