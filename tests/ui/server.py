"""A Holdfast server as a process of its own, for a browser to look at."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import aiohttp

from holdfast.local import ChildProcess
from holdfast.local.ports import free_port
from tests.support.checkout import ROOT

if TYPE_CHECKING:
    from types import TracebackType


class Server:
    """The embedded host with an example app; keeps its port and its data when it is started again."""

    def __init__(self, folder: Path, *, token: str | None = None, app: str = "examples.counter:app") -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.token = token
        self.database = folder / "data" / "holdfast.db"
        command: list[str | Path] = [
            *(Path(sys.executable).with_name("holdfast"), "serve", app),
            *("--host", "embedded", "--data", folder / "data", "--port", str(self.port)),
        ]
        environment = {"HOLDFAST_TOKEN": token} if token else {}
        self._process = ChildProcess("server", command, log=folder / "server.log", folder=ROOT, environment=environment)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        self._session = aiohttp.ClientSession(headers=headers, timeout=aiohttp.ClientTimeout(total=30))
        try:
            await self.start()
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close()

    async def _close(self) -> None:
        await self._process.kill()
        if self._session:
            await self._session.close()

    async def start(self) -> None:
        await self._process.start()
        await self._process.wait_ready(self._ready)

    async def kill(self) -> None:
        await self._process.kill()

    async def _ready(self) -> bool:
        assert self._session is not None
        try:
            async with self._session.get(f"{self.url}/readyz") as answer:
                return answer.status == 200
        except aiohttp.ClientError:
            return False

    async def call(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """What REST answers, refusals too."""
        assert self._session is not None
        data = None if body is None else json.dumps(body)
        async with self._session.request(method, f"{self.url}{path}", data=data) as answer:
            found: dict[str, Any] = await answer.json(content_type=None)
            return found

    async def push(self, queue: str, *items: Any, priority: int = 0) -> list[str]:
        entries = [{"item": item, "priority": priority} for item in items]
        ids: list[str] = (await self.call("POST", f"/queue/{queue}/push", {"items": entries}))["ids"]
        return ids

    async def depth(self, queue: str) -> int:
        count: int = (await self.call("GET", f"/queue/{queue}"))["count"]
        return count
