"""The URL of a state store's database: a SQLite file or PostgreSQL."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import unquote

from holdfast.errors import InvalidRequest
from holdfast.state_store.redaction import redact

SQLITE = "sqlite://"
POSTGRESQL = ("postgresql://", "postgres://")


@dataclass(frozen=True, slots=True)
class StoreUrl:
    """A URL. Its repr omits it, because it may have a password."""

    url: str = field(repr=False)

    @property
    def is_sqlite(self) -> bool:
        return self.url.startswith(SQLITE)

    @property
    def sqlite_path(self) -> str:
        """The path of the file: ``sqlite:///a/b`` and ``sqlite:////a/b`` both mean /a/b."""
        path = unquote(self.url[len(SQLITE) :].partition("?")[0])
        return "/" + path.lstrip("/")

    def check(self, what: str) -> None:
        """Raises InvalidRequest, calling the URL ``what``, if it is not one of a state store's database."""
        if not self.url.startswith((*POSTGRESQL, SQLITE)):
            raise InvalidRequest(f"{what} must be sqlite:///path/of/the/file or postgresql://….")
        if self.is_sqlite and not self.url[len(SQLITE) :].partition("?")[0].strip("/"):
            raise InvalidRequest(f"{what} has no path: give sqlite:///path/of/the/file.")

    def without_secrets(self, text: str) -> str:
        """Removes the URL and its secrets from a message of another library."""
        return redact(text, self.url)
