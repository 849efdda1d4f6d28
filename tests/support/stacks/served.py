"""Stacks that are processes of their own and are called over Dapr's actor API."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
from abc import abstractmethod
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from holdfast.local import ChildProcess
from holdfast.local.ports import free_port
from tests.support.checkout import MODULE_PATH
from tests.support.stacks.base import ABSENT, CallFailed, Stack

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Mapping

    from multidict import CIMultiDictProxy

APP_ID = "conformance"
SECONDS_FOR_A_TEST = 240

#: What daprd writes before the answer of the app itself.
_FROM_THE_APP = "error from actor service: (500) "


class ServedStack(Stack):
    apps: ClassVar[tuple[str, ...]] = ("tests.support.stacks.app:app",)
    #: What its holdfast.toml says.
    settings: ClassVar[str] = ""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.app_port = free_port()
        self._runner = asyncio.Runner()
        self._session: aiohttp.ClientSession | None = None
        try:
            self._runner.run(self._start())
        except BaseException:
            self.close()
            raise

    @property
    @abstractmethod
    def api_port(self) -> int:
        """Where the actor API is."""

    @property
    @abstractmethod
    def grpc_port(self) -> int:
        """Where the actor API is over gRPC."""

    @property
    @abstractmethod
    def processes(self) -> list[ChildProcess]:
        """The processes whose logs explain a failure."""

    @abstractmethod
    async def stop_app(self) -> int:
        """Asks the process that runs the actors to end, as SIGTERM does, and gives its exit code."""

    async def _start(self) -> None:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=30),
        )
        await self.start_all()

    async def _stop(self) -> None:
        if self._session:
            await self._session.close()
        await self.kill_all()

    def run(self, body: Coroutine[Any, Any, None]) -> None:
        self._runner.run(asyncio.wait_for(body, SECONDS_FOR_A_TEST))

    def close(self) -> None:
        self._runner.run(self._stop())
        self._runner.close()

    async def request(
        self,
        verb: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, bytes]:
        """Status and body of a request to the actor API; the path is sent as it is."""
        assert self._session is not None
        url = URL(f"http://127.0.0.1:{self.api_port}/v1.0/actors/{path}", encoded=True)
        try:
            async with self._session.request(verb, url, data=body, headers=headers) as response:
                return response.status, await response.read()
        except (aiohttp.ClientError, ConnectionError, TimeoutError) as error:
            raise CallFailed("UNREACHABLE", repr(error)) from error

    async def ask(
        self,
        verb: str,
        path: str,
        body: bytes | None = None,
        headers: Iterable[tuple[str, str]] = (),
    ) -> tuple[int, CIMultiDictProxy[str], bytes]:
        """Status, headers and body of a request to the sidecar's port; the path is sent as it is."""
        assert self._session is not None
        url = URL(f"http://127.0.0.1:{self.api_port}{path}", encoded=True)
        request = self._session.request(
            verb, url, data=body, headers=CIMultiDict(headers), skip_auto_headers=["Content-Type"]
        )
        async with request as response:
            return response.status, response.headers, await response.read()

    async def call(self, actor_type: str, actor_id: str, method: str, data: Any = ABSENT) -> Any:
        body = None if data is ABSENT else json.dumps(data).encode()
        path = f"{actor_type}/{encoded(actor_id)}/method/{method}"
        status, answer = await self.request("POST", path, body)
        if status == 200 and not answer:
            # daprd 1.18.2 passes on an answer whose body the app did not live to send.
            raise CallFailed("UNREACHABLE", "the answer broke off")
        if status == 200:
            return json.loads(answer)
        raise _failure(status, answer)

    async def takes_calls(self) -> bool:
        try:
            return bool(await self.call("Keeper", "ready", "echo", "ready") == "ready")
        except CallFailed:
            return False

    def _serve(
        self, *options: str, environment: Mapping[str, str] | None = None, name: str = "app", port: int | None = None
    ) -> ChildProcess:
        command: list[str | Path] = [
            *(Path(sys.executable).with_name("holdfast"), "serve", *self.apps),
            *("--port", str(port or self.app_port), "--idle-timeout", str(self.idle_timeout), *options),
        ]
        log = self.folder / f"{name}.log"
        if self.settings:
            (self.folder / "holdfast.toml").write_text(self.settings)
        # One installation, also when it has several processes.
        environment = {
            "PYTHONPATH": MODULE_PATH,
            "HOLDFAST_ACTOR_SECRET": "that of all processes",
            **(environment or {}),
        }
        return ChildProcess(name, command, log=log, folder=self.folder, environment=environment)


class EmbeddedStack(ServedStack):
    name = "embedded"

    def __init__(self, folder: Path) -> None:
        self._app: ChildProcess | None = None
        self._grpc_port = free_port()
        super().__init__(folder)

    @property
    def api_port(self) -> int:
        return self.app_port

    @property
    def grpc_port(self) -> int:
        return self._grpc_port

    @property
    def processes(self) -> list[ChildProcess]:
        return [self._app] if self._app else []

    async def stop_app(self) -> int:
        return await stopped(self._app)

    async def kill_app(self) -> None:
        if self._app:
            await self._app.kill()

    async def start_app(self) -> None:
        data = str(self.folder / "data")
        self._app = self._app or self._serve(
            *("--host", "embedded", "--data", data, "--app-id", APP_ID, "--grpc-port", str(self._grpc_port))
        )
        await self._app.start()
        await self._app.wait_ready(self.takes_calls)

    async def kill_all(self) -> None:
        await self.kill_app()

    async def start_all(self) -> None:
        await self.start_app()

    async def stored(self, actor_type: str, actor_id: str) -> dict[str, Any]:
        return stored_in(self._database, actor_type, actor_id)

    async def stored_keys(self) -> set[str]:
        return set(rows(self._database))

    @property
    def _database(self) -> Path:
        [database] = (self.folder / "data").glob("*.db")
        return database


async def stopped(process: ChildProcess | None) -> int:
    assert process is not None
    await process.terminate()
    assert process.returncode is not None
    return process.returncode


def rows(database: Path) -> dict[str, str]:
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        return dict(connection.execute("SELECT key, value FROM state").fetchall())


def stored_in(database: Path, actor_type: str, actor_id: str) -> dict[str, Any]:
    return of_actor(rows(database), actor_type, actor_id)


def of_actor(values: Mapping[str, str], actor_type: str, actor_id: str) -> dict[str, Any]:
    prefix = f"{APP_ID}||{actor_type}||{actor_id}||"
    return {key.removeprefix(prefix): json.loads(value) for key, value in values.items() if key.startswith(prefix)}


def encoded(segment: str) -> str:
    """Returns a path segment with all that can be escaped, dots too, so that no client or proxy resolves them."""
    return quote(segment, safe="").replace(".", "%2E")


def _failure(status: int, body: bytes) -> CallFailed:
    answer = json.loads(body)
    _, wrapped, inner = answer["message"].partition(_FROM_THE_APP)
    told = json.loads(inner) if wrapped else answer
    code, message = told.pop("errorCode"), told.pop("message")
    return CallFailed(code, message, told)
