"""A real server in a process of its own, and a way in between that loses answers."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Self

import aiohttp
from aiohttp import web

from holdfast.local import ChildProcess
from holdfast.local.health import answers_ok
from holdfast.local.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class Server:
    """``holdfast serve`` on the embedded host."""

    def __init__(self, folder: Path, *options: str, imports: Path | None = None) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        command = [
            *(Path(sys.executable).with_name("holdfast"), "serve", "--port", str(self.port)),
            *("--data", str(folder / "data"), *options),
        ]
        # Apps are found in its working directory.
        self._process = ChildProcess("server", command, log=folder / "server.log", folder=imports or folder)

    async def start(self) -> None:
        await self._process.start()
        await self._process.wait_ready(answers_ok(f"{self.url}/readyz"))

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.running

    async def kill(self) -> None:
        await self._process.kill()

    def logged(self) -> str:
        """What it has written to its log."""
        return self._process.logged()

    async def says(self, words: str) -> None:
        """Waits until its log has these words."""

        async def said() -> bool:
            return words in self._process.logged()

        await until(said, what=f"the server says {words!r}")

    async def stop(self) -> int | None:
        """Sends SIGTERM, and returns the exit code."""
        self._process.send_signal(signal.SIGTERM)
        return await self._process.wait()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._process.terminate()


class Crossing:
    """One request on its way through."""

    def __init__(self, way: Way, request: web.Request, body: bytes) -> None:
        self._way = way
        self._body = body
        self.request = request

    async def pass_on(self) -> web.Response:
        return await self._way.forward(self.request, self._body)

    def break_off(self) -> web.Response:
        """The connection ends without a word."""
        assert self.request.transport is not None
        self.request.transport.abort()
        return web.Response()


async def lose_answer(crossing: Crossing) -> web.StreamResponse:
    """It is done, but nobody hears of it."""
    await crossing.pass_on()
    return crossing.break_off()


async def unavailable(crossing: Crossing) -> web.StreamResponse:
    body = {"success": False, "message": "Not now.", "error_code": "UNAVAILABLE"}
    return web.json_response(body, status=503, headers={"Retry-After": "1"})


async def bad_gateway(crossing: Crossing) -> web.StreamResponse:
    return web.Response(status=502, text="<html>no upstream</html>")


class Way:
    """Stands before a server. Faults wait for the next requests whose path ends as they say."""

    def __init__(self, server: Server) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.seen: list[str] = []
        self.running: list[str] = []
        self._upstream = server.url
        self._faults: list[tuple[str, deque[Callable[[Crossing], Awaitable[web.StreamResponse]]]]] = []
        self._session: aiohttp.ClientSession | None = None
        self._runner: web.AppRunner | None = None

    def on(self, ending: str, *faults: Callable[[Crossing], Awaitable[web.StreamResponse]]) -> None:
        self._faults.append((ending, deque(faults)))

    def times(self, ending: str) -> int:
        return sum(path.endswith(ending) for path in self.seen)

    async def open(self) -> None:
        app = web.Application(client_max_size=32 * 1024 * 1024)
        app.router.add_route("*", "/{path:.*}", self._cross)
        # A new connection each time: the server closes idle ones, and that would be a fault nobody asked for.
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

    async def _cross(self, request: web.Request) -> web.StreamResponse:
        self.seen.append(request.path)
        self.running.append(request.path)
        try:
            crossing = Crossing(self, request, await request.read())
            for ending, faults in self._faults:
                if faults and request.path.endswith(ending):
                    return await faults.popleft()(crossing)
            return await crossing.pass_on()
        finally:
            self.running.remove(request.path)


async def until(condition: Callable[[], Awaitable[bool]], *, what: str, within: float = 20.0) -> None:
    clock = asyncio.get_running_loop().time
    deadline = clock() + within
    while not await condition():
        assert clock() < deadline, f"not within {within:g} s: {what}"
        await asyncio.sleep(0.02)
