"""The host uses cached state only while its probes of daprd succeed often enough."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from holdfast.runtime.dapr.http import SidecarHttp
from holdfast.runtime.dapr.ownership import OwnershipMonitor
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PROBES = {"healthCheckPath": "/healthz", "healthProbeInterval": "1s", "healthProbeTimeout": "600ms"}


class Sidecar:
    """Says of itself what a test wants, as late as a test wants."""

    def __init__(self) -> None:
        self.probes: dict[str, str] | None = PROBES
        self.status = "RUNNING"
        self.answering = asyncio.Event()
        self.answering.set()
        self.lost = 0
        self.doubtful = 0

    async def healthz(self, _: web.Request) -> web.Response:
        await self.answering.wait()
        return web.Response(status=204)

    async def metadata(self, _: web.Request) -> web.Response:
        health: dict[str, Any] = {"health": self.probes} if self.probes else {}
        return web.json_response(
            {"id": "app", "actorRuntime": {"runtimeStatus": self.status}, "appConnectionProperties": health}
        )

    async def lose(self) -> None:
        self.lost += 1

    async def doubt(self) -> None:
        self.doubtful += 1


@pytest.fixture
def sidecar() -> Sidecar:
    return Sidecar()


@pytest.fixture
async def monitor(sidecar: Sidecar) -> AsyncIterator[OwnershipMonitor]:
    app = web.Application()
    app.router.add_get("/v1.0/healthz/outbound", sidecar.healthz)
    app.router.add_get("/v1.0/metadata", sidecar.metadata)
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    http = SidecarHttp(f"http://127.0.0.1:{runner.addresses[0][1]}")
    monitor = OwnershipMonitor(http, lost=sidecar.lose, on_unknown=sidecar.doubt)
    yield monitor
    await monitor.end()
    await http.close()
    await runner.cleanup()


async def uncertain(monitor: OwnershipMonitor) -> bool:
    return not await monitor.is_held()


async def test_without_probes_it_is_certain_for_good(sidecar: Sidecar, monitor: OwnershipMonitor) -> None:
    sidecar.probes = None
    assert await monitor.is_held()
    sidecar.answering.clear()
    assert await monitor.is_held()
    assert sidecar.doubtful == 0


async def test_a_sidecar_that_cannot_be_asked_makes_nothing_certain(
    sidecar: Sidecar, monitor: OwnershipMonitor
) -> None:
    await monitor._http.close()
    assert not await monitor.is_held()


async def test_it_ends_when_the_sidecar_was_not_seen_for_as_long_as_a_break(
    sidecar: Sidecar, monitor: OwnershipMonitor
) -> None:
    await eventually(monitor.is_held)
    assert sidecar.doubtful == 1
    sidecar.answering.clear()
    await eventually(lambda: uncertain(monitor))
    sidecar.answering.set()
    await eventually(monitor.is_held)
    assert (sidecar.doubtful, sidecar.lost) == (2, 0)


async def test_it_is_lost_when_the_actors_were_taken_away(sidecar: Sidecar, monitor: OwnershipMonitor) -> None:
    await eventually(monitor.is_held)
    sidecar.status = "INITIALIZING"
    await eventually(lambda: sidecar.lost == 1)
    assert not await monitor.is_held()
    sidecar.status = "RUNNING"
    await eventually(monitor.is_held)
    assert (sidecar.doubtful, sidecar.lost) == (2, 1)


async def test_probes_without_a_pause_make_nothing_certain(sidecar: Sidecar, monitor: OwnershipMonitor) -> None:
    sidecar.probes = {**PROBES, "healthProbeTimeout": "1s"}
    assert not await monitor.is_held()
    assert not await monitor.is_held()


async def test_another_sidecar_is_asked_anew(sidecar: Sidecar, monitor: OwnershipMonitor) -> None:
    await eventually(monitor.is_held)
    sidecar.probes = None
    await monitor.end()
    assert await monitor.is_held()
