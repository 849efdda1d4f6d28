"""Real daprd, placement and scheduler, over SQLite and over PostgreSQL."""

from __future__ import annotations

import asyncio
import json
from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from holdfast.local import LocalDapr, LocalPostgres, find_dapr, find_postgres, write_component
from tests.support.stacks.served import APP_ID, ServedStack, of_actor, rows, stopped

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from holdfast.local import ChildProcess, Sidecar


class DaprStack(ServedStack):
    """The app beside its sidecar."""

    def __init__(self, folder: Path) -> None:
        self._dapr = LocalDapr(folder / "dapr", find_dapr())
        self._sidecar: Sidecar | None = None
        self._app: ChildProcess | None = None
        super().__init__(folder)

    @property
    def api_port(self) -> int:
        assert self._sidecar is not None
        return self._sidecar.http_port

    @property
    def grpc_port(self) -> int:
        assert self._sidecar is not None
        return self._sidecar.grpc_port

    @abstractmethod
    async def _store(self, resources: Path) -> None:
        """Writes the component of the store, ready to be used."""

    @abstractmethod
    async def _rows(self) -> Mapping[str, str]: ...

    async def stored(self, actor_type: str, actor_id: str) -> dict[str, Any]:
        return of_actor(await self._rows(), actor_type, actor_id)

    async def stored_keys(self) -> set[str]:
        return set(await self._rows())

    @property
    def processes(self) -> list[ChildProcess]:
        own = [self._dapr.placement.process, self._dapr.scheduler.process]
        return [*own, *([self._sidecar.process] if self._sidecar else []), *([self._app] if self._app else [])]

    async def stop_app(self) -> int:
        return await stopped(self._app)

    async def kill_app(self) -> None:
        if self._app:
            await self._app.kill()

    async def start_app(self) -> None:
        assert self._app is not None
        await self._app.start()
        await self._app.wait_ready(self.takes_calls)

    async def kill_daprd(self) -> None:
        if self._sidecar:
            await self._sidecar.kill()

    async def start_daprd(self) -> None:
        assert self._sidecar is not None
        await self._sidecar.start()
        await self._sidecar.process.wait_ready(self.takes_calls)

    async def kill_scheduler(self) -> None:
        await self._dapr.scheduler.kill()

    async def start_scheduler(self) -> None:
        await self._dapr.scheduler.start()

    async def kill_all(self) -> None:
        await asyncio.gather(self._dapr.kill(), self.kill_app())

    async def start_all(self) -> None:
        await self._dapr.start()
        if self._sidecar is None:
            resources = self.folder / "resources"
            await self._store(resources)
            self._sidecar = await self._dapr.sidecar(app_id=APP_ID, app_port=self.app_port, resources=resources)
            self._app = self._serve("--host", "dapr", environment=self._sidecar.environment)
        else:
            await self._sidecar.start()
        await self.start_app()


class DaprSqliteStack(DaprStack):
    name = "daprd-sqlite"

    @property
    def _database(self) -> Path:
        return self.folder / "state.db"

    async def _store(self, resources: Path) -> None:
        write_component("sqlite", resources, connection=str(self._database))

    async def _rows(self) -> Mapping[str, str]:
        return rows(self._database)


class DaprPostgresqlStack(DaprStack):
    name = "daprd-postgresql"

    def __init__(self, folder: Path) -> None:
        self._postgres = LocalPostgres(folder / "postgresql")
        self._url = ""
        super().__init__(folder)

    async def _store(self, resources: Path) -> None:
        await self._postgres.start()
        self._url = await self._postgres.create_database("conformance")
        write_component("postgresql-v2", resources, connection=self._url)

    async def _stop(self) -> None:
        await super()._stop()
        await self._postgres.stop()

    async def _rows(self) -> Mapping[str, str]:
        query = "SELECT json_object_agg(key, convert_from(value, 'UTF8')) FROM state"
        psql = await asyncio.create_subprocess_exec(
            *(find_postgres().folder / "psql", "--no-psqlrc", "--tuples-only", "--no-align"),
            *("--command", query, self._url),
            stdout=asyncio.subprocess.PIPE,
        )
        answer, _ = await psql.communicate()
        assert psql.returncode == 0
        found: dict[str, str] = json.loads(answer) or {}
        return found
