"""The smallest app daprd takes for an actor host: it counts its calls and has no SDK behind it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Self

from aiohttp import web

from holdfast.local.ports import free_port

if TYPE_CHECKING:
    from types import TracebackType


class TinyApp:
    """`actor_type` is one that no other app of the same placement has: they would share one ring."""

    def __init__(self, actor_type: str) -> None:
        self.actor_type = actor_type
        self.port = free_port()
        self.reminders: asyncio.Queue[str] = asyncio.Queue()
        routes = web.Application(client_max_size=64 << 20)
        routes.router.add_get("/dapr/config", self._config)
        routes.router.add_put("/actors/{type}/{id}/method/remind/{name}", self._remind)
        routes.router.add_put("/actors/{type}/{id}/method/{name}", self._call)
        routes.router.add_delete("/actors/{type}/{id}", self._nothing)
        self._runner = web.AppRunner(routes)

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.cleanup()

    async def _config(self, request: web.Request) -> web.Response:
        return web.json_response({"entities": [self.actor_type]})

    async def _remind(self, request: web.Request) -> web.Response:
        self.reminders.put_nowait(request.match_info["name"])
        return web.Response()

    async def _call(self, request: web.Request) -> web.Response:
        return web.json_response({"id": request.match_info["id"], "bytes": len(await request.read())})

    async def _nothing(self, request: web.Request) -> web.Response:
        return web.Response()
