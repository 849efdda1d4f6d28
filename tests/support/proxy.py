"""A proxy before a server that records requests, and loses or replaces answers."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import aiohttp
from aiohttp import web

from holdfast.local.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.support.server import Server


class ProxiedRequest:
    """A request on its way to the server."""

    def __init__(self, proxy: FaultyProxy, request: web.Request, body: bytes) -> None:
        self._proxy = proxy
        self._body = body
        self.request = request

    async def pass_on(self) -> web.Response:
        return await self._proxy.forward(self.request, self._body)

    def break_off(self) -> web.Response:
        """Ends the connection without an answer."""
        assert self.request.transport is not None
        self.request.transport.abort()
        return web.Response()


async def lose_answer(proxied: ProxiedRequest) -> web.StreamResponse:
    """The server has done it, and the caller gets no answer."""
    await proxied.pass_on()
    return proxied.break_off()


async def unavailable(proxied: ProxiedRequest) -> web.StreamResponse:
    body = {"success": False, "message": "Not now.", "error_code": "UNAVAILABLE"}
    return web.json_response(body, status=503, headers={"Retry-After": "1"})


async def bad_gateway(proxied: ProxiedRequest) -> web.StreamResponse:
    return web.Response(status=502, text="<html>no upstream</html>")


class FaultyProxy:
    """Passes requests on to a server. Each fault is for the next request whose path ends as given with it."""

    def __init__(self, server: Server) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.seen: list[str] = []
        self.running: list[str] = []
        self._upstream = server.url
        self._faults: list[tuple[str, deque[Callable[[ProxiedRequest], Awaitable[web.StreamResponse]]]]] = []
        self._session: aiohttp.ClientSession | None = None
        self._runner: web.AppRunner | None = None

    def on(self, ending: str, *faults: Callable[[ProxiedRequest], Awaitable[web.StreamResponse]]) -> None:
        self._faults.append((ending, deque(faults)))

    def times(self, ending: str) -> int:
        return sum(path.endswith(ending) for path in self.seen)

    async def open(self) -> None:
        app = web.Application(client_max_size=32 * 1024 * 1024)
        app.router.add_route("*", "/{path:.*}", self._pass)
        # A new connection each time: the server closes idle ones, which would be a fault that no test set.
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0, force_close=True))
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()

    async def close(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def forward(self, request: web.Request, body: bytes) -> web.Response:
        assert self._session is not None
        async with self._session.request(
            request.method, self._upstream + request.path_qs, data=body, headers={"Content-Type": "application/json"}
        ) as answer:
            return web.Response(
                status=answer.status, body=await answer.read(), headers={"Content-Type": answer.content_type}
            )

    async def _pass(self, request: web.Request) -> web.StreamResponse:
        self.seen.append(request.path)
        self.running.append(request.path)
        try:
            proxied = ProxiedRequest(self, request, await request.read())
            for ending, faults in self._faults:
                if faults and request.path.endswith(ending):
                    return await faults.popleft()(proxied)
            return await proxied.pass_on()
        finally:
            self.running.remove(request.path)
