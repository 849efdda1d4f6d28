"""The embedded host: all actors in this process, all state in one folder."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from holdfast.names import check_id
from holdfast.runtime.embedded.data_folder import DataFolder
from holdfast.runtime.embedded.sqlite import SqliteStorage
from holdfast.runtime.in_process.host import InProcessHost

if TYPE_CHECKING:
    from pathlib import Path


class EmbeddedHost(InProcessHost):
    """Implements the Dapr actor contract on one SQLite file with the layout of Dapr's own ``state.sqlite``."""

    name = "embedded"

    def __init__(self, data: Path, **options: Any) -> None:
        # A bar would end this part of a state key.
        check_id(options.get("app_id", "holdfast"), "app id")
        self._folder = DataFolder(data)
        super().__init__(SqliteStorage(self._folder.database), now=time.time, **options)

    @property
    def url(self) -> str:
        """The address of the database for Spark."""
        return f"sqlite:///{quote(str(self._folder.database.absolute()))}"

    async def start(self) -> None:
        self._folder.claim()
        self._folder.protect_database()
        try:
            await super().start()
        except BaseException:
            self._folder.release()
            raise

    async def stop(self) -> None:
        await super().stop()
        self._folder.release()
