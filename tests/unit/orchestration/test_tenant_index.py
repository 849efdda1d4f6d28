"""The register of tenants: written once, heard at once where they are, and soon elsewhere."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

from holdfast.errors import Unavailable
from holdfast.kinds import TENANT_INDEX_TYPE
from holdfast.orchestration.index import tenant_index
from holdfast.orchestration.index.tenant_index import POLL_SECONDS, TenantDirectory, TenantIndexActor
from holdfast.runtime.simulated import SimulatedHost, VirtualTimeLoop

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    import pytest

    from holdfast.runtime.contract import HostClient


class Process:
    """One of several processes that call the same actors."""

    def __init__(self, host: SimulatedHost) -> None:
        self._client = host.client
        self.calls: list[str] = []
        self.away = False
        self.tenants = TenantDirectory(cast("HostClient", self))

    async def invoke_method(self, actor_type: str, actor_id: str, method: str, data: bytes = b"") -> bytes:
        assert actor_type == TENANT_INDEX_TYPE
        self.calls.append(method)
        if self.away:
            raise Unavailable
        return await self._client.invoke_method(actor_type, actor_id, method, data)

    def hears(self, *, alone: bool = False) -> asyncio.Queue[str]:
        heard: asyncio.Queue[str] = asyncio.Queue()

        async def listen() -> None:
            async for tenant in self.tenants.each(alone=alone):
                heard.put_nowait(tenant)

        self.listening = asyncio.create_task(listen())
        return heard


def on_host(body: Callable[[SimulatedHost], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    async def run() -> None:
        host = SimulatedHost()
        await host.register(TenantIndexActor)
        await host.start()
        try:
            await body(host)
        finally:
            await host.stop()

    def test() -> None:
        VirtualTimeLoop.run(run())

    return test


async def in_time(heard: asyncio.Queue[str], seconds: float) -> str:
    async with asyncio.timeout(seconds):
        return await heard.get()


@on_host
async def test_a_process_hears_of_its_own_at_once_and_of_others_soon(host: SimulatedHost) -> None:
    here, there = Process(host), Process(host)
    heard, heard_there = here.hears(), there.hears()
    assert await in_time(heard, 1) == await in_time(heard_there, 1) == "default"
    await asyncio.sleep(1)
    for _ in range(3):
        await here.tenants.note("acme")
        await here.tenants.note("default")
    assert await in_time(heard, 0.01) == "acme"
    assert await in_time(heard_there, POLL_SECONDS + 1) == "acme"
    assert here.calls.count("Add") == 1
    # What was read need not be written.
    await there.tenants.note("acme")
    assert "Add" not in there.calls
    await asyncio.sleep(60)
    assert heard.empty()
    assert heard_there.empty()
    here.listening.cancel()
    there.listening.cancel()


@on_host
async def test_a_new_process_knows_the_old_ones(host: SimulatedHost) -> None:
    first = Process(host)
    names = [f"tenant-{number}" for number in range(7)]
    for name in names:
        await first.tenants.note(name)
    second = Process(host)
    heard = second.hears(alone=True)
    assert [await in_time(heard, 1) for _ in range(8)] == ["default", *names]
    # No other process exists, so the index is not asked again.
    await asyncio.sleep(600)
    assert second.calls == ["Since"]
    await second.tenants.note("new")
    assert await in_time(heard, 0.01) == "new"
    second.listening.cancel()


@on_host
async def test_a_register_that_is_away_is_asked_again(host: SimulatedHost) -> None:
    other, process = Process(host), Process(host)
    await other.tenants.note("acme")
    process.away = True
    heard = process.hears(alone=True)
    assert await in_time(heard, 1) == "default"
    await asyncio.sleep(10)
    process.away = False
    assert await in_time(heard, 5) == "acme"
    process.listening.cancel()


def test_more_of_them_than_a_page_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tenant_index, "PAGE", 3)

    async def body(host: SimulatedHost) -> None:
        writer, reader = Process(host), Process(host)
        heard = reader.hears()
        assert await in_time(heard, 1) == "default"
        for number in range(10):
            await writer.tenants.note(f"t-{number}")
            assert await in_time(heard, POLL_SECONDS + 1) == f"t-{number}"
        reader.listening.cancel()

    on_host(body)()
