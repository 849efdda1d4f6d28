"""Starts, watches, stops and kills child processes, which never outlive this process."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from holdfast.errors import ComponentFailed

if TYPE_CHECKING:
    import io
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from types import TracebackType

_LAUNCHER = Path(__file__).with_name("launch.py")
_POLL_SECONDS = 0.05
_LAST_LINES_SECONDS = 2.0
_LOG_TAIL_BYTES = 4096
_LOG_TAIL_LINES = 20


@dataclass(frozen=True)
class Account:
    """The user and group a process runs as, if not our own."""

    user: int
    group: int


def ending_with_us(command: Sequence[str], death_signal: signal.Signals, account: Account | None = None) -> list[str]:
    """Returns the command that runs another under the account; on Linux that one gets the signal when we end."""
    name = f"{account.user}:{account.group}" if account else "-"
    launcher = [sys.executable, "-I", "-S", str(_LAUNCHER), str(os.getpid()), str(int(death_signal)), name]
    return [*launcher, *command]


class ChildProcess:
    """A program that is started in its own session; it can be started again after it ended.

    Its output is appended to `log`; `on_line` is also called with each line. On Linux it ends when the thread that
    started it ends, for whatever reason.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        log: Path,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
        on_line: Callable[[str], None] | None = None,
        account: Account | None = None,
        stop_signal: signal.Signals = signal.SIGTERM,
        death_signal: signal.Signals = signal.SIGKILL,
    ) -> None:
        self.name = name
        self.command = [str(part) for part in command]
        self.log = log
        self.environment = dict(environment or {})
        self._folder = folder
        self._on_line = on_line
        self._account = account
        self._stop_signal = stop_signal
        self._death_signal = death_signal
        self._process: asyncio.subprocess.Process | None = None
        self._pump: asyncio.Task[None] | None = None
        self._log_start = 0

    @property
    def pid(self) -> int:
        if self._process is None:
            raise ComponentFailed(f"{self.name} was not started.")
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def returncode(self) -> int | None:
        """The exit code as in `subprocess`: negative for a signal, None while it runs."""
        return None if self._process is None else self._process.returncode

    async def start(self) -> None:
        if self.running:
            raise ComponentFailed(f"{self.name} is already running.")
        with self._open_log() as log:
            self._log_start = log.tell()
            self._process = await asyncio.create_subprocess_exec(
                *ending_with_us(self.command, self._death_signal, self._account),
                stdin=asyncio.subprocess.DEVNULL,
                # Directly into the file without `on_line`, so that a busy event loop never slows the child.
                stdout=log if self._on_line is None else asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                env={**os.environ, **self.environment},
                cwd=self._folder,
                start_new_session=True,
            )
        _groups.add(self._process.pid)
        if self._on_line is not None and self._process.stdout is not None:
            self._pump = asyncio.create_task(self._follow(self._process.stdout, self._on_line))

    async def wait(self) -> int:
        """Waits until the process has ended, and returns its exit code."""
        if self._process is None:
            raise ComponentFailed(f"{self.name} was not started.")
        code = await self._process.wait()
        if self._pump is not None:
            # With a time limit: processes it started may keep its output open.
            done, _ = await asyncio.wait([self._pump], timeout=_LAST_LINES_SECONDS)
            for pump in done:
                pump.result()
        return code

    async def wait_ready(self, probe: Callable[[], Awaitable[bool]], *, timeout: float = 60.0) -> None:
        """Waits until `probe` succeeds; raises ComponentFailed when the process ends first or after `timeout`."""
        deadline = asyncio.get_running_loop().time() + timeout
        while True:
            if not self.running:
                raise ComponentFailed(f"{self.name} {self.ending()} before it was ready. {self.log_tail()}")
            if await probe():
                return
            if asyncio.get_running_loop().time() > deadline:
                raise ComponentFailed(f"{self.name} was not ready within {timeout:g} s. {self.log_tail()}")
            await asyncio.sleep(_POLL_SECONDS)

    def send_signal(self, number: signal.Signals) -> None:
        """Sends a signal to the process only: it stops its own children in the right order."""
        if self.running:
            # It may have ended without the event loop knowing yet.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    async def terminate(self, *, grace: float = 15.0) -> None:
        """Asks the process to stop, and kills its process group if it takes longer than `grace`."""
        if self.running:
            self.send_signal(self._stop_signal)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.wait(), grace)
        await self.kill()

    async def kill(self) -> None:
        """Kills the process group, like `kill -9`. Does nothing if it was ended already."""
        if self._process is None or self._process.pid not in _groups:
            return
        _kill_group(self._process.pid)
        _groups.discard(self._process.pid)
        await self.wait()

    async def restart(self, *, grace: float = 15.0) -> None:
        """Stops the process if it runs, then starts the same command again."""
        await self.terminate(grace=grace)
        await self.start()

    def ending(self) -> str:
        """Describes how the process ended, as the end of a sentence."""
        code = self.returncode
        if code is None:
            return "is running" if self.running else "was not started"
        if code < 0:
            return f"was ended by {signal.Signals(-code).name}"
        return f"ended with exit code {code}"

    def logged(self) -> str:
        """Returns its output since its last start."""
        with self.log.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")

    def log_tail(self) -> str:
        """Returns a sentence followed by the last lines logged since its last start."""
        try:
            with self.log.open("rb") as log:
                log.seek(max(self._log_start, log.seek(0, os.SEEK_END) - _LOG_TAIL_BYTES))
                lines = log.read().decode(errors="replace").splitlines()[-_LOG_TAIL_LINES:]
        except OSError as error:
            return f"Its log {self.log} cannot be read: {error}."
        return f"The end of its log, {self.log}:\n" + "\n".join(f"  {line}" for line in lines)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.terminate()

    def _open_log(self) -> io.FileIO:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        # Without a buffer, so that it is complete after a crash.
        return self.log.open("ab", buffering=0)

    async def _follow(self, lines: asyncio.StreamReader, on_line: Callable[[str], None]) -> None:
        rest = b""
        with self._open_log() as log:
            # In chunks: readline() fails on lines longer than the reader's limit.
            while chunk := await lines.read(65_536):
                log.write(chunk)
                *whole, rest = (rest + chunk).split(b"\n")
                for line in whole:
                    on_line(line.decode(errors="replace"))
            if rest:
                on_line(rest.decode(errors="replace"))


# Process groups that may still have processes. On macOS, where the kernel does not signal children when their parent
# dies, they are killed when Python exits; a fork of this process must not do that.
_groups: set[int] = set()
_owner = os.getpid()


@atexit.register
def _kill_what_is_left() -> None:
    if os.getpid() != _owner:
        return
    for group in _groups:
        _kill_group(group)


def _kill_group(group: int) -> None:
    # macOS raises PermissionError for a group that has only zombies left.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
