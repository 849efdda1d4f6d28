"""Runs the code of the page about finding instances."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import sys
from pathlib import Path

from holdfast import Client
from tests.examples.test_documents import first_block, run
from tests.support.checkout import ROOT
from tests.support.server import Server
from tests.support.waiting import eventually

PAGE = (ROOT / "docs/finding.md").read_text("utf-8")


def commands() -> list[list[str]]:
    """The words of each command of ours."""
    text = "\n".join(re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)).replace("\\\n", " ")
    return [shlex.split(line) for line in text.splitlines() if line.startswith("holdfast ")]


async def test_the_code_and_the_commands_of_the_page(tmp_path: Path) -> None:
    (tmp_path / "guide.py").write_text(first_block("docs/orchestrations.md"))
    async with Server(tmp_path, "guide:app") as server, Client(server.url) as client:
        started = await client.start("checkout", {"id": 1, "lines": ["oar"]}, tags={"customer": "acme"})

        async def is_listed() -> bool:
            return [one.instance_id async for one in client.orchestrations()] == [started.instance_id]

        await eventually(is_listed)
        outputs = []
        for words in commands():
            process = await asyncio.create_subprocess_exec(
                *(Path(sys.executable).parent / words[0], *(word for word in words[1:] if word != "--watch")),
                env={**os.environ, "HOLDFAST_URL": server.url},
                stdout=asyncio.subprocess.PIPE,
            )
            output, _ = await asyncio.wait_for(process.communicate(), 60)
            outputs.append((process.returncode, output.decode()))
        # There is none that failed.
        assert [code for code, _ in outputs] == [3, 0, 0, 0]
        assert outputs[-1][1] == "1 instance selected\n"
        *reading, bulk = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
        for code in reading:
            left = await run(code.replace("http://127.0.0.1:8080", server.url), {"Client": Client})
            assert left["counts"].counts == {"RUNNING": 1}
        left = await run(bulk.replace("http://127.0.0.1:8080", server.url), {"Client": Client})
        assert (left["result"].matched, left["result"].done) == (1, 1)
