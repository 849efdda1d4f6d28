"""`holdfast dev`: the example app on real Dapr, with one command, one log and one Ctrl-C."""

from __future__ import annotations

import os
import re
import shlex
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import psutil
import pytest

from holdfast.local import ChildProcess, find_dapr
from holdfast.local.health import answers_ok
from holdfast.local.ports import free_port
from tests.support.checkout import ROOT
from tests.support.waiting import is_gone, until_line

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping


pytestmark = pytest.mark.xdist_group("local-stack")


class Dev:
    """A run of the command with a data folder."""

    def __init__(self, folder: Path, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
        self.port = free_port()
        command = [sys.executable, "-m", "holdfast", "dev"]
        options = ["--port", str(self.port), "--data", str(folder / "data")]
        self.process = ChildProcess(
            "dev",
            [*command, *options, *arguments],
            log=folder / f"dev-{self.port}.log",
            folder=ROOT,
            environment=environment,
        )

    @property
    def output(self) -> str:
        return self.process.logged()

    async def ready(self) -> str:
        """The sidecar's address, once the command says that all is up."""
        match = await until_line(
            self.process, r"Holdfast on http://127\.0\.0\.1:(\d+), with daprd on (\S+)", timeout=90
        )
        self.port = int(match[1])
        return match[2]

    def children(self) -> dict[str, int]:
        found = psutil.Process(self.process.pid).children()
        return {"app" if "serve" in child.cmdline() else child.name(): child.pid for child in found}


@pytest.fixture
async def running(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Dev]:
    dev = Dev(tmp_path, "examples.counter:app", *getattr(request, "param", ()))
    await dev.process.start()
    yield dev
    await dev.process.terminate(grace=60)


def passwords(folder: Path) -> list[str]:
    return [file.read_text() for file in folder.rglob("password")]


async def add(sidecar: str, amount: int) -> int:
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20)) as session,
        session.post(f"{sidecar}/v1.0/actors/CounterActor/demo/method/Add", json=amount) as answer,
    ):
        assert answer.status == 200, await answer.text()
        return int(await answer.text())


@pytest.mark.parametrize("running", [["--store", "sqlite"], ["--store", "postgresql"]], indirect=True, ids=str)
async def test_an_actor_counts_on_over_two_runs(running: Dev, tmp_path: Path) -> None:
    assert await add(await running.ready(), 2) == 2
    assert not [secret for secret in passwords(tmp_path) if secret in running.output]
    processes = running.children()
    assert {"app", "daprd", "placement", "scheduler"} <= set(processes)
    running.process.send_signal(signal.SIGINT)
    assert await running.process.wait() == 0, running.output
    assert all(is_gone(pid) for pid in processes.values())
    assert "Stopping: the app finishes its turns first" in running.output

    await running.process.start()
    assert await add(await running.ready(), 3) == 5


async def push(sidecar: str, item: int) -> tuple[int, str | None, str]:
    """By the app id of Holdfast, through this sidecar: what came of it."""
    url = f"{sidecar}/v1.0/invoke/holdfast/method/queue/orders/push"
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20)) as session,
        session.post(url, json={"item": item}) as answer,
    ):
        return answer.status, answer.headers.get("content-type"), await answer.text()


async def test_it_is_called_by_its_app_id_through_any_sidecar(running: Dev, tmp_path: Path) -> None:
    own = await running.ready()
    joining = await until_line(running.process, r"Other services call it as 'holdfast': dapr run (.+)")
    port = free_port()
    ports = ["--dapr-http-port", port, "--dapr-grpc-port", free_port(), "--metrics-port", free_port()]
    internal = ["--dapr-internal-grpc-port", free_port(), "--dapr-internal-grpc-listen-address", "127.0.0.1"]
    other = ChildProcess(
        "other",
        [find_dapr().daprd, "--app-id", "shop", *map(str, [*ports, *internal]), *shlex.split(joining[1])],
        log=tmp_path / "other.log",
        environment={"DAPR_HOST_IP": "127.0.0.1"},
    )
    await other.start()
    try:
        others = f"http://127.0.0.1:{port}"
        await other.wait_ready(answers_ok(f"{others}/v1.0/healthz/outbound"))
        for sidecar in (own, others):
            status, kind, text = await push(sidecar, 1)
            assert (status, kind) == (200, "application/json"), text
            # Statuses and errors pass through as they are.
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"{sidecar}/v1.0/invoke/holdfast/method/orchestrations/none?x=1") as answer,
            ):
                assert answer.status in (400, 404)
                assert (await answer.json())["success"] is False
            async with (
                aiohttp.ClientSession() as session,
                session.post(f"{sidecar}/v1.0/invoke/nowhere/method/queue/orders/push", json={"item": 1}) as answer,
            ):
                assert answer.status == 500
        assert await add(others, 4) == 4
    finally:
        await other.terminate()


@pytest.fixture
def temporary_files() -> Iterator[Path]:
    """A folder for temporary files: where there is another file system for them, as on Linux, it is there."""
    shared_memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared_memory if os.access(shared_memory, os.W_OK) else None) as folder:
        yield Path(folder)


@pytest.mark.parametrize(("store", "mask"), [("sqlite", 0o077), ("postgresql", 0o077), ("postgresql", 0o000)])
async def test_any_name_of_the_folder_and_any_umask_will_do(
    tmp_path: Path, temporary_files: Path, store: str, mask: int
) -> None:
    folder = tmp_path / "it's a földer (日本) & more"
    folder.mkdir()
    dev = Dev(folder, "examples.counter:app", "--store", store, environment={"TMPDIR": str(temporary_files)})
    before = os.umask(mask)
    try:
        await dev.process.start()
    finally:
        os.umask(before)
    try:
        assert await add(await dev.ready(), 2) == 2
    finally:
        await dev.process.terminate(grace=60)
    secrets = [*folder.rglob("password"), *folder.rglob("statestore.yaml")]
    assert secrets
    assert not [file for file in secrets if file.stat().st_mode & 0o077]


@pytest.mark.parametrize("running", [["--port", "0"]], indirect=True, ids=str)
async def test_the_log_names_who_speaks(running: Dev) -> None:
    await running.ready()
    assert running.port > 0
    await until_line(running.process, r"app        \| .*Holdfast on .*")
    running.process.send_signal(signal.SIGTERM)
    assert await running.process.wait() == 0
    assert not re.search(r"^(daprd|placement|scheduler)", running.output, re.M), "an orderly run has no errors to show"


@pytest.mark.parametrize("victim", ["daprd", "scheduler", "app"])
async def test_when_one_dies_all_end_with_a_sentence(running: Dev, victim: str) -> None:
    await running.ready()
    processes = running.children()
    psutil.Process(processes[victim]).kill()
    assert await running.process.wait() == 1
    assert f"{victim} was ended by SIGKILL, so everything was stopped." in running.output
    assert "Traceback" not in running.output
    assert all(is_gone(pid) for pid in processes.values())


async def test_a_second_run_on_the_same_data_is_refused(running: Dev, tmp_path: Path) -> None:
    await running.ready()
    second = Dev(tmp_path, "examples.counter:app")
    await second.process.start()
    assert await second.process.wait() == 1
    assert re.search(r"data folder .+ is in use by process \d+", second.output)
    assert running.process.running


async def test_an_app_that_is_not_there_ends_it_with_the_apps_own_words(tmp_path: Path) -> None:
    dev = Dev(tmp_path, "no_such_module:app")
    await dev.process.start()
    assert await dev.process.wait() == 1
    assert "There is no module no_such_module:" in dev.output
    assert "app ended with exit code 1" in dev.output
    assert "Traceback" not in dev.output
