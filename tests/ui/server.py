"""A Holdfast server as a process of its own, for a browser to look at."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Self

import aiohttp

from tests.support.checkout import ROOT
from tests.support.server import Server as ServerProcess

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

APPS = ("examples.counter:app", "examples.orders:app", "tests.ui.workshop:app")


class Server(ServerProcess):
    """The embedded host with example apps; keeps its port and its data when it is started again."""

    def __init__(
        self,
        folder: Path,
        *options: str,
        sent_token: str | None = None,
        apps: Sequence[str] = APPS,
        imports: Path = ROOT,
    ) -> None:
        super().__init__(folder, *apps, *options, imports=imports)
        self.token = sent_token
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
        """Calls REST, and returns the body of the answer, also of a refusal."""
        assert self._session is not None
        data = None if body is None else json.dumps(body)
        async with self._session.request(method, f"{self.url}{path}", data=data) as answer:
            found: dict[str, Any] = await answer.json(content_type=None)
            return found

    async def push(self, queue: str, *items: Any, priority: int = 0) -> list[str]:
        entries = [{"item": item, "priority": priority} for item in items]
        ids: list[str] = (await self.call("POST", f"/queue/{queue}/push", {"items": entries}))["ids"]
        return ids

    async def dead_letter(self, queue: str, item: Any, reason: str) -> None:
        """Pushes an item and makes it a dead letter; the queue is empty before."""
        await self.push(queue, item)
        held = await self.call("POST", f"/queue/{queue}/pop?require_ack=true")
        await self.call("POST", f"/queue/{queue}/dead-letter", {"lock_id": held["lock_id"], "reason": reason})

    async def depth(self, queue: str) -> int:
        count: int = (await self.call("GET", f"/queue/{queue}"))["count"]
        return count

    async def start_one(self, name: str, instance: str, given: Any) -> None:
        """Starts an instance."""
        body = {"instance_id": instance, "input": given}
        assert (await self.call("POST", f"/orchestrations/{name}/start", body))["created"]

    async def order(self, instance: str, *lines: str, total: float = 50, customer: str = "ann") -> None:
        """Starts an order of the example: one above 100 waits for an approval."""
        await self.start_one("order", instance, {"customer": customer, "lines": lines, "total": total})

    async def ended(self, instance: str) -> dict[str, Any]:
        return await self.call("GET", f"/orchestrations/{instance}/wait?timeout_seconds=20")
