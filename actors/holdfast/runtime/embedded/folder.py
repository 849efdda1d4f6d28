"""The data folder: one process at a time."""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING

from holdfast.errors import DataFolderInUse, StorageBroken

if TYPE_CHECKING:
    from pathlib import Path


class DataFolder:
    """Where the embedded host keeps everything."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock: int | None = None

    @property
    def database(self) -> Path:
        return self._path / "holdfast.db"

    def claim(self) -> None:
        """Makes the folder and takes it for this process. The system gives it back however the process ends."""
        if self._lock is not None:
            return
        try:
            self._path.mkdir(parents=True, exist_ok=True)
            lock = os.open(self._path / "holdfast.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise StorageBroken(
                f"The data folder {self._path} cannot be used: {error.strerror}. Choose another with --data."
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

    def release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
