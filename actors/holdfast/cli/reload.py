"""``holdfast serve --reload``: runs the server as a child process, and starts it again when Python files change."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
import time
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import SettingsError
from holdfast.local.processes import ending_with_us

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

log = logging.getLogger(__name__)

# Names the process that restarts the server, so that the server knows that it is not that process itself.
_SUPERVISOR = "HOLDFAST_SUPERVISOR"
_POLL_SECONDS = 0.3
# Reading the times of a large tree of files may take at most this part of a processor.
_SHARE = 0.1
_SECONDS_AFTER_DRAIN = 10.0
_SKIPPED = {"__pycache__", "node_modules"}

Files = dict[str, tuple[int, int]]


def is_supervised() -> bool:
    """Returns whether this process is the server that :func:`supervise` of its parent runs."""
    return os.environ.get(_SUPERVISOR) == str(os.getppid())


def supervise(apps: Sequence[str], ports: Sequence[int | None], drain_timeout: float) -> int:
    """Runs this process' own command as the server until SIGTERM or Ctrl-C. Returns the exit code."""
    if not apps:
        raise SettingsError("--reload needs an app: name it as MODULE:APP, as in 'holdfast serve shop:app --reload'.")
    if 0 in ports:
        raise SettingsError("--reload needs fixed ports: with port 0, every restart would choose another one.")
    return asyncio.run(_Supervisor(_watched(apps), drain_timeout).run())


def python_files(roots: Sequence[Path]) -> Files:
    """Returns change time and size of each Python file below the roots, or that is a root itself.

    Hidden folders and virtual environments are left out.
    """
    found = {}
    for file in _walk(roots):
        # A file that is deleted in this moment.
        with contextlib.suppress(OSError):
            read = os.stat(file)
            found[file] = (read.st_mtime_ns, read.st_size)
    return found


def _walk(roots: Sequence[Path]) -> Iterator[str]:
    for root in roots:
        if root.is_file():
            yield str(root)
        for folder, inner, files in os.walk(root):
            if "pyvenv.cfg" in files:
                inner.clear()
                continue
            inner[:] = [name for name in inner if not name.startswith(".") and name not in _SKIPPED]
            yield from (os.path.join(folder, name) for name in files if name.endswith(".py"))


def _watched(apps: Sequence[str]) -> list[Path]:
    """Returns the working directory, and the package or module of each app that is somewhere else."""
    here = Path.cwd()
    found = [here]
    for app in apps:
        package = app.partition(":")[0].partition(".")[0]
        spec = PathFinder.find_spec(package, [str(here), *sys.path]) if package else None
        if spec is None:
            continue
        places = spec.submodule_search_locations or ([spec.origin] if spec.origin else [])
        found += [Path(place) for place in places if not Path(place).is_relative_to(here)]
    return found


class _Supervisor:
    """Starts the server, and again after each change; what it does not end with 0, it waits for a change."""

    def __init__(self, roots: Sequence[Path], drain_timeout: float) -> None:
        self._roots = roots
        self._drain_timeout = drain_timeout
        self._stopping = asyncio.Event()
        self._unstopped: asyncio.subprocess.Process | None = None

    async def run(self) -> int:
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._stop)
        log.info("the server restarts when a Python file changes: %s", ", ".join(str(root) for root in self._roots))
        stopping = asyncio.create_task(self._stopping.wait())
        while True:
            # Before the start: what changes while the server imports is a change.
            seen = python_files(self._roots)
            server = self._unstopped = await self._start()
            ended = asyncio.create_task(server.wait())
            changed = asyncio.create_task(self._change(seen))
            await asyncio.wait({ended, changed, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not (changed.done() or stopping.done()) and ended.result():
                log.error("the server ended with exit code %d; it starts again after a change", ended.result())
                await asyncio.wait({changed, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if changed.done() and not stopping.done():
                log.info("%s; the server restarts", changed.result())
            self._terminate()
            await asyncio.wait({ended}, timeout=self._drain_timeout + _SECONDS_AFTER_DRAIN)
            if not ended.done():
                log.error("the server did not stop in time and is killed")
                server.kill()
            code = await ended
            if not changed.done() or stopping.done():
                changed.cancel()
                # A server that was still importing is ended by the signal.
                return max(code, 0)

    async def _start(self) -> asyncio.subprocess.Process:
        command = ending_with_us([sys.executable, *sys.orig_argv[1:]], signal.SIGTERM)
        environment = {
            **os.environ,
            _SUPERVISOR: str(os.getpid()),
            # Bytecode names its source by size and whole seconds: two changes in a second could look like one.
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        return await asyncio.create_subprocess_exec(*command, env=environment)

    async def _change(self, seen: Files) -> str:
        """Waits until files have changed, and then no more; returns which."""
        before = seen
        while True:
            began = time.monotonic()
            now = python_files(self._roots)
            if now != seen and now == before:
                changed = sorted(file for file, _ in seen.items() ^ now.items())
                return f"{changed[0]} changed" + (" with others" if len(set(changed)) > 1 else "")
            before = now
            await asyncio.sleep(max(_POLL_SECONDS, (time.monotonic() - began) / _SHARE))

    def _stop(self) -> None:
        self._stopping.set()
        self._terminate()

    def _terminate(self) -> None:
        # Once. Ctrl-C reaches the server too, from the terminal, and there a second one means haste.
        server, self._unstopped = self._unstopped, None
        if server is not None and server.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                server.send_signal(signal.SIGTERM)
