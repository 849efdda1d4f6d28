"""Real connections whose peers do not read."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import uvicorn
import uvloop

from holdfast.gateway.auth.audit_log import AuditLog
from holdfast.gateway.middleware.http_protocol import DeadlineProtocol
from holdfast.gateway.middleware.write_buffers import WriteBuffers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import pytest
    from starlette.types import ASGIApp, Receive, Scope, Send

BODY = b"x" * (32 * 1024 * 1024)


class Answering:
    """Answers every request with the same, and counts."""

    begun = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.begun += 1
        headers = [(b"content-length", b"%d" % len(BODY))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": BODY})


@asynccontextmanager
async def served(app: ASGIApp, unread: WriteBuffers) -> AsyncIterator[tuple[uvicorn.Server, int]]:
    class OfThisServer(DeadlineProtocol):
        arrival_timeout = 30
        audit = AuditLog()
        buffers = unread

    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, http=OfThisServer, lifespan="off", log_config=None, timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve([listener]))
    try:
        yield server, listener.getsockname()[1]
    finally:
        server.should_exit = True
        await serving


@asynccontextmanager
async def never_reading(port: int, requests: int) -> AsyncIterator[None]:
    loop = asyncio.get_running_loop()
    with socket.socket() as peer:
        peer.setblocking(False)
        await loop.sock_connect(peer, ("127.0.0.1", port))
        await loop.sock_sendall(peer, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * requests)
        yield


async def test_a_connection_whose_peer_never_reads_is_closed() -> None:
    app = Answering()
    async with (
        asyncio.timeout(60),
        served(app, WriteBuffers(seconds=0.1)) as (server, port),
        never_reading(port, requests=1),
    ):
        while not app.begun:
            await asyncio.sleep(0.01)
        while server.server_state.connections:
            await asyncio.sleep(0.01)


async def test_no_answer_is_made_behind_one_that_is_not_read() -> None:
    app = Answering()
    async with (
        asyncio.timeout(60),
        served(app, WriteBuffers(seconds=1)) as (server, port),
        never_reading(port, requests=5),
    ):
        while not app.begun:
            await asyncio.sleep(0.01)
        while server.server_state.connections:
            await asyncio.sleep(0.01)
    assert app.begun == 1


async def test_a_peer_that_reads_gets_all_answers() -> None:
    app = Answering()
    async with asyncio.timeout(60), served(app, WriteBuffers(seconds=1)) as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 3)
        for _ in range(3):
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200")
            assert await reader.readexactly(len(BODY)) == BODY
        writer.close()
    assert app.begun == 3


class Slow:
    """Answers the first request at once, and the others when the test lets it."""

    def __init__(self) -> None:
        self.begun = 0
        self.answer = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.begun += 1
        if self.begun > 1:
            await self.answer.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})


def test_an_answer_to_a_peer_that_left_while_its_next_request_waited_is_no_fault(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def body() -> None:
        app = Slow()
        async with asyncio.timeout(60), served(app, WriteBuffers()) as (server, port):
            async with never_reading(port, requests=3):
                while app.begun < 2:
                    await asyncio.sleep(0.01)
            while server.server_state.connections:
                await asyncio.sleep(0.01)
            app.answer.set()
            while server.server_state.tasks:
                await asyncio.sleep(0.01)

    # On the loop that servers run on: asyncio's own takes such an answer in silence.
    uvloop.run(body())
    assert "Exception" not in caplog.text
