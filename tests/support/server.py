"""A real server in a process of its own."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Self

from holdfast.local import ChildProcess
from holdfast.local.health import answers_ok
from holdfast.local.ports import free_port
from tests.support.waiting import eventually


class Server:
    """``holdfast serve`` on the embedded host."""

    def __init__(self, folder: Path, *options: str, imports: Path | None = None) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        command = [
            *(Path(sys.executable).with_name("holdfast"), "serve", "--port", str(self.port)),
            *("--data", str(folder / "data"), *options),
        ]
        # Apps are found in its working directory.
        self._process = ChildProcess("server", command, log=folder / "server.log", folder=imports or folder)

    async def start(self) -> None:
        await self._process.start()
        await self._process.wait_ready(answers_ok(f"{self.url}/readyz"))

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.running

    async def kill(self) -> None:
        await self._process.kill()

    def logged(self) -> str:
        """Returns the server's log."""
        return self._process.logged()

    async def says(self, words: str) -> None:
        """Waits until its log has these words."""

        async def said() -> bool:
            return words in self._process.logged()

        await eventually(said, what=f"the server says {words!r}")

    def send_signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    async def wait(self) -> int:
        """Waits for its end, and returns the exit code."""
        return await self._process.wait()

    async def stop(self) -> int:
        """Sends SIGTERM, and returns the exit code."""
        self.send_signal(signal.SIGTERM)
        return await self.wait()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._process.terminate()
