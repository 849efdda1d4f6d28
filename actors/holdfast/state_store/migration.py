"""Moves everything of an app from one state store to another: the embedded file, Dapr's SQLite, PostgreSQL v1 and v2.

The rows are written in one transaction of the target, which is committed after their number was verified. So a
migration that is interrupted leaves the target as it was, and can be repeated.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from holdfast.errors import ComponentMissing, SettingsError, StorageBroken
from holdfast.kinds import OWN_TYPES, WAKE_LIST_TYPE
from holdfast.names import check_id
from holdfast.runtime.exact_numbers import original, protected
from holdfast.state_store.formats import refuse_other_formats
from holdfast.state_store.sqlite_table import SqliteSource, SqliteTarget
from holdfast.state_store.stored_key import SEPARATOR, StoredKey
from holdfast.state_store.wake_entries import WakeListPages, entries_of, of_reminder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.state_store.backup import Progress
    from holdfast.state_store.rows import Source, StoredRow, Target
    from holdfast.state_store.url import StoreUrl

#: The types of Dapr's own actors, as of its workflows. Their state depends on reminders that cannot be moved.
_OF_DAPR = "dapr.internal."
_ROWS_BETWEEN_REPORTS = 1000


@dataclass(frozen=True, slots=True)
class End:
    """The database at one end of a migration."""

    url: StoreUrl
    table: str = "state"
    #: The version of Dapr's PostgreSQL component whose table is created if there is none.
    create: str | None = None
    #: Whether a PostgreSQL database may have connections of others.
    ignore_connections: bool = False


@dataclass(slots=True)
class Moved:
    """The counts of a migration, for its report."""

    app_id: str
    to_app_id: str
    #: The number of values for each type of actors.
    values: Counter[str] = field(default_factory=Counter)
    #: Rows that were left behind, with the reason.
    skipped: Counter[str] = field(default_factory=Counter)
    #: Actors that the next server wakes, and reminders of apps' own actors that it registers.
    to_wake: int = 0
    app_reminders: int = 0
    #: The types of apps' own actors whose reminders could not be read.
    without_reminders: list[str] = field(default_factory=list)


def migrate(
    source_end: End,
    target_end: End,
    *,
    app_id: str | None,
    to_app_id: str | None,
    retention_seconds: float | None,
    progress: Progress,
) -> Moved:
    """Moves the state of an app. The source is not changed. Raises HoldfastError; then the target is not changed."""
    with ExitStack() as stack:
        source = stack.enter_context(_open_source(source_end))
        app_id = _chosen_app(source, app_id)
        to_app_id = app_id if to_app_id is None else check_id(to_app_id, "--to-app-id")
        if (source_end.url, source_end.table, app_id) == (target_end.url, target_end.table, to_app_id):
            raise SettingsError("--from and --to are the same database: name another with --to.")
        target = stack.enter_context(_open_target(target_end))
        if found := target.counts(to_app_id):
            raise SettingsError(
                f"The target has {sum(found.values()):,} values of the app id {to_app_id!r} already: choose an empty "
                "one with --to, or another --to-app-id."
            )
        work = _Work(source, target, Moved(app_id, to_app_id), retention_seconds, progress)
        target.write(work.rows())
        work.verify()
        # What a server has stored in the source meanwhile would be left behind.
        source.check_alone()
        target.commit()
    return work.moved


class _Work:
    def __init__(
        self, source: Source, target: Target, moved: Moved, retention_seconds: float | None, progress: Progress
    ) -> None:
        self._source, self._target = source, target
        self._retention_seconds = retention_seconds
        self._progress = progress
        self._list = WakeListPages(moved.to_app_id)
        self.moved = moved

    def rows(self) -> Iterator[StoredRow]:
        """Yields the rows of the target."""
        moved, total = self.moved, self._source.count(self.moved.app_id)
        for number, row in enumerate(self._source.rows(moved.app_id)):
            if number % _ROWS_BETWEEN_REPORTS == 0:
                self._progress("Moving", number, total)
            key = StoredKey.parse(row.key)
            if key is None or key.actor_type.startswith(_OF_DAPR):
                moved.skipped["not of actors" if key is None else "of Dapr's own workflows"] += 1
                continue
            refuse_other_formats(key, row.value)
            for entry in self._entries(key, row):
                yield from self._counted(self._list.add(entry))
            if key.actor_type != WAKE_LIST_TYPE:
                whole = str(key._replace(app_id=moved.to_app_id))
                yield from self._counted(iter([row._replace(key=whole, value=self._converted(key, row))]))
        for reminder in self._source.reminders():
            if (entry := of_reminder(reminder)) is not None:
                yield from self._counted(self._list.add(entry))
        yield from self._counted(self._list.finish())
        moved.to_wake, moved.app_reminders = self._list.entries - self._list.of_apps, self._list.of_apps
        if not self._source.is_embedded:
            moved.without_reminders = sorted(moved.values.keys() - OWN_TYPES)

    def verify(self) -> None:
        """Raises StorageBroken unless the target has as many rows of each type as were moved."""
        self._progress("Verifying", 0, None)
        found = self._target.counts(self.moved.to_app_id)
        if found != dict(self.moved.values):
            raise StorageBroken(
                f"The target has other numbers of values ({found}) than were moved ({dict(self.moved.values)}), so "
                "nothing was kept. Try again."
            )

    def _entries(self, key: StoredKey, row: StoredRow) -> list[object]:
        try:
            return entries_of(key, row.value, self._retention_seconds)
        except (ValueError, TypeError, KeyError, AttributeError):
            raise StorageBroken(f"The value {key} is damaged. Restore the data from a backup.") from None

    def _converted(self, key: StoredKey, row: StoredRow) -> bytes:
        """Returns the value as the target's host stores it: beside daprd, some numbers of apps' values are wrapped."""
        if key.actor_type in OWN_TYPES or row.is_binary or self._source.is_embedded == self._target.is_embedded:
            return row.value
        try:
            return original(row.value) if self._target.is_embedded else protected(row.value)
        except ValueError:
            raise StorageBroken(f"The value {key} is not JSON. Delete it, or restore the data from a backup.") from None

    def _counted(self, rows: Iterator[StoredRow]) -> Iterator[StoredRow]:
        for row in rows:
            self.moved.values[row.key.split(SEPARATOR, 2)[1]] += 1
            yield row


def _chosen_app(source: Source, app_id: str | None) -> str:
    found = source.app_ids()
    if app_id is None and len(found) == 1:
        return found[0]
    if not found or (app_id is not None and app_id not in found):
        others = f" The app ids there are {', '.join(found)}." if found else ""
        of_app = "" if app_id is None else f" of the app id {app_id!r}"
        raise SettingsError(f"The source has no state of actors{of_app}: there is nothing to move.{others}")
    if app_id is None:
        raise SettingsError(f"The source has the state of several apps: name one with --app-id: {', '.join(found)}.")
    return app_id


def _open_source(end: End) -> Source:
    end.url.check("--from")
    if end.url.is_sqlite:
        return SqliteSource(end.url.sqlite_path, end.table)
    _require_driver()
    from holdfast.state_store.postgresql_table import PostgresqlSource

    return PostgresqlSource(end.url, end.table, ignore_connections=end.ignore_connections)


def _open_target(end: End) -> Target:
    end.url.check("--to")
    if end.url.is_sqlite:
        if end.create is not None:
            raise SettingsError("--create is for PostgreSQL, and --to is a file of SQLite: omit it.")
        return SqliteTarget(end.url.sqlite_path, end.table)
    _require_driver()
    from holdfast.state_store.postgresql_table import PostgresqlTarget

    return PostgresqlTarget(end.url, end.table, create=end.create, ignore_connections=end.ignore_connections)


def _require_driver() -> None:
    try:
        import psycopg  # noqa: F401
    except ImportError as error:
        raise ComponentMissing(
            "PostgreSQL's driver is an extra of Holdfast: pip install 'holdfast[postgresql]'."
        ) from error
