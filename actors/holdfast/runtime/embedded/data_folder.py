"""The data folder: used by one process at a time, and readable by its own user only."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import stat
from typing import TYPE_CHECKING

from holdfast.errors import DataFolderInUse, StorageBroken

if TYPE_CHECKING:
    from pathlib import Path


log = logging.getLogger(__name__)

_LOCK = "holdfast.lock"
_FOLDER_MODE, _FILE_MODE = 0o700, 0o600
_OTHERS = 0o077


class DataFolder:
    """The folder with all data of the embedded host."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock: int | None = None

    @property
    def database(self) -> Path:
        return self._path / "holdfast.db"

    def claim(self) -> None:
        """Creates the folder and locks it for this process. The system releases the lock when the process ends."""
        if self._lock is not None:
            return
        try:
            self._path.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
            lock = self._open_lock()
        except OSError as error:
            reason = f"its {_LOCK} is a link" if error.errno == errno.ELOOP else error.strerror
            raise StorageBroken(
                f"The data folder {self._path} cannot be used: {reason}. Choose another with --data."
            ) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(lock, 32).decode("ascii", "replace").strip() or "unknown"
            os.close(lock)
            raise DataFolderInUse(
                f"The data folder {self._path} is in use by process {owner}. Stop it, or choose another with --data."
            ) from None
        os.ftruncate(lock, 0)
        os.write(lock, f"{os.getpid()}\n".encode())
        self._lock = lock

    def protect_database(self) -> None:
        """Creates the database file before SQLite does, or removes other users' access to it. Call it after ``claim``.

        SQLite gives the database's other files the mode of the database.
        """
        try:
            os.close(os.open(self.database, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE))
        except OSError:
            # SQLite reports why it cannot open the file.
            return
        for suffix in ("", "-wal", "-shm"):
            _keep_from_others(self.database.with_name(self.database.name + suffix), _FILE_MODE)

    def _open_lock(self) -> int:
        path = self._path / _LOCK
        # A folder with other content may be a home directory: only a folder of Holdfast's is closed to other users.
        if os.path.lexists(path):
            _keep_from_others(self._path, _FOLDER_MODE)
        # The target of a link would be truncated below.
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, _FILE_MODE)
        if not stat.S_ISREG(os.fstat(lock).st_mode):
            os.close(lock)
            raise OSError(errno.EINVAL, f"its {_LOCK} is not a regular file")
        _keep_from_others(path, _FILE_MODE)
        return lock

    def release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _keep_from_others(path: Path, mode: int) -> None:
    try:
        if stat.S_IMODE(path.stat().st_mode) & _OTHERS:
            path.chmod(mode)
    except FileNotFoundError:
        pass
    except OSError as error:
        # The volume belongs to another user, or the file system has no modes: the server can still work there.
        log.warning("%s may be readable by other users, and its mode cannot be changed: %s", path, error.strerror)
