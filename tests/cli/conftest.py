"""A server, and the command in a process of its own, as users start it."""

from __future__ import annotations

import itertools
import json
import os
import pty
import shutil
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from holdfast.cli.main import cli
from tests.support import workflows
from tests.support.server import Server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_numbers = itertools.count()
_SECONDS = 60


@dataclass(frozen=True)
class Ended:
    """The exit code and the output of a command."""

    code: int
    output: str
    error: str

    def json(self) -> Any:
        return json.loads(self.output)

    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.output.splitlines()]


class Command:
    """``holdfast``, in a folder of its own."""

    def __init__(self, url: str, folder: Path) -> None:
        self.folder = folder
        self.path = str(Path(sys.executable).with_name("holdfast"))
        own = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
        self.environment = own | {"HOLDFAST_URL": url, "COLUMNS": "120", "TERM": "xterm-256color"}

    def __call__(self, *arguments: str, typed: str = "", **environment: str) -> Ended:
        """As a process of its own."""
        done = subprocess.run(
            [self.path, *arguments],
            input=typed,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            cwd=self.folder,
            env=self.environment | environment,
            check=False,
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    def queue(self, *arguments: str, typed: str = "") -> Ended:
        return self.inside("queue", *arguments, typed=typed)

    def orchestration(self, *arguments: str, typed: str = "") -> Ended:
        return self.inside("orchestration", *arguments, typed=typed)

    def idempotency(self, *arguments: str, typed: str = "") -> Ended:
        return self.inside("idempotency", *arguments, typed=typed)

    def inside(self, *arguments: str, typed: str = "") -> Ended:
        """In this process, which is quicker."""
        done = CliRunner().invoke(cli, arguments, input=typed, env=self.environment)
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return Ended(done.exit_code, done.stdout, done.stderr)

    def on_terminal(self, *arguments: str) -> Terminal:
        return Terminal(self, arguments)


class Terminal:
    """The command on a terminal; what it shows is gathered while it runs."""

    def __init__(self, command: Command, arguments: tuple[str, ...]) -> None:
        self._screen, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [command.path, *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=command.folder,
            env=command.environment,
            start_new_session=True,
        )
        os.close(theirs)
        self._shown = b""
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    @property
    def shown(self) -> str:
        return self._shown.decode(errors="replace")

    def wait_for(self, text: str) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: text in self.shown, timeout=_SECONDS), self.shown

    def type(self, text: str) -> None:
        os.write(self._screen, text.encode())

    def end(self) -> int:
        try:
            return self.process.wait(_SECONDS)
        finally:
            self.process.kill()
            self._reader.join()
            os.close(self._screen)

    def _read(self) -> None:
        while True:
            try:
                chunk = os.read(self._screen, 65_536)
            except OSError:  # Linux raises this when the last writer has closed the terminal
                return
            if not chunk:
                return
            with self._changed:
                self._shown += chunk
                self._changed.notify_all()


@pytest.fixture(scope="package")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    shutil.copy(Path(workflows.__file__), folder)
    async with Server(folder, "workflows:app") as running:
        yield running


@pytest.fixture
def holdfast(server: Server, tmp_path: Path) -> Command:
    return Command(server.url, tmp_path)


@pytest.fixture
def name() -> str:
    return f"queue-{next(_numbers)}"
