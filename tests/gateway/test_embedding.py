"""The embedded server inside a program of one's own."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
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


_TRACED = """
import asyncio, sys
import holdfast
from holdfast import App, Client, Context
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

app = App()
exporter = InMemorySpanExporter()

@app.activity
async def ship(line: str) -> str:
    with trace.get_tracer("shop").start_as_current_span("label"):
        return f"{line} shipped"

@app.orchestration
async def shipping(ctx: Context, line: str) -> str:
    return await ctx.call(ship, line)

async def main() -> None:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    async with holdfast.serve(app, data=sys.argv[1], port=0) as server, Client(server.url) as client:
        with trace.get_tracer("shop").start_as_current_span("order"):
            run = await client.start(shipping, "oar")
        assert await run.result(timeout=60) == "oar shipped"
    spans = exporter.get_finished_spans()
    names = {span.context.span_id: span.name for span in spans}
    assert len({span.context.trace_id for span in spans}) == 1
    for span in spans:
        print(names[span.parent.span_id] if span.parent else "-", "->", span.name)

asyncio.run(main())
"""


def test_it_makes_its_spans_with_the_tracer_provider_of_the_program(tmp_path: Path) -> None:
    """In a process of its own, as a process has one tracer provider for good."""
    command = [sys.executable, "-c", _TRACED, str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stderr
    assert sorted(run.stdout.splitlines()) == [
        "- -> order",
        "POST /orchestrations/{name}/start -> OrchestrationActor Start",
        "POST /orchestrations/{name}/start -> orchestration shipping",
        "orchestration shipping -> send ship",
        "order -> POST /orchestrations/{name}/start",
        "run ship -> OrchestrationActor Complete",
        "run ship -> label",
        "send ship -> PushPopActor Push",
        "send ship -> run ship",
    ]


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
