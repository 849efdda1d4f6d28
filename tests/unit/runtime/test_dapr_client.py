"""The Dapr host's client on answers that daprd gives only while something fails."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from holdfast import errors
from holdfast.local.ports import free_port
from holdfast.runtime.dapr.client import DaprHostClient

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@contextlib.asynccontextmanager
async def sidecar(status: int, body: bytes) -> AsyncIterator[DaprHostClient]:
    """A client whose sidecar answers everything with this."""

    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=status, body=body)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    port = free_port()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    client = DaprHostClient(f"http://127.0.0.1:{port}")
    client.hosted.add("Ours")
    try:
        yield client
    finally:
        await client.close()
        await runner.cleanup()


async def test_an_answer_that_broke_off_is_no_answer() -> None:
    async with sidecar(200, b"") as client:
        with pytest.raises(errors.Unavailable):
            await client.invoke_method("Ours", "a", "method")


async def test_the_actors_of_others_may_answer_nothing() -> None:
    async with sidecar(200, b"") as client:
        assert await client.invoke_method("Theirs", "a", "method") == b""


async def test_an_answer_is_passed_on() -> None:
    async with sidecar(200, b"null") as client:
        assert await client.invoke_method("Ours", "a", "method") == b"null"
