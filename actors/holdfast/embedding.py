"""The embedded server inside a program of one's own."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast import server
from holdfast.errors import SettingsError
from holdfast.gateway.auth.tokens import Tokens
from holdfast.gateway.middleware.host_names import is_loopback
from holdfast.runtime.embedded import EmbeddedHost
from holdfast.tracing import environment as tracing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from holdfast.app import App


@dataclass(frozen=True)
class EmbeddedServer:
    """A server that runs."""

    #: The address for clients.
    url: str


@asynccontextmanager
async def serve(
    *apps: App,
    data: Path | str = "./holdfast-data",
    listen: str = "127.0.0.1",
    port: int = 8080,
    token: str | None = None,
    worker: bool = True,
    retention_seconds: float | None = None,
    drain_timeout: float = 30.0,
) -> AsyncIterator[EmbeddedServer]:
    """Runs the embedded server in this process and event loop: ``async with holdfast.serve(app) as server``.

    Leaving the block stops it gracefully: it accepts no more work, and running turns and activities get
    ``drain_timeout`` seconds to finish. Port 0 picks a free one; ``server.url`` has it. The arguments mean what the
    options of ``holdfast serve`` mean. Signals, logging and garbage collection are left to the program.
    It makes spans if the program has set a tracer provider of OpenTelemetry before.
    """
    if not token and not is_loopback(listen):
        raise SettingsError(f"Listening on {listen} without a token would admit every caller: pass token=….")
    tokens = Tokens.of_one(token) if token else None
    gateway = server.create_gateway(
        lambda _: EmbeddedHost(Path(data), app_id="holdfast", drain_timeout=drain_timeout),
        tokens=None if tokens is None else lambda: tokens,
        loopback=is_loopback(listen),
    )
    tracing.set_up(only_existing=True)
    stop, ready = asyncio.Event(), asyncio.Event()
    with server.listen(listen, port) as listener:
        address, bound = listener.getsockname()[:2]
        serving = asyncio.create_task(
            server.serve(
                *(gateway, apps, listener),
                drain_timeout=drain_timeout,
                body_timeout=30.0,
                ready=ready.set,
                worker=worker,
                retention_seconds=retention_seconds,
                until=stop,
            ),
            name="holdfast server",
        )
        serving.add_done_callback(lambda _: ready.set())
        try:
            await ready.wait()
            if not serving.done():
                yield EmbeddedServer(f"http://{f'[{address}]' if ':' in address else address}:{bound}")
        finally:
            stop.set()
            await serving
