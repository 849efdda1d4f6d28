"""The Tiltfile: its graph, and the Dapr that its own commands give when they run in that order."""

from __future__ import annotations

import asyncio
import random
import re
import socket
from graphlib import TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
import starlark

from holdfast.local import ChildProcess
from holdfast.local.ports import free_port
from tests.packaging.tiltfile import Resource, evaluate
from tests.support.checkout import ROOT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

SECONDS_UNTIL_READY = 60.0
PORTS_OF_DAPR = 11


def first_of_free_ports(count: int) -> int:
    for first in random.sample(range(15_000, 32_000 - count), 200):
        try:
            for port in range(first, first + count):
                with socket.socket() as candidate:
                    candidate.bind(("", port))
        except OSError:
            continue
        return first
    raise AssertionError(f"No {count} free ports in a row.")


def in_order(resources: dict[str, Resource]) -> list[Resource]:
    graph = {name: resource.resource_deps for name, resource in resources.items()}
    return [resources[name] for name in TopologicalSorter(graph).static_order()]


def test_each_starts_after_what_it_needs() -> None:
    order = [resource.name for resource in in_order(evaluate())]
    assert set(order) == {"binaries", "placement", "scheduler", "postgresql", "daprd", "app"}
    assert order[-2:] == ["daprd", "app"]
    assert order.index("binaries") < min(order.index("placement"), order.index("scheduler"))


def test_whatever_serves_says_when_it_is_ready() -> None:
    for resource in evaluate().values():
        assert bool(resource.serve_cmd) == (resource.readiness_probe is not None), resource.name


def test_nothing_listens_or_is_asked_beyond_loopback() -> None:
    told = evaluate()
    for resource in told.values():
        words = " ".join([*resource.serve_cmd, str(resource.readiness_probe), str(resource.links)])
        assert not re.search(r"localhost|0\.0\.0\.0|::|listen[\w-]*=(?!127\.0\.0\.1)", words), resource.name
    assert "--listen=127.0.0.1" in told["app"].serve_cmd
    assert "--dapr-listen-addresses=127.0.0.1" in told["daprd"].serve_cmd
    assert told["daprd"].serve_env["DAPR_HOST_IP"] == "127.0.0.1"


def test_every_port_has_one_owner() -> None:
    told = evaluate(port="18080", ports="18100")
    flags = [flag for name in ("placement", "scheduler", "daprd") for flag in told[name].serve_cmd]
    taken = [
        int(match[1])
        for flag in flags
        if (match := re.fullmatch(r"--(?:(?!app)[\w-]*port|[\w-]*initial-cluster)=(?:.*:)?(\d+)", flag))
    ]
    assert sorted(taken) == list(range(18100, 18100 + PORTS_OF_DAPR))
    assert "--app-port=18080" in flags
    assert "--port=18080" in told["app"].serve_cmd


def test_the_app_starts_again_when_a_source_changes_but_not_when_python_compiles_it() -> None:
    app = evaluate()["app"]
    assert [str(ROOT / "actors" / "holdfast"), str(ROOT / "examples" / "counter.py")] == app.deps
    assert all(Path(path).exists() for path in app.deps)
    assert "**/__pycache__" in app.ignore
    assert app.serve_env["PYTHONDONTWRITEBYTECODE"] == "1"


def test_daprd_starts_again_when_the_database_moved() -> None:
    told = evaluate()
    component = told["postgresql"].cmd[-1]
    assert told["postgresql"].cmd[:2] == ["rm", "-f"]
    assert told["postgresql"].readiness_probe == {"exec": ["test", "-s", component], "period_secs": 1}
    assert str(Path(component).parent) in told["daprd"].deps


def test_another_app_is_served_and_watched() -> None:
    app = evaluate(app="shop.orders:app")["app"]
    assert "shop.orders:app" in app.serve_cmd
    assert str(ROOT / "shop" / "orders.py") in app.deps


def test_without_an_environment_it_says_how_to_make_one() -> None:
    with pytest.raises(starlark.StarlarkError, match="pip install"):
        evaluate(missing=str(ROOT / ".venv" / "bin" / "python"))


class Running:
    """The graph's processes, started, updated and ended as Tilt does it."""

    def __init__(self, resources: dict[str, Resource], logs: Path) -> None:
        self.resources = resources
        self.processes: dict[str, ChildProcess] = {}
        self._logs = logs

    async def start(self, name: str) -> None:
        """Runs `cmd`, then what it serves in place of what it served before; returns when that is ready."""
        resource = self.resources[name]
        if resource.cmd:
            update = self._process(f"{name}-cmd", resource.cmd, resource)
            await update.start()
            assert await update.wait() == 0, update.log_tail()
        if resource.serve_cmd:
            if before := self.processes.get(name):
                await before.terminate()
                assert before.returncode == 0, f"{name} {before.ending()}. {before.log_tail()}"
            self.processes[name] = self._process(name, resource.serve_cmd, resource)
            await self.processes[name].start()
            await self.wait_ready(name)

    async def wait_ready(self, name: str) -> None:
        probe = self.resources[name].readiness_probe
        assert probe is not None
        await self.processes[name].wait_ready(_asks(probe), timeout=SECONDS_UNTIL_READY)

    async def stop(self) -> None:
        for process in reversed(self.processes.values()):
            await process.terminate()

    def _process(self, name: str, command: list[str], resource: Resource) -> ChildProcess:
        return ChildProcess(
            name,
            command,
            log=self._logs / f"{name}.log",
            environment=resource.serve_env,
            folder=Path(resource.serve_dir),
        )


def _asks(probe: dict[str, Any]) -> Callable[[], Awaitable[bool]]:
    async def http_get() -> bool:
        timeout = aiohttp.ClientTimeout(total=2)
        try:
            async with aiohttp.ClientSession(timeout=timeout) as session, session.get(probe["http_get"]) as answer:
                return answer.ok
        except (aiohttp.ClientError, TimeoutError):
            return False

    async def run() -> bool:
        process = await asyncio.create_subprocess_exec(*probe["exec"])
        return await process.wait() == 0

    return http_get if "http_get" in probe else run


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    resources = evaluate(
        port=str(free_port()), ports=str(first_of_free_ports(PORTS_OF_DAPR)), data=str(tmp_path / "data")
    )
    graph = Running(resources, tmp_path)
    try:
        for resource in in_order(resources):
            await graph.start(resource.name)
        yield graph
    finally:
        await graph.stop()


async def call(graph: Running, method: str, body: bytes = b"") -> str:
    return await ask(graph, f"/v1.0/actors/CounterActor/tilt/method/{method}", body)


async def ask(graph: Running, path: str, body: bytes) -> str:
    daprd = graph.resources["daprd"].readiness_probe
    assert daprd is not None
    url = f"{daprd['http_get'].removesuffix('/v1.0/healthz/outbound')}{path}"
    async with aiohttp.ClientSession() as session, session.post(url, data=body) as answer:
        text = await answer.text()
        assert answer.status == 200, text
        return text


async def test_its_commands_give_a_dapr_that_serves_reloads_and_ends(running: Running) -> None:
    assert await call(running, "Add", b"42") == "42"
    pushed = await ask(running, "/v1.0/invoke/holdfast/method/queue/orders/push", b'{"item": 1}')
    assert '"count":1' in pushed

    await running.start("app")
    assert await call(running, "Get") == "42"

    await running.start("postgresql")
    await running.start("daprd")
    await running.wait_ready("app")
    assert await call(running, "Get") == "42"

    await running.stop()
    for name, process in running.processes.items():
        assert process.returncode == 0, f"{name} {process.ending()}. {process.log_tail()}"
