"""Runs the code of the page about retrying."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import sys
from pathlib import Path

from holdfast import Client
from tests.examples.test_documents import run
from tests.support.checkout import ROOT
from tests.support.server import Server
from tests.support.waiting import eventually

PAGE = (ROOT / "docs/retrying.md").read_text("utf-8")
APP = """
from pathlib import Path
from holdfast import App, Context

app = App()


@app.activity
def charge(order: int) -> int:
    return order


@app.activity
def ship(order: int) -> str:
    if not Path("mended").exists():
        raise RuntimeError("no ship")
    return f"{order} shipped"


@app.orchestration
async def checkout(ctx: Context, order: int) -> str:
    return await ctx.call(ship, await ctx.call(charge, order))
"""


def commands() -> list[list[str]]:
    text = "\n".join(re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)).replace("\\\n", " ")
    return [shlex.split(line) for line in text.splitlines() if line.startswith("holdfast ")]


async def test_the_code_and_the_commands_of_the_page(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(APP.replace('"mended"', repr(str(tmp_path / "mended"))))
    async with Server(tmp_path, "shop:app") as server, Client(server.url) as client:
        source = await client.start("checkout", 17, instance_id="order-17")

        async def is_listed() -> bool:
            return [one.instance_id async for one in client.orchestrations(status="FAILED")] == ["order-17"]

        await eventually(is_listed)
        (tmp_path / "mended").touch()
        outputs = []
        for words in commands():
            process = await asyncio.create_subprocess_exec(
                *(Path(sys.executable).parent / words[0], *words[1:]),
                env={**os.environ, "HOLDFAST_URL": server.url},
                stdout=asyncio.subprocess.PIPE,
            )
            output, _ = await asyncio.wait_for(process.communicate(), 60)
            assert process.returncode == 0, (words, output)
            outputs.append(output.decode().strip())
        _, again, waited, bulk, from_event, from_start = outputs
        assert (again, waited, bulk) == ("order-17-again", '"17 shipped"', "1 instance rerun")
        reruns = (await source.status()).reruns
        assert (len(reruns), reruns[0], reruns[2:]) == (4, again, [from_event, from_start])
        for instance_id in reruns:
            assert await client.orchestration(instance_id).result(60) == "17 shipped"
        [code] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
        left = await run(code.replace("http://127.0.0.1:8080", server.url), {"Client": Client})
        status = await client.orchestration(left["again"].instance_id).status()
        assert status.rerun_of == {"instance_id": "order-17", "execution_id": 1, "from_seq": 5}
