"""The simulated host: in the test's own process, on a clock that jumps, so that hours pass in no time."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from holdfast.runtime.actor_api.errors import error_body
from holdfast.runtime.simulated import SimulatedHost, VirtualTimeLoop
from tests.support.stacks import actors
from tests.support.stacks.base import ABSENT, CallFailed, Stack
from tests.support.stacks.served import APP_ID, of_actor

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from pathlib import Path


class SimulatedStack(Stack):
    """New for every test: starting it costs nothing."""

    name = "simulated"

    def __init__(self, folder: Path) -> None:
        self._running: SimulatedHost | None = None

    def run(self, body: Coroutine[Any, Any, None]) -> None:
        VirtualTimeLoop.run(self._around(body))

    def close(self) -> None:
        pass

    async def _around(self, body: Coroutine[Any, Any, None]) -> None:
        actors.forget_the_process()
        self._running = SimulatedHost(app_id=APP_ID, idle_timeout=self.idle_timeout)
        for actor_class in actors.ACTORS:
            await self._running.register(actor_class)
        await self._running.start()
        try:
            await body
        finally:
            await self._host.stop()

    @property
    def _host(self) -> SimulatedHost:
        assert self._running is not None
        return self._running

    async def call(self, actor_type: str, actor_id: str, method: str, data: Any = ABSENT) -> Any:
        host, task = self._host, asyncio.current_task()
        assert task is not None
        if host.crashed.is_set():
            raise CallFailed("UNREACHABLE", "the process is gone")
        body = None if data is ABSENT else json.dumps(data).encode()
        try:
            return json.loads(await host.client.invoke_method(actor_type, actor_id, method, body))
        except asyncio.CancelledError:
            if host.crashed.is_set() and not task.cancelling():
                raise CallFailed("UNREACHABLE", "the process went away") from None
            raise
        except Exception as error:
            told = error_body(error, f"{actor_type}.{method}")
            code, message = told.pop("errorCode"), told.pop("message")
            raise CallFailed(code, message, told) from error

    async def stored(self, actor_type: str, actor_id: str) -> dict[str, Any]:
        values = {key: value.decode() for key, (value, _) in self._host.storage.rows.items()}
        return of_actor(values, actor_type, actor_id)

    async def stored_keys(self) -> set[str]:
        return set(self._host.storage.rows)

    async def kill_app(self) -> None:
        self._host.crash()
        actors.forget_the_process()

    async def start_app(self) -> None:
        self._running = await self._host.restarted()

    async def kill_all(self) -> None:
        await self.kill_app()

    async def start_all(self) -> None:
        await self.start_app()
