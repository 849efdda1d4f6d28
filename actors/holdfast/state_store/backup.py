"""Backs up the embedded host's file while its server runs: copied, checked, and put in place as a whole."""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from holdfast.errors import SettingsError, StorageBroken, Unavailable
from holdfast.state_store.formats import NUMBERED, refuse_other_formats
from holdfast.state_store.sqlite_copy import copy
from holdfast.state_store.stored_key import StoredKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_MODE = 0o600
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
# How many instructions of SQLite's virtual machine a check takes between two reports.
_STEPS = 2_000_000


#: Is called with what is being done, how much of it is done, and how much there is, if that is known.
Progress: TypeAlias = "Callable[[str, int, int | None], None]"


class Backup(NamedTuple):
    values: int
    reminders: int
    size: int


def back_up(database: Path, to: Path, *, replace: bool, progress: Progress) -> Backup:
    """Writes a copy of one moment to ``to``, with everything that was acknowledged before.

    The copy is written beside ``to``, checked, synced and then renamed, so a file with that name is always complete.
    """
    if not database.is_file():
        raise SettingsError(f"There is no {database}: name the data folder of the embedded server with --data.")
    _check_target(database, to, replace=replace)
    partial = to.with_name(f".{to.name}.{secrets.token_hex(4)}.partial")
    try:
        os.close(os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _MODE))
        with _explained(database, to):
            copy(str(database), partial, lambda done, of: progress("Copying", done, of))
            made = _check(database, partial, progress)
        _sync(partial)
        # It may have been made meanwhile.
        _check_target(database, to, replace=replace)
        partial.replace(to)
        _sync(to.parent)
    except OSError as error:
        raise SettingsError(f"Cannot write {to}: {error.strerror}. Choose another file with --to.") from error
    finally:
        for suffix in ("", "-journal", "-wal", "-shm"):
            partial.with_name(partial.name + suffix).unlink(missing_ok=True)
    return made


def _check_target(database: Path, to: Path, *, replace: bool) -> None:
    if to.exists() and to.samefile(database):
        raise SettingsError(f"{to} is the server's own file: choose another with --to.")
    if to.is_dir():
        raise SettingsError(f"{to} is a folder: name the file of the backup with --to.")
    if os.path.lexists(to) and not replace:
        raise SettingsError(f"{to} exists already: choose another file with --to, or replace it with --force.")
    if to.with_name(f"{to.name}-wal").exists():
        raise SettingsError(f"{to} is in use, or was not closed ({to.name}-wal exists): choose another with --to.")


def _check(database: Path, partial: Path, progress: Progress) -> Backup:
    with closing(sqlite3.connect(partial, isolation_level=None)) as connection:
        # Without a log beside it, the file is complete, and can be read where nothing can be written.
        connection.execute("PRAGMA journal_mode = DELETE")
        progress("Checking", 0, None)
        connection.set_progress_handler(lambda: progress("Checking", 0, None), _STEPS)
        [first] = connection.execute("PRAGMA integrity_check(1)").fetchone()
        if first != "ok":
            raise StorageBroken(_damage(database, str(first).splitlines()[-1]))
        patterns = [f"*||{actor_type}||*||{state_key}" for actor_type, state_key in NUMBERED.items()]
        condition = " OR ".join(["key GLOB ?"] * len(patterns))
        for key, value in connection.execute(
            f"SELECT key, CAST(value AS BLOB) FROM state WHERE {condition}",  # noqa: S608
            patterns,
        ):
            if (parsed := StoredKey.parse(key)) is not None:
                refuse_other_formats(parsed, value)
        [values] = connection.execute("SELECT count(*) FROM state").fetchone()
        [reminders] = connection.execute("SELECT count(*) FROM holdfast_reminders").fetchone()
    return Backup(values, reminders, partial.stat().st_size)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _explained(database: Path, to: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in _DAMAGED:
            raise StorageBroken(_damage(database, str(error))) from error
        if code == sqlite3.SQLITE_FULL:
            raise Unavailable(
                f"The disk of {to} is full, so no backup was written. Free space and try again."
            ) from error
        raise Unavailable(f"{database} could not be copied to {to}: {error}. Try again.") from error


def _damage(database: Path, reason: str) -> str:
    return f"The data file {database} is damaged: {reason}. No backup was written; keep the earlier ones."
