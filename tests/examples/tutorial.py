"""Reads a tutorial and does what it says: writes its files, runs its commands, compares what they print."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.local import ChildProcess
from holdfast.local.health import answers_ok
from holdfast.local.ports import free_port
from tests.support.checkout import ROOT
from tests.support.waiting import eventually, until_line

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The first line of a command that goes on running.
_OWN_TERMINAL = "# in a terminal of its own\n"
#: Commands that only read: readers repeat them until they see what is shown.
_READING = re.compile(r"holdfast (queue (stats|dead-letters|peek)|orchestration (status|history)) ")
_SECONDS = 180


@dataclass(frozen=True)
class Block:
    """A block of code: its language, its text, and the paragraph before it."""

    language: str
    text: str
    before: str


def blocks(page: str) -> Iterator[Block]:
    text = (ROOT / "docs" / "tutorials" / f"{page}.md").read_text("utf-8")
    end = 0
    for found in re.finditer(r"^```(\w+)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        before = text[end : found.start()].strip().rpartition("\n\n")[2]
        yield Block(found[1], found[2], " ".join(before.split()))
        end = found.end()


class Tutorial:
    """A reader with a folder of its own. The ports of the page are replaced by free ones."""

    def __init__(self, page: str, folder: Path) -> None:
        self.page = page
        self.folder = folder
        self.port = free_port()
        #: What is replaced in commands and files, and back in what they print.
        self._addresses = {"127.0.0.1:8080": f"127.0.0.1:{self.port}"}
        own = {name: value for name, value in os.environ.items() if not name.startswith(("HOLDFAST_", "DAPR_"))}
        self._environment = own | {
            "HOLDFAST_PORT": str(self.port),
            "HOLDFAST_URL": f"http://127.0.0.1:{self.port}",
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYSPARK_PYTHON": sys.executable,
            "COLUMNS": "200",
        }
        self._terminals: dict[str, ChildProcess] = {}

    async def follow(self) -> None:
        try:
            left = deque(blocks(self.page))
            while left:
                block = left.popleft()
                if block.language == "python":
                    self._write(block)
                elif block.language == "text":
                    # Not after a command that ended: what the terminal opened last shows.
                    await self._prints(list(self._terminals.values())[-1], block.text)
                elif block.text.startswith(_OWN_TERMINAL):
                    await self._start(block.text.removeprefix(_OWN_TERMINAL).strip())
                else:
                    has_output = bool(left) and left[0].language == "text"
                    await self._run(block.text, left.popleft().text if has_output else None)
        finally:
            for terminal in reversed(self._terminals.values()):
                await terminal.terminate(grace=60)

    def _write(self, block: Block) -> None:
        if named := re.fullmatch(r".*[Ww]rite `([\w.]+)`.*:", block.before):
            (self.folder / named[1]).write_text(self._real(block.text))
            return
        # A change of lines of a file that begin as the first of the block does.
        named = re.search(r"lines of the check in `([\w.]+)`", block.before)
        assert named is not None, block.before
        file = self.folder / named[1]
        first = block.text.partition("\n")[0]
        kept, found, rest = file.read_text().partition(first)
        assert found, block.text
        number = block.text.count("\n")
        file.write_text(kept + block.text + "\n".join((found + rest).split("\n")[number:]))

    async def _start(self, command: str) -> None:
        if (before := self._terminals.pop(command, None)) is not None:
            before.send_signal(signal.SIGINT)
            await before.wait()
        program, *arguments = command.split()
        log = self.folder / f"terminal-{len(list(self.folder.glob('terminal-*')))}.log"
        own = Path(sys.executable).parent / program
        terminal = self._terminals[command] = ChildProcess(
            command, [own, *arguments], log=log, folder=self.folder, environment=self._environment
        )
        await terminal.start()
        if command.startswith("holdfast dev"):
            ready = await until_line(terminal, r"Holdfast on .*, with daprd on http://(127\.0\.0\.1:(\d+))", timeout=90)
            self._addresses |= {"127.0.0.1:3500": ready[1], "DAPR_HTTP_PORT=3500": f"DAPR_HTTP_PORT={ready[2]}"}
        elif program == "holdfast":
            await terminal.wait_ready(answers_ok(f"http://127.0.0.1:{self.port}/readyz"))

    async def _run(self, commands: str, shown: str | None) -> None:
        if not _READING.match(commands):
            code, printed, error = await self._output(commands)
            assert code == 0, (commands, printed, error)
            assert shown is None or _fits(shown, printed), (commands, printed)
            return
        assert shown is not None, commands

        async def as_shown() -> bool:
            # Some exit with 3 while there is nothing.
            code, printed, _ = await self._output(commands)
            return code == 0 and _fits(shown, printed)

        await eventually(as_shown, _SECONDS, what=f"{commands!r} prints {shown!r}")

    async def _output(self, commands: str) -> tuple[int | None, str, str]:
        """Returns the exit code, and what was printed to the output and to the error stream."""
        process = await asyncio.create_subprocess_exec(
            *("bash", "-euo", "pipefail", "-c", self._real(commands)),
            cwd=self.folder,
            env=self._environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        output, error = await asyncio.wait_for(process.communicate(), _SECONDS)
        return process.returncode, output.decode(), error.decode()

    async def _prints(self, terminal: ChildProcess, shown: str) -> None:
        lines = self._real(shown).splitlines()
        await eventually(
            lambda: set(lines) <= set(terminal.logged().splitlines()), _SECONDS, what=f"{terminal.name} prints {lines}"
        )

    def _real(self, text: str) -> str:
        for written, real in self._addresses.items():
            text = text.replace(written, real)
        return text


def _fits(shown: str, printed: str) -> bool:
    """Whether it was printed as the page shows it, where ``…`` stands for anything, also over lines."""
    pattern = ".*".join(re.escape(" ".join(part.split())) for part in shown.strip().split("…"))
    # Between two omissions the blanks of the page do not matter.
    pattern = pattern.replace(r"\ ", r"\s*")
    return re.fullmatch(pattern, " ".join(printed.split()), re.DOTALL) is not None
