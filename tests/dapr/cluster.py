"""Apps in the test's own process, each beside a daprd of its own."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Self

import aiohttp
import uvicorn
from fastapi import FastAPI, Response

from holdfast.local import LocalDapr, find_dapr, write_component
from holdfast.local.ports import free_port
from holdfast.runtime.dapr import DaprHost, DaprHostClient
from holdfast.runtime.serialization import dump, load
from tests.dapr.actors import ACTORS
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from holdfast.local import Sidecar

APP_ID = "replicated"


class Replica:
    """An app and its daprd."""

    def __init__(self, sidecar: Sidecar, host: DaprHost, app: FastAPI) -> None:
        self.sidecar = sidecar
        self.host = host
        self.client = host.client
        self._app = app
        self._server: uvicorn.Server | None = None
        self._serving: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.sidecar.app_port}"

    async def start_app(self) -> None:
        assert self.sidecar.app_port is not None
        self._server = uvicorn.Server(
            uvicorn.Config(self._app, port=self.sidecar.app_port, log_config=None, access_log=False)
        )
        self._server.install_signal_handlers = lambda: None  # type: ignore[attr-defined,method-assign]
        self._serving = asyncio.create_task(self._server._serve())
        await eventually(lambda: self._server is not None and self._server.started)

    async def stop_app(self) -> None:
        if self._server is not None and self._serving is not None:
            self._server.should_exit = True
            await self._serving

    async def ready(self, within: float = 60.0) -> None:
        await self.waits_for("", within)

    async def waits_for(self, reason: str, within: float = 60.0) -> None:
        """Until the host says that it waits for this, or for nothing."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + within
        daprd = self.sidecar.process
        while reason not in (seen := await self.host.readiness()).reason or seen.ready is not (reason == ""):
            said = f"the host says: {seen.reason or 'ready'}; daprd {daprd.ending()}. {daprd.log_tail()}"
            assert clock() < deadline, f"after {within:g} s {said}"
            await asyncio.sleep(0.02)

    async def get(self, path: str) -> tuple[int, bytes]:
        """Gets a path from the app itself, past daprd."""
        async with aiohttp.ClientSession() as session, session.get(self.url + path) as answer:
            return answer.status, await answer.read()

    def add_health(self) -> asyncio.Event:
        """The path that daprd's health probes ask for; it answers well while the event is set."""
        healthy = asyncio.Event()
        healthy.set()

        @self._app.get("/healthz")
        async def healthz() -> Response:
            return Response(status_code=200 if healthy.is_set() else 503)

        return healthy

    async def call(self, actor_type: str, actor_id: str, method: str, data: Any = None) -> Any:
        return load(await self.client.invoke_method(actor_type, actor_id, method, dump(data)))


class Cluster:
    """Placement, scheduler and replicas of one app over one SQLite file."""

    def __init__(self, folder: Path) -> None:
        self.dapr = LocalDapr(folder, find_dapr())
        self.database = folder / "state.db"
        self._resources = folder / "resources"
        write_component("sqlite", self._resources, connection=str(self.database))
        self._replicas: list[Replica] = []

    async def add(
        self,
        *,
        actors: Sequence[type] = ACTORS,
        app_id: str = APP_ID,
        api_token: str | None = None,
        actor_secret: str | None = None,
        sidecar_environment: Mapping[str, str] | None = None,
        sidecar_arguments: Sequence[str] = (),
        serve: bool = True,
        **settings: Any,
    ) -> Replica:
        """A replica whose app and daprd are started; it may not be ready yet."""
        sidecar = await self.dapr.sidecar(
            app_id=app_id,
            app_port=free_port(),
            resources=self._resources,
            environment=sidecar_environment,
            arguments=sidecar_arguments,
        )
        client = DaprHostClient(sidecar.url, f"127.0.0.1:{sidecar.grpc_port}", api_token, actor_secret=actor_secret)

        @contextlib.asynccontextmanager
        async def lifespan(_: FastAPI) -> AsyncIterator[None]:
            for actor_class in actors:
                await host.register(actor_class)
            await host.start()
            yield
            await host.stop()

        app = FastAPI(lifespan=lifespan)
        host = DaprHost(app, client=client, **settings)
        replica = Replica(sidecar, host, app)
        self._replicas.append(replica)
        if serve:
            await replica.start_app()
        return replica

    async def __aenter__(self) -> Self:
        await self.dapr.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.gather(*(replica.sidecar.kill() for replica in self._replicas))
        for replica in self._replicas:
            await replica.stop_app()
        await self.dapr.kill()
