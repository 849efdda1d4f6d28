"""The commands that the pages about operating Holdfast show, against a server with the guide's app."""

from __future__ import annotations

import argparse
import ast
import asyncio
import re
import shlex
import sys
from typing import TYPE_CHECKING

import aiohttp
import pytest

from holdfast import App, Client, Context
from tests.cli.conftest import Command
from tests.examples.test_documents import first_block, run
from tests.support.checkout import ROOT
from tests.support.server import Server
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

#: The commands that find nothing on the server of the test (exit code 3), by what they begin with.
FIND_NOTHING = {
    "changing-code": ("holdfast orchestration list --status blocked",),
    "stuck": (
        "holdfast orchestration list --status blocked",
        "holdfast orchestration list --status running --started-before",
        "holdfast queue peek activities",
        "holdfast queue dead-letters activities",
    ),
    "cleaning-up": ("holdfast orchestration bulk delete",),
    "schedules": (),
    "troubleshooting": (),
}
SCHEDULED = """

@app.orchestration
async def nightly(ctx: Context) -> None: ...
"""


def commands(page: str) -> list[str]:
    """Returns the commands of a page that are sent to a server."""
    text = (ROOT / "docs" / f"{page}.md").read_text("utf-8")
    shown = "\n".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL)).replace("\\\n", " ")
    kinds = ("holdfast orchestration ", "holdfast queue ", "holdfast schedule ", "holdfast doctor", "curl ")
    assigned = dict(re.findall(r"^([A-Z])=(\S+)$", shown, re.MULTILINE))
    lines = [line for line in shown.splitlines() if line.startswith(kinds)]
    return [re.sub(r"\$([A-Z])", lambda name: assigned[name[1]], line) for line in lines]


def python(page: str) -> list[str]:
    """Returns the Python of a page."""
    return re.findall(r"```python\n(.*?)```", (ROOT / "docs" / f"{page}.md").read_text("utf-8"), re.DOTALL)


@pytest.mark.parametrize("page", FIND_NOTHING)
async def test_the_commands_of_the_page(tmp_path: Path, page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    code = first_block("docs/orchestrations.md") + SCHEDULED
    (tmp_path / "shop.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "shop", raising=False)
    async with Server(tmp_path, "shop:app") as server, Client(server.url) as client:
        await client.start("checkout", {"id": 17, "lines": ["oar"]}, instance_id="order-17", tags={"customer": "acme"})
        await client.schedule("nightly", orchestration="nightly", cron="0 6 * * *")
        await client.queue("orders").push({"id": 1})

        async def is_listed() -> bool:
            return [one.instance_id async for one in client.orchestrations()] == ["order-17"]

        await eventually(is_listed)
        holdfast = Command(server.url, tmp_path)
        shown = commands(page)
        assert shown
        for line in shown:
            program, *words = shlex.split(line, comments=True)
            if program == "curl":
                assert await _as_curl(words, server.url) < 300, line
                continue
            ended = await asyncio.to_thread(holdfast.inside, *words)
            expected = 3 if line.startswith(FIND_NOTHING[page]) else 0
            assert ended.code == expected, (line, ended.output, ended.error)
        for code in python(page):
            if "Client(" in code:
                await run(code.replace("http://127.0.0.1:8080", server.url), {"Client": Client})


@pytest.mark.parametrize("page", FIND_NOTHING)
def test_the_code_of_the_page_declares_what_it_says(page: str) -> None:
    for code in python(page):
        if code.lstrip().startswith("@app."):
            exec(code, {"app": App(), "Context": Context, "Order": dict[str, object]})
        else:
            compile(code, page, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def test_the_messages_that_the_page_quotes_are_those_of_the_code() -> None:
    page = (ROOT / "docs" / "troubleshooting.md").read_text("utf-8")
    quoted = [
        text for row in re.findall(r"^\| (.*?) \|", page, re.MULTILINE) for text in re.findall(r"`([^`]*…[^`]*)`", row)
    ]
    assert len(quoted) > 5
    sources = "".join(path.read_text("utf-8") for path in (ROOT / "actors").rglob("*.py"))
    for text in quoted:
        # What the operating system says is not in our code.
        parts = [part.strip(" :") for part in text.removesuffix("Address already in use").split("…")]
        assert [part for part in parts if part not in sources] == []


async def _as_curl(words: list[str], url: str) -> int:
    """Sends the request that curl would send for these arguments, and returns the status of the answer."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("url")
    arguments.add_argument("-X", dest="method")
    arguments.add_argument("-d", dest="data")
    given = arguments.parse_args(words)
    method = given.method or ("GET" if given.data is None else "POST")
    target = given.url.replace("http://127.0.0.1:8080", url)
    async with aiohttp.ClientSession() as session, session.request(method, target, data=given.data) as answer:
        return answer.status
