"""The measured stacks: the same app on the embedded host and beside a real daprd over SQLite and PostgreSQL.

Every stack is a server of its own (``holdfast serve`` in its own process, with daprd, placement, scheduler and
database of its own where it has them), so that the load generator and the subject never share an interpreter.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar

from benchmarks.actors import TARGET
from benchmarks.load import CallFailed, call_once
from holdfast.local import ChildProcess, LocalDapr, LocalPostgres, find_dapr, write_component
from holdfast.local.health import answers_ok
from holdfast.local.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

_ROOT = Path(__file__).parents[1]
_APPS = ("benchmarks.actors:app", "benchmarks.seed_layout:app", "benchmarks.orchestrated:app")
_LOOPBACK = "127.0.0.1"
_SECONDS_TO_START = 90.0


@dataclass(frozen=True)
class Stack:
    """A running subject: where its actor API is, and the process in which its actors run."""

    name: str
    port: int
    app: ChildProcess
    address: str = _LOOPBACK
    #: Where its REST interface is, when that is not where its actor API is.
    gateway_port: int | None = None
    #: Its data folder, on the embedded host.
    data: Path | None = None

    def gateway(self) -> Stack:
        """The same stack, called over REST."""
        return self if self.gateway_port is None else replace(self, port=self.gateway_port)


@asynccontextmanager
async def embedded(folder: Path, *, idle_timeout: float = 60.0, retention: float | None = None) -> AsyncIterator[Stack]:
    port = free_port()
    options = ["--host", "embedded", "--data", str(folder / "data"), "--idle-timeout", str(idle_timeout)]
    if retention is not None:
        options += ["--retention", str(retention)]
    async with _serve(folder, port, *options) as app:
        stack = Stack("embedded", port, app, data=folder / "data")
        await _ready(stack)
        yield stack


@asynccontextmanager
async def dapr_sqlite(folder: Path) -> AsyncIterator[Stack]:
    resources = folder / "resources"
    write_component("sqlite", resources, connection=str(folder / "state.db"))
    async with _beside_daprd("daprd + SQLite", folder, resources) as stack:
        yield stack


@asynccontextmanager
async def dapr_postgresql(folder: Path) -> AsyncIterator[Stack]:
    resources = folder / "resources"
    async with LocalPostgres(folder / "postgresql") as postgres:
        write_component("postgresql-v2", resources, connection=await postgres.create_database("benchmarks"))
        async with _beside_daprd("daprd + PostgreSQL", folder, resources) as stack:
            yield stack


Subject = TypeVar("Subject")
Start = Callable[[Path], AbstractAsyncContextManager[Subject]]


class Stacks:
    """Starts each stack when the first benchmark asks for it, and ends all of them together."""

    def __init__(self) -> None:
        self._exits = AsyncExitStack()
        self._running: dict[Start[Stack], Stack] = {}

    async def get(self, *starts: Start[Stack]) -> list[Stack]:
        for start in starts:
            if start not in self._running:
                self._running[start] = await self.start(start)
        return [self._running[start] for start in starts]

    async def start(self, start: Start[Subject]) -> Subject:
        """Starts another stack, for a benchmark that needs a fresh one."""
        folder = self._exits.enter_context(
            tempfile.TemporaryDirectory(prefix="holdfast-bench-", ignore_cleanup_errors=True)
        )
        return await self._exits.enter_async_context(start(Path(folder)))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._exits.aclose()


@asynccontextmanager
async def _beside_daprd(name: str, folder: Path, resources: Path) -> AsyncIterator[Stack]:
    # A control plane for each: placement would spread one actor type over the apps of both stacks.
    async with LocalDapr(folder / "dapr", find_dapr()) as dapr:
        port = free_port()
        sidecar = await dapr.sidecar(app_port=port, resources=resources)
        async with _serve(folder, port, "--host", "dapr", environment=sidecar.environment) as app:
            await sidecar.wait_ready(timeout=_SECONDS_TO_START)
            stack = Stack(name, sidecar.http_port, app, gateway_port=port)
            await _ready(stack)
            yield stack


@asynccontextmanager
async def guarded(folder: Path, *, app: str, tokens: Callable[[Path], None]) -> AsyncIterator[Stack]:
    """An embedded server of one app that asks for tokens, with which a file is filled."""
    port = free_port()
    tokens(folder / "tokens.toml")
    options = ("--data", str(folder / "data"), "--tokens", str(folder / "tokens.toml"))
    async with _serve(folder, port, *options, apps=(app,)) as process:
        await process.wait_ready(answers_ok(f"http://{_LOOPBACK}:{port}/readyz"), timeout=_SECONDS_TO_START)
        yield Stack("embedded", port, process)


def _serve(
    folder: Path,
    port: int,
    *options: str,
    environment: Mapping[str, str] | None = None,
    apps: Sequence[str] = _APPS,
) -> ChildProcess:
    command = [sys.executable, "-c", "from holdfast.cli.main import main; main()", "serve", *apps]
    return ChildProcess(
        "holdfast serve",
        [*command, "--port", str(port), "--log-level", "warning", *options],
        log=folder / "app.log",
        # Its own folder, where no holdfast.toml changes what is measured.
        folder=folder,
        environment={"PYTHONPATH": os.pathsep.join([str(_ROOT), *sys.path]), **(environment or {})},
    )


async def _ready(stack: Stack) -> None:
    async def answers() -> bool:
        try:
            await call_once(stack, TARGET, "ready", "Nothing")
        except (CallFailed, OSError, TimeoutError):
            return False
        return True

    await stack.app.wait_ready(answers, timeout=_SECONDS_TO_START)
