"""Queues of very many partitions: what is asked of all of them is done bit by bit."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from holdfast import Client
from tests.support.server import Server
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

# One worker starts what they share.
pytestmark = pytest.mark.xdist_group("attacks-partitions")

ATTACKER = {"Holdfast-Tenant": "attacker"}
HONEST = {"Holdfast-Tenant": "honest"}
QUEUES = [f"wide-{number:02}" for number in range(6)]


@pytest.fixture(scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    async with Server(tmp_path_factory.mktemp("partitions")) as running:
        async with aiohttp.ClientSession(running.url) as session:
            for queue in QUEUES:
                await ask(session, "PUT", f"/queue/{queue}/config", {"partitions": 256})
            for _ in range(3):
                await ask(session, "POST", f"/queue/{QUEUES[-1]}/push", {"item": 1})

            async def listed() -> bool:
                return sum(map(len, await pages(session))) == len(QUEUES)

            await eventually(listed, what="all queues are listed", within=60)
        yield running


async def ask(session: aiohttp.ClientSession, verb: str, path: str, body: Any = None, **headers: str) -> Any:
    async with session.request(verb, path, json=body, headers=headers or ATTACKER) as answer:
        assert answer.status == 200, await answer.text()
        return await answer.json()


async def pages(session: aiohttp.ClientSession) -> list[list[Any]]:
    found = []
    cursor = ""
    while True:
        page = await ask(session, "GET", f"/queues?limit=100{cursor}")
        found.append(page["queues"])
        if "next_cursor" not in page:
            return found
        cursor = f"&cursor={page['next_cursor']}"


async def test_a_page_of_queues_ends_when_they_have_many_partitions(server: Server) -> None:
    async with aiohttp.ClientSession(server.url) as session:
        # All of them changed, so that nothing is remembered.
        await asyncio.gather(*(ask(session, "PUT", f"/queue/{name}/config", {"max_locks": 2}) for name in QUEUES))
        first = await ask(session, "GET", "/queues?limit=100")
        assert 0 < len(first["queues"]) < len(QUEUES)
        found = [queue for page in await pages(session) for queue in page]
    assert [queue["queue"] for queue in found] == QUEUES
    assert [queue["count"] for queue in found] == [0] * (len(QUEUES) - 1) + [3]


async def test_the_client_lists_all_of_them(server: Server) -> None:
    async with Client(server.url, tenant="attacker") as client:
        assert set(QUEUES) <= {queue.queue async for queue in client.queues()}


async def test_many_who_ask_at_once_are_refused_in_part_and_take_nothing_from_others(server: Server) -> None:
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(server.url, connector=connector) as session:

        async def attack(path: str) -> int:
            async with session.get(path, headers=ATTACKER) as answer:
                await answer.read()
                return answer.status

        await ask(session, "PUT", "/queue/narrow/config", {"partitions": 32})
        attacks = asyncio.gather(*(attack("/queue/narrow") for _ in range(600)))
        pushed = [await ask(session, "POST", "/queue/orders/push", {"item": number}, **HONEST) for number in range(20)]
        assert all(answer["success"] for answer in pushed)
        assert set(await attacks) == {200, 429}
        taken = await ask(session, "POST", "/queue/orders/pop?count=100", **HONEST)
    assert taken["items"] == list(range(20))
