"""Large bodies on many connections at once: a tenant has so many of them in memory, and the others are served."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import aiohttp
import pytest

from benchmarks.tenants import peak_memory
from tests.support.server import Server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

# One worker starts what they share.
pytestmark = pytest.mark.xdist_group("attacks-bodies")

MEBIBYTE = 1024 * 1024
MOST_MEMORY = 500 * MEBIBYTE
CONNECTIONS = 80
ATTACKER = {"Holdfast-Tenant": "attacker"}
HONEST = {"Holdfast-Tenant": "honest"}

#: As large as a push may be; it is refused when all of it was received.
UNKNOWN_KEYS = b'{"item": 1' + b',"key": 1' * 1_700_000 + b"}"
#: As large as other calls may be; what it says takes several times its size in memory.
WRONG_IDS = b'{"ids": [' + b",".join([b"1.5"] * 300_000) + b"]}"


@pytest.fixture(scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    async with Server(tmp_path_factory.mktemp("bodies")) as running:
        yield running


@pytest.fixture
async def session(server: Server) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(server.url, connector=aiohttp.TCPConnector(limit=0)) as session:
        yield session


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [("/queue/q/push", UNKNOWN_KEYS, 413), ("/queue/q/complete", WRONG_IDS, 400)],
    ids=["as large as a push may be", "as large as other calls may be"],
)
async def test_they_do_not_fill_the_memory_nor_keep_others_waiting(
    server: Server, session: aiohttp.ClientSession, path: str, body: bytes, status: int
) -> None:
    async def attack() -> int:
        async with session.post(path, data=body, headers=ATTACKER) as answer:
            await answer.read()
            return answer.status

    async def work() -> list[int]:
        statuses = []
        for number in range(5):
            async with session.post("/queue/orders/push", json={"item": number}, headers=HONEST) as answer:
                statuses.append(answer.status)
        return statuses

    assert len(body) <= 16 * MEBIBYTE
    attacks = asyncio.gather(*(attack() for _ in range(CONNECTIONS)))
    assert await work() == [200] * 5
    assert set(await attacks) == {status}
    assert peak_memory(server.pid) < MOST_MEMORY


async def test_more_than_may_wait_are_refused(session: aiohttp.ClientSession) -> None:
    """The requests send the beginning of large bodies. They use up only the room of their own tenant."""
    announced = {"Content-Length": str(16 * MEBIBYTE), **ATTACKER}
    slow = asyncio.Event()

    async def beginning() -> AsyncIterator[bytes]:
        yield b'{"item": "'
        await slow.wait()
        yield b"x" * (16 * MEBIBYTE)

    async def attack() -> int:
        async with session.post("/queue/q/push", data=beginning(), headers=announced) as answer:
            return answer.status

    # Four have room, 256 may wait.
    attacks = [asyncio.create_task(attack()) for _ in range(300)]
    done, _ = await asyncio.wait(attacks, return_when=asyncio.FIRST_COMPLETED)
    assert {task.result() for task in done} == {429}
    large = {"item": "x" * 100_000}
    async with session.post("/queue/q/push", json=large, headers=HONEST) as answer:
        assert answer.status == 200
    for task in attacks:
        task.cancel()
    await asyncio.gather(*attacks, return_exceptions=True)
