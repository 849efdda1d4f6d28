"""Work continues after each migration: embedded, daprd with PostgreSQL v2, SQLite, PostgreSQL v1, embedded."""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from holdfast.local import ChildProcess, LocalDapr, find_dapr, write_component
from holdfast.local.health import answers_ok
from holdfast.local.ports import free_port
from tests.golden.recorder import Rest
from tests.migration.test_rows import moved
from tests.support.server import Server
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from holdfast.local.components import Store

pytestmark = pytest.mark.xdist_group("migration")

_APP = """
import asyncio
from pathlib import Path

from holdfast import App, Context

app = App()

@app.activity
async def note(text: str) -> str:
    with Path(__file__).with_name("done.txt").open("a") as file:
        file.write(text + "\\n")
    return text

@app.orchestration
async def calls(ctx: Context, name: str) -> str:
    return await ctx.call(note, name)

@app.orchestration
async def sleeps(ctx: Context, name: str) -> str:
    await asyncio.sleep(8)
    return await ctx.call(note, name)

@app.orchestration
async def waits(ctx: Context, name: str) -> str:
    async with asyncio.timeout(3600):
        await ctx.event("go")
    return await ctx.call(note, name)

@app.orchestration
async def tick(ctx: Context) -> None:
    pass
"""

RUNS = ("calls", "sleeps", "waits")


class Hosts:
    """Starts each host in turn, on the database that was moved there."""

    def __init__(self, folder: Path, dapr: LocalDapr) -> None:
        self._folder = folder
        self._dapr = dapr

    @asynccontextmanager
    async def embedded(self, name: str) -> AsyncIterator[Rest]:
        (self._folder / name).mkdir(exist_ok=True)
        server = Server(self._folder / name, "moving:app", imports=self._folder)
        await server.start()
        async with aiohttp.ClientSession() as session:
            yield Rest(server.url, session)
        assert await server.stop() == 0

    @asynccontextmanager
    async def beside_daprd(self, store: Store, connection: str) -> AsyncIterator[Rest]:
        resources = self._folder / store
        write_component(store, resources, connection=connection)
        port = free_port()
        url = f"http://127.0.0.1:{port}"
        sidecar = await self._dapr.sidecar(app_port=port, resources=resources)
        command = [*(Path(sys.executable).with_name("holdfast"), "serve", "moving:app", "--port", str(port))]
        app = ChildProcess(
            store,
            [*command, "--host", "dapr"],
            log=self._folder / f"{store}.log",
            folder=self._folder,
            environment=sidecar.environment,
        )
        await app.start()
        await app.wait_ready(answers_ok(f"{url}/readyz"))
        async with aiohttp.ClientSession() as session:
            yield Rest(url, session)
        await app.terminate()
        assert app.returncode == 0
        await sidecar.stop()


async def leave(rest: Rest, name: str) -> str:
    """Leaves work of every kind unfinished. Returns the id of a lock."""
    await rest("PUT", "queue/activities/config", {"paused": True})
    for run in RUNS:
        await rest.start(run, f"{run}-{name}", f"{run} {name}")
    await rest.reaches(f"calls-{name}", "ActivityScheduled")
    await rest.push("orders", *(f"{name} {number}" for number in range(3)))
    lock_id = await rest.lock("orders")
    await rest.push("later", name, delay_seconds=4)
    await rest("POST", f"idempotency/default/{name}/begin", {"owner": "me"})
    await rest("POST", f"idempotency/default/{name}/commit", {"owner": "me", "result": name})
    return lock_id


async def go_on(rest: Rest, name: str, lock_id: str) -> None:
    """Finishes the work that was left on the host before."""
    begun = await rest("POST", f"idempotency/default/{name}/begin", {"owner": "you"})
    assert (begun["outcome"], begun["result"]) == ("done", name)
    assert (await rest("POST", "queue/orders/acknowledge", {"lock_id": lock_id}))["items_acknowledged"] == 1
    assert (await rest("POST", "queue/orders/pop?count=10"))["items"] == [f"{name} 1", f"{name} 2"]
    assert (await rest("POST", "queue/later/pop?wait_seconds=30"))["items"] == [name]
    assert (await rest("GET", "queue/activities"))["count"] >= 1
    await rest("PUT", "queue/activities/config", {"paused": False})
    await rest.raise_event(f"waits-{name}", "go", None)
    for run in RUNS:
        assert (await rest.ended(f"{run}-{name}", timeout_seconds=60))["output"] == f"{run} {name}"
    seen = (await ticks(rest))[0]

    async def another() -> bool:
        return (await ticks(rest))[0] != seen

    await eventually(another, what="the schedule ticks")


async def ticks(rest: Rest) -> list[str]:
    """Returns the instances of the schedule, the newest first."""
    found: list[dict[str, Any]] = (await rest("GET", "schedules/every"))["last"]
    return sorted((tick["instance_id"] for tick in found if "instance_id" in tick), reverse=True)


async def test_everything_goes_on_at_each_host(tmp_path: Path, new_database: Callable[[], Awaitable[str]]) -> None:
    (tmp_path / "moving.py").write_text(_APP)
    first, last = (f"sqlite://{tmp_path}/{name}/data/holdfast.db" for name in ("first", "last"))
    v2, v1, file = await new_database(), await new_database(), tmp_path / "state.db"
    async with LocalDapr(tmp_path / "dapr", find_dapr()) as dapr:
        hosts = Hosts(tmp_path, dapr)
        async with hosts.embedded("first") as rest:
            await rest("PUT", "schedules/every", {"orchestration": "tick", "every_seconds": 2})
            lock_id = await leave(rest, "first")
        moved(first, v2, "--create", "v2")
        async with hosts.beside_daprd("postgresql-v2", v2) as rest:
            await go_on(rest, "first", lock_id)
            lock_id = await leave(rest, "v2")
        moved(v2, f"sqlite://{file}")
        async with hosts.beside_daprd("sqlite", str(file)) as rest:
            await go_on(rest, "v2", lock_id)
            lock_id = await leave(rest, "sqlite")
        moved(f"sqlite://{file}", v1, "--create", "v1")
        async with hosts.beside_daprd("postgresql-v1", v1) as rest:
            await go_on(rest, "sqlite", lock_id)
            lock_id = await leave(rest, "v1")
        moved(v1, last)
        async with hosts.embedded("last") as rest:
            await go_on(rest, "v1", lock_id)
            assert (await rest("GET", "queue/orders"))["count"] == 0
            found = await rest("GET", "orchestrations/counts?name=tick")
            assert set(found["counts"]) <= {"COMPLETED", "RUNNING", "PENDING"}
    done = Counter((tmp_path / "done.txt").read_text().splitlines())
    assert done == {f"{run} {name}": 1 for run in RUNS for name in ("first", "v2", "sqlite", "v1")}
