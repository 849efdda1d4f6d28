"""A Holdfast server as a process of its own, for a browser to look at."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Self

import aiohttp

from tests.support.checkout import ROOT
from tests.support.server import Server as ServerProcess

if TYPE_CHECKING:
    from pathlib import Path


class Server(ServerProcess):
    """The embedded host with an example app; keeps its port and its data when it is started again."""

    def __init__(self, folder: Path, *, token: str | None = None, app: str = "examples.counter:app") -> None:
        super().__init__(folder, app, *(("--token", token) if token else ()), imports=ROOT)
        self.token = token
        self.database = folder / "data" / "holdfast.db"
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

    async def __aexit__(self, *error: object) -> None:
        await self._close()

    async def _close(self) -> None:
        await self.kill()
        if self._session:
            await self._session.close()

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
