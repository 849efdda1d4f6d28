"""Large payloads in many queues, instances and records: they lie in the store, and do not stay in memory."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from benchmarks.tenants import peak_memory
from tests.support.checkout import ROOT
from tests.support.server import Server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

# One worker starts what they share.
pytestmark = pytest.mark.xdist_group("attacks-payloads")

MEBIBYTE = 1024 * 1024
#: Of each kind.
MANY = 100
LARGE = "x" * (MEBIBYTE - 1000)
#: A third of a GiB; all payloads together have half of one.
MOST_MEMORY = 350 * MEBIBYTE


@pytest.fixture(scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    folder = tmp_path_factory.mktemp("payloads")
    async with Server(folder, "benchmarks.attacked:app", imports=ROOT) as running:
        yield running


async def test_they_do_not_fill_the_memory(server: Server) -> None:
    async with aiohttp.ClientSession(server.url) as session:

        async def ask(verb: str, path: str, body: Any = None) -> Any:
            async with session.request(verb, path, json=body) as answer:
                text = await answer.read()
                assert answer.status in (200, 202), text[:500]
                return json.loads(text)

        async def fill(number: int) -> None:
            await ask("POST", f"/queue/large-{number}/push", {"item": LARGE})
            await ask("POST", "/queue/priorities/push", {"item": LARGE, "priority": number})
            await ask("POST", "/orchestrations/idle/start", {"instance_id": f"i-{number}", "input": LARGE})
            begun = await ask("POST", f"/idempotency/~/{number}/begin")
            await ask("POST", f"/idempotency/~/{number}/commit", {"owner": begun["owner"], "result": LARGE})
            await ask("PUT", f"/schedules/s-{number}", {"orchestration": "echo", "cron": "0 0 1 1 *", "input": LARGE})

        for first in range(0, MANY, 5):
            await asyncio.gather(*(fill(number) for number in range(first, first + 5)))
        assert peak_memory(server.pid) < MOST_MEMORY
        # All of it is there.
        for number in (0, MANY - 1):
            for queue in (f"large-{number}", "priorities"):
                assert (await ask("POST", f"/queue/{queue}/pop"))["items"] == [LARGE]
            assert (await ask("GET", f"/orchestrations/i-{number}"))["input"] == LARGE
            assert (await ask("GET", f"/idempotency/~/{number}"))["result"] == LARGE
            assert (await ask("GET", f"/schedules/s-{number}"))["input"] == LARGE
