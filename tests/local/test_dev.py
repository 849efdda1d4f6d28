"""`holdfast dev`: the example app on real Dapr, with one command, one log and one Ctrl-C."""

from __future__ import annotations

import re
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import psutil
import pytest

from holdfast.local import ChildProcess
from holdfast.local.ports import free_port
from local.waiting import is_gone, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.xdist_group("local-stack")


class Dev:
    """One run of the command in a folder of data."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.port = free_port()
        command = [sys.executable, "-m", "holdfast", "dev"]
        options = ["--port", str(self.port), "--data", str(folder / "data")]
        self.process = ChildProcess(
            "dev", [*command, *options, *arguments], log=folder / f"dev-{self.port}.log", folder=ROOT
        )

    @property
    def output(self) -> str:
        return self.process.logged()

    async def ready(self) -> str:
        """The sidecar's address, once the command says that all is up."""
        await until(
            lambda: "beside daprd on" in self.output or not self.process.running,
            what=f"dev is ready\n{self.output}",
            timeout=90,
        )
        match = re.search(r"^Holdfast on http://127\.0\.0\.1:(\d+), beside daprd on (\S+)$", self.output, re.M)
        assert match, self.output
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


@pytest.mark.parametrize("running", [["--port", "0"]], indirect=True, ids=str)
async def test_the_log_names_who_speaks(running: Dev) -> None:
    await running.ready()
    assert running.port > 0
    assert re.search(r"^app        \| .*Holdfast on", running.output, re.M)
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
    assert re.search(r"data folder \S+ is in use by process \d+", second.output)
    assert running.process.running


async def test_an_app_that_is_not_there_ends_it_with_the_apps_own_words(tmp_path: Path) -> None:
    dev = Dev(tmp_path, "no_such_module:app")
    await dev.process.start()
    assert await dev.process.wait() == 1
    assert "There is no module no_such_module here" in dev.output
    assert "app ended with exit code 1" in dev.output
    assert "Traceback" not in dev.output
