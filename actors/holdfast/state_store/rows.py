"""Rows of a state store as they are moved, and the interfaces of the databases that have and get them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import TracebackType
    from typing import Self


class StoredRow(NamedTuple):
    key: str
    #: As actors read it.
    value: bytes
    #: Whether the value is stored as bytes and not as JSON.
    is_binary: bool = False
    #: Unix seconds.
    expires_at: float | None = None


class Database(Protocol):
    """A database that no server uses, until it is closed."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def check_alone(self) -> None:
        """Raises DataFolderInUse if a server has begun to use it."""
        ...


class Source(Database, Protocol):
    """One point in time of a database."""

    #: Whether it is a file of the embedded host, with reminders.
    is_embedded: bool

    def app_ids(self) -> list[str]:
        """Returns the first part of the keys of all actors' values."""
        ...

    def count(self, app_id: str) -> int:
        """Returns how many rows of an app have not expired."""
        ...

    def rows(self, app_id: str) -> Iterator[StoredRow]:
        """Yields the rows of an app that have not expired."""
        ...

    def reminders(self) -> Iterator[Mapping[str, Any]]:
        """Yields the rows of the embedded host's reminders."""
        ...


class Target(Database, Protocol):
    """One transaction, which is undone unless it is committed: an interrupted migration leaves nothing behind."""

    is_embedded: bool

    def counts(self, app_id: str) -> dict[str, int]:
        """Returns the number of rows of an app for each type of actors."""
        ...

    def write(self, rows: Iterator[StoredRow]) -> None: ...

    def commit(self) -> None: ...
