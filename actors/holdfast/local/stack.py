"""Runs placement, scheduler and any number of sidecars on loopback, with their own ports and data."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Self

from holdfast.local.configuration import write_configuration
from holdfast.local.health import answers_ok, read_json
from holdfast.local.ports import free_port
from holdfast.local.processes import ChildProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from holdfast.local.binaries import DaprBinaries

LOOPBACK = "127.0.0.1"

# Holdfast's limit of a request, plus the overhead of an actor's state.
MAX_BODY_SIZE = "32Mi"

_PLACEMENT_ID = "dapr-placement-0"
_SCHEDULER_ID = "dapr-scheduler-server-0"


class ControlPlaneService:
    """Placement or scheduler."""

    def __init__(self, process: ChildProcess, *, port: int, health_port: int) -> None:
        self.process = process
        self.port = port
        self._health_port = health_port

    @property
    def address(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    async def start(self) -> None:
        await self.process.start()
        await self.wait_ready()

    async def wait_ready(self) -> None:
        await self.process.wait_ready(answers_ok(f"http://{LOOPBACK}:{self._health_port}/healthz"))

    async def stop(self) -> None:
        await self.process.terminate()

    async def kill(self) -> None:
        """Kills the process, like `kill -9`."""
        await self.process.kill()

    async def restart(self) -> None:
        """Restarts it with the same ports and data. Returns when it is ready."""
        await self.stop()
        await self.start()


class Sidecar:
    """The daprd of one app."""

    def __init__(
        self,
        process: ChildProcess,
        *,
        app_id: str,
        app_port: int | None,
        http_port: int,
        grpc_port: int,
        configuration: Path,
        has_components: bool,
    ) -> None:
        self.process = process
        self.app_id = app_id
        self.app_port = app_port
        self.http_port = http_port
        self.grpc_port = grpc_port
        #: The configuration with which another daprd finds this app by its id.
        self.configuration = configuration
        self._has_components = has_components

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.http_port}"

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables of its app, as `dapr run` sets them."""
        return {
            "APP_ID": self.app_id,
            "DAPR_HTTP_PORT": str(self.http_port),
            "DAPR_GRPC_PORT": str(self.grpc_port),
            **({} if self.app_port is None else {"APP_PORT": str(self.app_port)}),
        }

    async def start(self) -> None:
        """Starts the process. daprd waits for its app, so start the app before calling `wait_ready`."""
        await self.process.start()

    async def wait_ready(self, *, timeout: float = 60.0) -> None:
        """Waits until daprd accepts calls; with an app, until its actors can be called."""
        await self.process.wait_ready(self._is_ready, timeout=timeout)

    async def metadata(self) -> dict[str, Any] | None:
        """Returns the response of `/v1.0/metadata`, or None without one."""
        answer = await read_json(f"{self.url}/v1.0/metadata")
        return answer if isinstance(answer, dict) else None

    async def stop(self) -> None:
        await self.process.terminate()

    async def kill(self) -> None:
        """Kills the process, like `kill -9`."""
        await self.process.kill()

    async def restart(self) -> None:
        """Restarts it with the same ports. Does not wait until it is ready."""
        await self.stop()
        await self.start()

    async def _is_ready(self) -> bool:
        if not await answers_ok(f"{self.url}/v1.0/healthz/outbound")():
            return False
        metadata = await self.metadata() or {}
        # daprd 1.18.2 reports healthy for a moment after a component failed, just before it exits.
        if self._has_components and not metadata.get("components"):
            return False
        return self.app_port is None or bool(metadata.get("actorRuntime", {}).get("hostReady"))


class LocalDapr:
    """Dapr's control plane and sidecars on this machine.

    `async with LocalDapr(folder, binaries) as dapr: sidecar = await dapr.sidecar(app_port=…, resources=…)`
    Data, settings and logs are in `folder`. `on_line` is called with the name of a process and each line it writes.
    """

    def __init__(
        self,
        folder: Path,
        binaries: DaprBinaries,
        *,
        on_line: Callable[[str, str], None] | None = None,
        log_level: str = "info",
    ) -> None:
        self.folder = folder.absolute()
        self.sidecars: list[Sidecar] = []
        # The address for calls to an app: that of its first sidecar.
        self._addresses: dict[str, str] = {}
        self._binaries = binaries
        self._on_line = on_line
        self._log_level = log_level
        self.placement = self._placement()
        self.scheduler = self._scheduler()

    async def start(self) -> None:
        """Starts placement and scheduler, and returns when they are ready."""
        try:
            async with asyncio.TaskGroup() as together:
                together.create_task(self.placement.start())
                together.create_task(self.scheduler.start())
        except BaseException:
            await self.kill()
            raise

    async def sidecar(
        self,
        *,
        app_id: str = "holdfast",
        app_port: int | None = None,
        resources: Path | None = None,
        environment: Mapping[str, str] | None = None,
        arguments: Sequence[str] = (),
    ) -> Sidecar:
        """Starts another daprd; call `wait_ready` once its app is started.

        `resources` is a folder with one actor state store. `arguments` are added to daprd's command line. It can call
        its own app, and the apps whose sidecars were started before it, by their app ids.
        """
        name = f"daprd-{len(self.sidecars) + 1}" if self.sidecars else "daprd"
        http_port, grpc_port, internal_port = free_port(), free_port(), free_port()
        self._addresses.setdefault(app_id, f"{LOOPBACK}:{internal_port}")
        configuration = self.folder / f"configuration{name.removeprefix('daprd')}.yaml"
        # fmt: off
        command: list[str | Path] = [
            self._binaries.daprd,
            "--app-id", app_id,
            "--dapr-http-port", str(http_port),
            "--dapr-grpc-port", str(grpc_port),
            "--dapr-internal-grpc-port", str(internal_port),
            "--dapr-internal-grpc-listen-address", LOOPBACK,
            "--dapr-listen-addresses", LOOPBACK,
            "--metrics-listen-address", LOOPBACK,
            "--metrics-port", str(free_port()),
            "--placement-host-address", self.placement.address,
            "--scheduler-host-address", self.scheduler.address,
            "--max-body-size", MAX_BODY_SIZE,
            "--config", write_configuration(configuration, self._addresses),
            *(("--app-port", str(app_port)) if app_port is not None else ()),
            *(("--resources-path", resources) if resources is not None else ()),
            *arguments,
        ]
        # fmt: on
        process = self._process(name, command, {"DAPR_HOST_IP": LOOPBACK, **(environment or {})})
        sidecar = Sidecar(
            process,
            app_id=app_id,
            app_port=app_port,
            http_port=http_port,
            grpc_port=grpc_port,
            configuration=configuration,
            has_components=resources is not None,
        )
        self.sidecars.append(sidecar)
        await sidecar.start()
        return sidecar

    async def stop(self) -> None:
        """Stops everything, sidecars first, so that none logs the loss of its control plane."""
        await _all(sidecar.stop() for sidecar in self.sidecars)
        await _all([self.placement.stop(), self.scheduler.stop()])

    async def kill(self) -> None:
        await _all([self.placement.kill(), self.scheduler.kill(), *(sidecar.kill() for sidecar in self.sidecars)])

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def _placement(self) -> ControlPlaneService:
        port, health_port = free_port(), free_port()
        # fmt: off
        command: list[str | Path] = [
            self._binaries.placement,
            "--id", _PLACEMENT_ID,
            # A free consensus port: the default would collide with other placements on this machine.
            "--initial-cluster", f"{_PLACEMENT_ID}={LOOPBACK}:{free_port()}",
            "--port", str(port),
            "--listen-address", LOOPBACK,
            "--healthz-port", str(health_port),
            "--enable-metrics=false",
        ]
        # fmt: on
        return ControlPlaneService(self._process("placement", command), port=port, health_port=health_port)

    def _scheduler(self) -> ControlPlaneService:
        port, health_port, peer_port = free_port(), free_port(), free_port()
        # fmt: off
        command: list[str | Path] = [
            self._binaries.scheduler,
            "--id", _SCHEDULER_ID,
            "--port", str(port),
            "--listen-address", LOOPBACK,
            "--healthz-port", str(health_port),
            "--enable-metrics=false",
            "--etcd-data-dir", self.folder / "scheduler",
            "--etcd-initial-cluster", f"{_SCHEDULER_ID}=http://{LOOPBACK}:{peer_port}",
            "--etcd-client-port", str(free_port()),
            "--etcd-client-listen-address", LOOPBACK,
        ]
        # fmt: on
        return ControlPlaneService(self._process("scheduler", command), port=port, health_port=health_port)

    def _process(
        self, name: str, command: Sequence[str | Path], environment: Mapping[str, str] | None = None
    ) -> ChildProcess:
        on_line = self._on_line
        return ChildProcess(
            name,
            [*command, "--log-level", self._log_level],
            log=self.folder / f"{name}.log",
            environment=environment,
            on_line=None if on_line is None else lambda line: on_line(name, line),
        )


async def _all(actions: Iterable[Coroutine[Any, Any, None]]) -> None:
    async with asyncio.TaskGroup() as together:
        for action in actions:
            together.create_task(action)
