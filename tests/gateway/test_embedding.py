"""The embedded server inside a program of one's own."""

from __future__ import annotations

import signal
import socket
from typing import TYPE_CHECKING

import pytest

import holdfast
from holdfast import App, Client, Context
from holdfast.errors import ConnectionFailed, HoldfastError, SettingsError, Unauthorized
from holdfast.server import listen

if TYPE_CHECKING:
    from pathlib import Path

app = App()


@app.activity
async def ship(line: str) -> str:
    return f"{line} shipped"


@app.orchestration
async def shipping(ctx: Context, line: str) -> str:
    return await ctx.call(ship, line)


async def test_it_serves_inside_the_block_and_keeps_its_data(tmp_path: Path) -> None:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    handlers = [signal.getsignal(number) for number in numbers]
    async with holdfast.serve(app, data=tmp_path, port=0) as server, Client(server.url) as client:
        assert [signal.getsignal(number) for number in numbers] == handlers
        run = await client.start(shipping, "oar", instance_id="i-1")
        assert await run.result(timeout=60) == "oar shipped"
        with pytest.raises(HoldfastError, match="in use"):
            async with holdfast.serve(data=tmp_path, port=0):
                pytest.fail("two servers on one data folder")
    async with Client(server.url, retries=0) as client:
        with pytest.raises(ConnectionFailed):
            await client.queue("orders").stats()
    async with holdfast.serve(app, data=tmp_path, port=0) as server, Client(server.url) as client:
        assert await client.orchestration("i-1").result(timeout=60) == "oar shipped"


async def test_an_error_of_the_block_stops_it_and_is_raised_on(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no oar"):
        async with holdfast.serve(data=tmp_path, port=0):
            raise ValueError("no oar")
    async with holdfast.serve(data=tmp_path, port=0):
        pass


async def test_a_token_is_needed_beyond_this_machine_and_checked(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="pass token="):
        async with holdfast.serve(data=tmp_path, listen="0.0.0.0", port=0):
            pytest.fail("without a token")
    async with holdfast.serve(data=tmp_path, port=0, token="secret-of-the-test") as server:
        async with Client(server.url, "secret-of-the-test") as client:
            await client.queue("orders").push(1)
        async with Client(server.url) as client:
            with pytest.raises(Unauthorized):
                await client.queue("orders").push(1)


def test_answers_are_sent_at_once_on_every_event_loop() -> None:
    with listen("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
