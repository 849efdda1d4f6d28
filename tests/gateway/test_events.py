"""``GET /events``: which of the watched things have changed."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from tests.support.checkout import ROOT
from tests.support.server import Server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = pytest.mark.xdist_group("events")

TOKENS = """
[[token]]
name = "acme"
role = "reader"
tenant = "acme"
token = "a-token-of-the-tenant-acme"

[[token]]
name = "ops"
role = "operator"
tenant = "*"
token = "a-token-of-an-operator"
"""
OPS = {"Authorization": "Bearer a-token-of-an-operator"}
ACME = {"Authorization": "Bearer a-token-of-the-tenant-acme"}


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    (tmp_path / "tokens.toml").write_text(TOKENS)
    options = ("examples.orders:app", "--tokens", str(tmp_path / "tokens.toml"))
    async with Server(tmp_path, *options, imports=ROOT) as server:
        yield server


class Events:
    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self.answer = answer

    async def next(self) -> list[str] | None:
        """Returns the topics of the next event; None at the end of the stream."""
        async for line in self.answer.content:
            if line.startswith(b"data: "):
                topics: list[str] = json.loads(line.removeprefix(b"data: "))
                return topics
        return None


@asynccontextmanager
async def listening(
    session: aiohttp.ClientSession, server: Server, *topics: str, headers: dict[str, str] = OPS
) -> AsyncIterator[Events]:
    params = [("topic", topic) for topic in topics]
    async with session.get(f"{server.url}/events", params=params, headers=headers) as answer:
        assert answer.status == 200, await answer.text()
        assert answer.content_type == "text/event-stream"
        yield Events(answer)


async def post(session: aiohttp.ClientSession, server: Server, path: str, body: Any, **more: str) -> None:
    async with session.post(f"{server.url}{path}", json=body, headers=OPS | more) as answer:
        assert answer.status in (200, 202), await answer.text()


async def test_changes_are_reported_by_topic_and_tenant_and_end_with_the_server(server: Server) -> None:
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60)) as session,
        listening(session, server, "queue:orders", "instance:o-1", "instances") as events,
        listening(session, server, "queue:orders", headers=ACME) as theirs,
    ):
        # Each topic once, so that the listener can fetch it after the stream is there.
        seen: set[str] = set()
        while seen != {"instance:o-1", "instances", "queue:orders"}:
            seen.update(await events.next() or ())
        assert await theirs.next() == ["queue:orders"]
        await post(session, server, "/queue/orders/push", {"item": 1})
        assert await events.next() == ["queue:orders"]
        given = {"instance_id": "o-1", "input": {"customer": "ann", "lines": [], "total": 500}}
        await post(session, server, "/orchestrations/order/start", given)
        seen = set()
        while seen != {"instance:o-1", "instances"}:
            seen.update(await events.next() or ())
        await post(session, server, "/queue/orders/push", {"item": 1}, **{"Holdfast-Tenant": "acme"})
        assert await theirs.next() == ["queue:orders"]

        # At once, although the streams are idle.
        stopping = asyncio.create_task(server.stop())
        async with asyncio.timeout(10):
            while await events.next() is not None:
                pass
            while await theirs.next() is not None:
                pass
        assert await stopping == 0


async def test_streams_are_bounded_and_topics_checked(server: Server) -> None:
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=60)) as session:
        url = f"{server.url}/events"
        for wrong in ("", "topic=everything", "topic=queue:", "topic=queue:..", "topic=instances&since=1"):
            async with session.get(f"{url}?{wrong}", headers=OPS) as answer:
                assert (answer.status, (await answer.json())["error_code"]) == (400, "INVALID_REQUEST")
        async with session.get(f"{url}?topic=queues") as answer:
            assert answer.status == 401
        # An invocation by app id has to have an end.
        invoked = f"{server.url}/v1.0/invoke/holdfast/method/events?topic=queues"
        async with session.get(invoked, headers=OPS) as answer:
            assert answer.status == 400
        opened = [await session.get(f"{url}?topic=queues", headers=ACME) for _ in range(40)]
        assert {answer.status for answer in opened} == {200}
        async with session.get(f"{url}?topic=queues", headers=ACME) as answer:
            assert (answer.status, answer.headers["Retry-After"]) == (429, "30")
        # Those of other tenants have room.
        async with listening(session, server, "queues"):
            pass
        opened.pop().close()
        while True:
            async with session.get(f"{url}?topic=queues", headers=ACME) as answer:
                if answer.status == 200:
                    break
        for answer in opened:
            answer.close()
