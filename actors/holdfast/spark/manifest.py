"""What a kept snapshot says of itself, in a file that is written last: without it, it is not finished."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from holdfast.errors import SettingsError

if TYPE_CHECKING:
    from pathlib import Path

FILE = "manifest.json"
VERSION = 1


@dataclass(frozen=True)
class Extent:
    """How much a table holds."""

    rows: int
    bytes: int
    files: int


@dataclass(frozen=True)
class Manifest:
    #: The moment all tables are of.
    as_of: datetime
    holdfast: str
    #: The database, without secrets.
    url: str
    app_id: str | None
    tenant: str | None
    seconds: float
    tables: dict[str, Extent]
    totals: dict[str, int]
    #: What could not be read, with how often.
    problems: list[dict[str, Any]]
    checks: list[dict[str, Any]]
    #: What does not add up, one sentence each.
    findings: list[str]
    #: The earlier snapshot it was compared with, and what changed since.
    against: dict[str, Any] | None = None
    changes: dict[str, Any] | None = None
    version: int = field(default=VERSION)

    def to_json(self) -> dict[str, Any]:
        return {"version": self.version, **asdict(self), "as_of": self.as_of.isoformat()}

    def write(self, folder: Path) -> None:
        """All of it or nothing, whoever looks meanwhile."""
        unfinished = folder / f".{FILE}"
        with unfinished.open("w", encoding="utf-8") as file:
            json.dump(self.to_json(), file, indent=2, ensure_ascii=False)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(folder / FILE)

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """Raises SettingsError for what is none, or of a later version."""
        try:
            told = json.loads((folder / FILE).read_text("utf-8"))
            if told["version"] > VERSION:
                raise SettingsError(f"{folder} was written by a later version of Holdfast.")
            return cls(
                **told
                | {
                    "as_of": datetime.fromisoformat(told["as_of"]),
                    "tables": {name: Extent(**extent) for name, extent in told["tables"].items()},
                }
            )
        except FileNotFoundError as error:
            raise SettingsError(f"{folder} is not a finished snapshot: it has no {FILE}.") from error
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise SettingsError(f"{folder / FILE} cannot be read: {error}") from error
