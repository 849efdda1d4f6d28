"""A shop that has been at work for a while: queues, locks, dead letters and orders in every state, over REST."""

from __future__ import annotations

import asyncio
import json
import random
from typing import TYPE_CHECKING, Any

import aiohttp

from tests.support.checkout import ROOT
from tests.support.server import Server
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

APPS = ("examples.orders:app", "tests.spark.pipeline.catalogue:app")
HTML = "<script>window.stolen = 1</script><b onclick=alert(1)>bold</b>"
CUSTOMERS = ("acme", "globex", "initech", "umbrella")
GOODS = ("anchor", "bollard", "cleat", "fender", "halyard", "lantern", "oar", "rope", "sextant")
PRIORITIES = (0, 1, 2, 5)


class Shop:
    """Does what it does from a seed; ``scale`` is how many orders come at once."""

    def __init__(self, session: aiohttp.ClientSession, url: str, scale: int) -> None:
        self._session = session
        self._url = url
        self._scale = scale
        self._random = random.Random(5)
        self.orders = 0

    async def open(self) -> None:
        await self.call("PUT", "/queue/webhooks/config", {"max_deliveries": 3, "max_locks": 8})
        await self.call("PUT", "/queue/emails/config", {"max_locks": 50, "partitions": 2})
        await self.work()

    async def work(self) -> None:
        """Again and again: each time there is more."""
        scale = self._scale
        await self._push("emails", 8 * scale)
        await self._push("search-index", 3 * scale)
        await self._push("webhooks", 2 * scale)
        await self._push("invoices", scale, delay_seconds=3600)
        await self._give_back("webhooks", 3, max(1, scale // 3), "410 Gone from hooks.example.com")
        await self._give_back("webhooks", 1, max(2, scale // 2), "the certificate has expired")
        await self._give_back("emails", 2, 2, "mailbox full")
        refused = await self._lock("emails", 1, 60)
        await self.call("POST", "/queue/emails/dead-letter", refused | {"reason": f"no such address: {HTML}"})
        for count, ttl in ((3, 240), (2, 120), (1, 300)):
            await self._lock("emails", count, ttl)
        await self._take_orders()
        await eventually(self._letters_have_arrived, what="the dead letters are where they belong")

    async def has_gone_on(self, since: int) -> bool:
        """Returns whether more orders came than ``since``, and the import after them, which retries, has begun."""
        if self.orders < since + self._scale:
            return False
        async with self._session.get(f"{self._url}/orchestrations/import-{self.orders}-5") as answer:
            return answer.status == 200

    async def _take_orders(self) -> None:
        ending = []
        for _ in range(self._scale):
            self.orders += 1
            name, lines = f"order-{self.orders}", self._random.sample(GOODS, self._random.randint(1, 4))
            total = 400.0 if self.orders % 3 == 0 else 40.0
            if self.orders % 4 == 0:
                lines.append("kedge")
            order = {"customer": self._random.choice(CUSTOMERS), "lines": lines, "total": total}
            await self._start("order", name, order)
            if total < 100:
                ending.append(name)
            elif self.orders % 2:
                await eventually(lambda name=name: self._waits(name), what="it waits for approval")  # type: ignore[misc]
                await self.call("POST", f"/orchestrations/{name}/events/approved", {"by": "ann"})
                ending.append(name)
        for pages in (3, 5):
            ending.append(f"import-{self.orders}-{pages}")
            await self._start("import_catalogue", ending[-1], pages)
        await self._start("order", f"cancelled-{self.orders}", {"customer": HTML, "lines": ["oar"], "total": 999})
        await self.call("POST", f"/orchestrations/cancelled-{self.orders}/cancel", {"reason": HTML})
        await asyncio.gather(*(self.call("GET", f"/orchestrations/{name}/wait?timeout_seconds=60") for name in ending))

    async def _start(self, name: str, instance_id: str, given: Any) -> None:
        await self.call("POST", f"/orchestrations/{name}/start", {"instance_id": instance_id, "input": given})

    async def _waits(self, instance_id: str) -> bool:
        return bool((await self.call("GET", f"/orchestrations/{instance_id}"))["custom_status"] == "waits for approval")

    async def _letters_have_arrived(self) -> bool:
        stats = [await self.call("GET", f"/queue/{queue}") for queue in ("emails", "webhooks")]
        return all(found["dead_letters"] == found["counters"]["dead_lettered"] for found in stats)

    async def _push(self, queue: str, most: int, **more: Any) -> None:
        items = [
            {"item": self._item(), "priority": priority, **more}
            for priority in PRIORITIES
            for _ in range(self._random.randint(1, most))
        ]
        await self.call("POST", f"/queue/{queue}/push", {"items": items})

    async def _give_back(self, queue: str, times: int, count: int, error: str) -> None:
        for _ in range(times):
            await self.call("POST", f"/queue/{queue}/abandon", await self._lock(queue, count, 60) | {"error": error})

    async def _lock(self, queue: str, count: int, ttl: int) -> dict[str, Any]:
        held = await self.call("POST", f"/queue/{queue}/pop?require_ack=true&count={count}&ttl_seconds={ttl}")
        return {"lock_id": held["lock_id"]}

    async def call(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        data = None if body is None else json.dumps(body)
        async with self._session.request(method, f"{self._url}{path}", data=data) as answer:
            found: dict[str, Any] = await answer.json(content_type=None)
            assert answer.status < 300, found
            return found

    def _item(self) -> dict[str, Any]:
        return {
            "order": f"A-{self._random.randint(10000, 99999)}",
            "customer": self._random.choice(CUSTOMERS),
            "total": round(self._random.uniform(5, 400), 2),
        }


async def serve(folder: Path, scale: int) -> AsyncIterator[Shop]:
    """A server in this folder, and the shop that works on it."""
    async with (
        Server(folder, *APPS, imports=ROOT) as server,
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=90)) as session,
    ):
        yield Shop(session, server.url, scale)


def store_url(folder: Path) -> str:
    return f"sqlite://{folder / 'data' / 'holdfast.db'}"
