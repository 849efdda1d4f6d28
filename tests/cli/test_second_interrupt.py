"""A second Ctrl-C: ``holdfast serve`` waits for running work after the first, and cancels it after the second."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from typing import TYPE_CHECKING, Any

import aiohttp
import grpc.aio
import pytest
from dapr.proto import api_service_v1, api_v1

from holdfast.local.ports import free_port
from tests.support.server import Server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

APP = """
import asyncio
from datetime import timedelta

from dapr.actor import Actor, ActorInterface, Remindable, actormethod

from holdfast import App, Context

app = App()


class EndlessInterface(ActorInterface):
    @actormethod(name="Wait")
    async def wait(self) -> None: ...

    @actormethod(name="Remind")
    async def remind(self) -> None: ...


@app.activity
async def wait() -> None:
    print("work has begun", flush=True)
    await asyncio.Event().wait()


@app.orchestration
async def waiting(ctx: Context) -> None:
    await ctx.call(wait)


@app.actor
class EndlessActor(Actor, Remindable, EndlessInterface):
    async def wait(self) -> None:
        print("work has begun", flush=True)
        await asyncio.Event().wait()

    async def remind(self) -> None:
        await self.register_reminder("wait", b"", timedelta(0))

    async def receive_reminder(self, name, state, due_time, period, ttl=None) -> None:
        await self.wait()
"""


@contextlib.asynccontextmanager
async def over_http(server: Server, _: int) -> AsyncIterator[None]:
    async def call() -> None:
        async with aiohttp.ClientSession() as session, session.post(f"{actor_url(server)}/Wait"):
            pass

    async with calling(call()):
        yield


@contextlib.asynccontextmanager
async def over_grpc(_: Server, port: int) -> AsyncIterator[None]:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        request = api_v1.InvokeActorRequest(actor_type="EndlessActor", actor_id="e", method="Wait")
        call = api_service_v1.DaprStub(channel).InvokeActor(request, wait_for_ready=True)
        async with calling(call):
            yield


@contextlib.asynccontextmanager
async def by_a_reminder(server: Server, _: int) -> AsyncIterator[None]:
    async with aiohttp.ClientSession() as session, session.post(f"{actor_url(server)}/Remind") as answer:
        assert answer.status == 200
    yield


@contextlib.asynccontextmanager
async def by_an_activity(server: Server, _: int) -> AsyncIterator[None]:
    async with aiohttp.ClientSession() as session, session.post(f"{server.url}/orchestrations/waiting/start") as answer:
        assert answer.status == 202
    yield


@contextlib.asynccontextmanager
async def calling(call: Any) -> AsyncIterator[None]:
    """Calls in the background; the server ends before it answers."""
    waiting = asyncio.ensure_future(call)
    try:
        yield
    finally:
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


def actor_url(server: Server) -> str:
    return f"{server.url}/v1.0/actors/EndlessActor/e/method"


@pytest.mark.parametrize("begin", [over_http, over_grpc, by_a_reminder, by_an_activity])
async def test_it_cancels_running_work(tmp_path: Path, begin: Any) -> None:
    (tmp_path / "endless.py").write_text(APP)
    port = free_port()
    server = Server(tmp_path, "endless:app", "--drain-timeout", "3600", "--grpc-port", str(port))
    async with server, begin(server, port):
        await server.says("work has begun")
        server.send_signal(signal.SIGINT)
        await server.says("SIGINT: stopping")
        server.send_signal(signal.SIGINT)
        assert await asyncio.wait_for(server.wait(), 30) == 0
