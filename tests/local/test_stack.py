"""The real thing: placement, scheduler and daprd on loopback, over each of the shipped components."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import TYPE_CHECKING, Any

import aiohttp
import psutil
import pytest

from holdfast.errors import ComponentFailed
from holdfast.local import LocalDapr, LocalPostgres, Sidecar, find_dapr, write_component
from tests.local.app import TinyApp
from tests.support.waiting import eventually, is_gone

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = pytest.mark.xdist_group("local-stack")


@pytest.fixture(scope="module")
async def dapr(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LocalDapr]:
    async with LocalDapr(tmp_path_factory.mktemp("dapr"), find_dapr()) as running:
        yield running


@pytest.fixture(scope="module")
async def app() -> AsyncIterator[TinyApp]:
    async with TinyApp("Module") as running:
        yield running


@pytest.fixture(scope="module")
async def sidecar(dapr: LocalDapr, app: TinyApp, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Sidecar]:
    folder = tmp_path_factory.mktemp("sqlite")
    write_component("sqlite", folder / "resources", connection=str(folder / "state.db"))
    running = await dapr.sidecar(app_id="tiny", app_port=app.port, resources=folder / "resources")
    await running.wait_ready()
    yield running
    await running.stop()


async def ask(sidecar: Sidecar, verb: str, path: str, body: Any = None) -> tuple[int, Any]:
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20)) as session,
        session.request(verb, f"{sidecar.url}/v1.0/actors/{path}", json=body) as answer,
    ):
        return answer.status, await answer.json(content_type=None) if answer.status == 200 else None


async def save(sidecar: Sidecar, actor_type: str, value: Any) -> int:
    change = {"operation": "upsert", "request": {"key": "k", "value": value}}
    await ask(sidecar, "PUT", f"{actor_type}/a/method/Touch")
    status, _ = await ask(sidecar, "POST", f"{actor_type}/a/state", [change])
    return status


async def test_ready_means_that_an_actor_can_be_called(sidecar: Sidecar) -> None:
    assert await ask(sidecar, "PUT", "Module/someone/method/Hello", "you") == (200, {"id": "someone", "bytes": 5})
    metadata = await sidecar.metadata()
    assert metadata is not None
    assert metadata["runtimeVersion"] == "1.18.2"


async def test_large_bodies_pass(sidecar: Sidecar) -> None:
    body = "x" * (17 << 20)
    assert await ask(sidecar, "PUT", "Module/someone/method/Hello", body) == (
        200,
        {"id": "someone", "bytes": len(body) + 2},
    )


async def test_everything_but_the_health_ports_is_on_loopback(dapr: LocalDapr, sidecar: Sidecar) -> None:
    for process, open_to_all in ((dapr.placement.process, 1), (dapr.scheduler.process, 1), (sidecar.process, 0)):
        sockets = psutil.Process(process.pid).net_connections(kind="inet")
        listening = [s.laddr.ip for s in sockets if s.status == psutil.CONN_LISTEN]
        # Placement and scheduler 1.18.2 listen on all interfaces for their health, whatever they are told.
        assert len([address for address in listening if address != "127.0.0.1"]) == open_to_all, process.name
        assert not [s for s in sockets if s.type.name == "SOCK_DGRAM"], f"{process.name} has a port for multicast"


async def test_a_sidecar_comes_back_on_its_ports_with_its_state(sidecar: Sidecar) -> None:
    assert await save(sidecar, "Module", {"n": 1}) == 204
    before, url = sidecar.process.pid, sidecar.url
    await sidecar.kill()
    assert is_gone(before)
    await sidecar.restart()
    await sidecar.wait_ready()
    assert sidecar.url == url
    assert await ask(sidecar, "GET", "Module/a/state/k") == (200, {"n": 1})


async def test_the_scheduler_keeps_reminders_over_a_kill(dapr: LocalDapr, app: TinyApp, sidecar: Sidecar) -> None:
    status, _ = await ask(sidecar, "POST", "Module/a/reminders/late", {"dueTime": "2s"})
    assert status == 204
    await dapr.scheduler.kill()
    await dapr.scheduler.restart()
    # The leadership of the killed one in etcd ends after 20 s; nothing fires before.
    assert await asyncio.wait_for(app.reminders.get(), 60) == "late"


async def test_calls_go_on_after_placement_restarts(dapr: LocalDapr, sidecar: Sidecar) -> None:
    await dapr.placement.kill()
    await dapr.placement.restart()

    async def called() -> bool:
        return (await ask(sidecar, "PUT", "Module/b/method/Hello"))[0] == 200

    await eventually(called, what="an actor is called through the placement that came back", within=60)


@pytest.mark.parametrize("version", ["v1", "v2"])
async def test_the_postgresql_components(dapr: LocalDapr, tmp_path: Path, version: str) -> None:
    resources = tmp_path / "resources"
    async with LocalPostgres(tmp_path / "postgres") as postgres, TinyApp(f"Postgres{version}") as app:
        url = await postgres.create_database("state")
        write_component("postgresql-v1" if version == "v1" else "postgresql-v2", resources, connection=url)
        sidecar = await dapr.sidecar(app_id=f"tiny-{version}", app_port=app.port, resources=resources)
        await sidecar.wait_ready()
        assert await save(sidecar, app.actor_type, {"n": 2}) == 204
        keys = await postgres.query("SELECT key FROM state", database="state")
        assert keys == f"tiny-{version}||{app.actor_type}||a||k"
        await sidecar.stop()


async def test_the_sqlite_component_as_it_is_shipped(dapr: LocalDapr, tmp_path: Path) -> None:
    database = tmp_path / "state.db"
    write_component("sqlite", tmp_path / "resources", connection=str(database))
    async with TinyApp("Sqlite") as app:
        sidecar = await dapr.sidecar(app_id="tiny-sqlite", app_port=app.port, resources=tmp_path / "resources")
        await sidecar.wait_ready()
        assert await save(sidecar, app.actor_type, "text") == 204
        await sidecar.stop()
    with sqlite3.connect(database) as connection:
        assert connection.execute("SELECT key, value FROM state").fetchall() == [
            (f"tiny-sqlite||{app.actor_type}||a||k", '"text"')
        ]


async def test_a_sidecar_that_cannot_start_says_why(dapr: LocalDapr, tmp_path: Path) -> None:
    write_component("sqlite", tmp_path, connection=str(tmp_path / "no" / "such" / "folder" / "state.db"))
    sidecar = await dapr.sidecar(app_id="broken", resources=tmp_path)
    with pytest.raises(ComponentFailed, match=r"(?s)daprd\S* ended with exit code 1 before it was ready.*statestore"):
        await sidecar.wait_ready()


async def test_leaving_ends_every_process(tmp_path: Path) -> None:
    async with LocalDapr(tmp_path / "dapr", find_dapr()) as dapr:
        sidecar = await dapr.sidecar()
        await sidecar.wait_ready()
        pids = [dapr.placement.process.pid, dapr.scheduler.process.pid, sidecar.process.pid]
        assert not any(is_gone(pid) for pid in pids)
    assert all(is_gone(pid) for pid in pids)
    assert sidecar.process.returncode == 0
