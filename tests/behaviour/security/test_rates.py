"""A tenant above its rate limit waits; other tenants do not."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import aiohttp
import pytest

from tests.support.server import Server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

# One worker starts what they share.
pytestmark = pytest.mark.xdist_group("attacks-rates")


@pytest.fixture(scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    folder = tmp_path_factory.mktemp("rates")
    (folder / "holdfast.toml").write_text("[tenants.acme]\nrequests_per_second = 0.001\n")
    async with Server(folder) as running:
        yield running


async def test_what_is_too_much_is_refused_before_its_body_is_read(server: Server) -> None:
    async with aiohttp.ClientSession(server.url) as session:
        async with session.get("/queues", headers={"Holdfast-Tenant": "acme"}) as answer:
            assert answer.status == 200
        async with session.get("/queue/orders", headers={"Holdfast-Tenant": "acme"}) as answer:
            assert answer.status == 429
            assert 1 < int(answer.headers["Retry-After"]) <= 1000
            assert (await answer.json())["error_code"] == "RATE_LIMITED"
        for other in ({}, {"Holdfast-Tenant": "umbrella"}):
            for _ in range(20):
                async with session.get("/queue/orders", headers=other) as answer:
                    assert answer.status == 200
        for path in ("/healthz", "/readyz", "/"):
            async with session.get(path, headers={"Holdfast-Tenant": "acme"}) as answer:
                assert answer.status == 200
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        head = b"POST /queue/orders/push HTTP/1.1\r\nHost: localhost\r\nHoldfast-Tenant: acme\r\n"
        writer.write(head + b"Content-Length: 16000000\r\n\r\n")
        assert (await asyncio.wait_for(reader.readline(), 20)).startswith(b"HTTP/1.1 429 ")
    finally:
        writer.close()
