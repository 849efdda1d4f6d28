"""``holdfast serve --reload``: a changed Python file restarts the server, with its data."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import psutil
import pytest

from holdfast.cli.reload import python_files
from holdfast.local import ChildProcess
from holdfast.local.health import answers_ok
from tests.cli.test_log_fields import lines_of
from tests.golden.recorder import Rest
from tests.support.server import Server
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.cli.conftest import Command

_APP = """
from holdfast import App, Context
from words import GREETING

app = App()

@app.orchestration
async def greet(ctx: Context, name: str) -> str:
    return f"{GREETING} {name}"
"""


def say(folder: Path, greeting: str) -> None:
    (folder / "words.py").write_text(f"GREETING = {greeting!r}\n")


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "greeter.py").write_text(_APP)
    say(folder, "Hello")
    return folder


@asynccontextmanager
async def reloading(tmp_path: Path, code: Path, *options: str) -> AsyncIterator[tuple[Server, Rest]]:
    server = Server(tmp_path, "greeter:app", "--reload", *options, imports=code)
    async with server, aiohttp.ClientSession() as session:
        yield server, Rest(server.url, session)


async def greets(rest: Rest, instance: str) -> Any:
    await rest.start("greet", instance, "Ann")
    return (await rest.ended(instance))["output"]


async def ready_again(server: Server, restarts: int) -> None:
    async def restarted() -> bool:
        return server.logged().count("Holdfast on http://") == restarts + 1

    await eventually(restarted, what="the server started again")
    await eventually(answers_ok(f"{server.url}/readyz"), what="the server is ready")


async def test_a_changed_module_is_served_after_an_orderly_restart_with_the_same_data(
    tmp_path: Path, code: Path
) -> None:
    async with reloading(tmp_path, code) as (server, rest):
        assert await greets(rest, "one") == "Hello Ann"
        await rest.push("orders", "tea")
        say(code, "Howdy")  # as long as the word before
        await ready_again(server, 1)
        assert await greets(rest, "two") == "Howdy Ann"
        assert (await rest.ended("one"))["output"] == "Hello Ann"
        assert (await rest("POST", "queue/orders/pop"))["items"] == ["tea"]
        assert f"{code / 'words.py'} changed; the server restarts" in server.logged()
        assert "SIGTERM: stopping" in server.logged()
        assert await server.stop() == 0
        assert not await answers_ok(f"{server.url}/readyz")()


async def test_code_that_cannot_be_imported_is_waited_out(tmp_path: Path, code: Path) -> None:
    async with reloading(tmp_path, code) as (server, rest):
        (code / "words.py").write_text("GREETING = \n")
        await server.says("the server ended with exit code 1; it starts again after a change")
        assert "SyntaxError" in server.logged()
        assert server.running
        say(code, "Salute")
        await ready_again(server, 1)
        assert await greets(rest, "one") == "Salute Ann"
        (code / "words.py").write_text("GREETING = \n")
        await eventually(lambda: server.logged().count("it starts again after a change") == 2)
        # Nothing runs that could be stopped.
        assert await server.stop() == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_stops_both_processes(tmp_path: Path, code: Path, number: signal.Signals) -> None:
    async with reloading(tmp_path, code) as (server, _):
        [child] = psutil.Process(server.pid).children()
        server.send_signal(number)
        assert await server.wait() == 0
        assert not child.is_running()


async def test_ctrl_c_reaches_both_processes_and_stops_the_server_once_in_order(tmp_path: Path, code: Path) -> None:
    async with reloading(tmp_path, code) as (server, _):
        os.killpg(server.pid, signal.SIGINT)  # as a terminal does
        assert await server.wait() == 0
        assert server.logged().count("SIGINT: stopping") == 1
        assert "Traceback" not in server.logged()


async def test_a_killed_supervisor_leaves_no_server(tmp_path: Path, code: Path) -> None:
    async with reloading(tmp_path, code) as (server, _):
        [child] = psutil.Process(server.pid).children()
        server.send_signal(signal.SIGKILL)
        await server.wait()
        await eventually(lambda: not child.is_running(), what="the server ends")


async def test_a_package_elsewhere_is_watched_and_json_is_json_from_the_first_line(tmp_path: Path, code: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    process = ChildProcess(
        "server",
        [Path(sys.executable).with_name("holdfast"), "serve", "greeter:app", "--reload", "--log-format", "json"],
        log=tmp_path / "server.log",
        folder=elsewhere,
        environment={
            "PYTHONPATH": os.pathsep.join([str(code), os.environ.get("PYTHONPATH", "")]),
            "HOLDFAST_PORT": str(Server(tmp_path).port),
        },
    )
    async with process:
        await eventually(lambda: "Holdfast on http" in process.logged())
        (code / "greeter.py").write_text(_APP + "\n# changed\n")
        await eventually(lambda: process.logged().count("Holdfast on http") == 2)
    messages = [line["message"] for line in lines_of(process.logged())]
    assert messages[0].startswith("the server restarts when a Python file changes: ")
    assert f"{code / 'greeter.py'} changed; the server restarts" in messages


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ((), "--reload needs an app"),
        (("greeter:app", "--port", "0"), "--reload needs fixed ports"),
        (("greeter:app", "--grpc-port", "0"), "--reload needs fixed ports"),
    ],
)
def test_options_that_make_no_sense_with_it_are_refused(
    holdfast: Command, options: tuple[str, ...], reason: str
) -> None:
    ended = holdfast("serve", "--reload", *options)
    assert ended.code == 1
    assert ended.error.startswith(f"holdfast: {reason}")


def test_hidden_folders_and_virtual_environments_are_not_read(tmp_path: Path) -> None:
    for file in ("app.py", "shop/orders.py", ".git/hook.py", "env/pyvenv.cfg", "env/lib/x.py", "shop/data.json"):
        (tmp_path / file).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / file).write_text("")
    read = {Path(file).relative_to(tmp_path).as_posix() for file in python_files([tmp_path])}
    assert read == {"app.py", "shop/orders.py"}
