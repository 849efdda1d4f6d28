"""Runs the code that the documents show."""

from __future__ import annotations

import asyncio
import inspect
import os
import re
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import click
import pytest

from holdfast import App, Client, Context
from holdfast.cli.main import COMMANDS, cli
from holdfast.client import Idempotency
from holdfast.local.ports import free_port
from holdfast.testing import TestEnvironment
from tests.support.checkout import ROOT
from tests.support.server import Server
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.client import Message


def blocks(document: str, heading: str) -> list[str]:
    """The Python of one section."""
    section = (ROOT / document).read_text("utf-8").partition(f"\n{heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"```python\n(.*?)```", section, re.DOTALL)


def first_block(document: str) -> str:
    return re.findall(r"```python\n(.*?)```", (ROOT / document).read_text("utf-8"), re.DOTALL)[0]


async def run(code: str, names: dict[str, Any]) -> dict[str, Any]:
    """Runs the code, and returns its local variables."""
    exec(f"async def main():\n{textwrap.indent(code, '    ')}\n    return locals()", names)
    left: dict[str, Any] = await names["main"]()
    return left


def test_links_between_documents_lead_somewhere() -> None:
    documents = [*ROOT.glob("*.md"), ROOT / "llms.txt", *ROOT.glob("*/*.md"), *ROOT.glob("docs/*/*.md")]
    broken = []
    for document in documents:
        text = re.sub(r"```.*?```", "", document.read_text("utf-8"), flags=re.DOTALL)
        for link in re.findall(r"\]\(([^)\s]+)\)", text):
            path, _, anchor = link.partition("#")
            target = document.parent / path if path else document
            if "://" not in link and not (target.exists() and (not anchor or anchor in anchors(target))):
                broken.append(f"{document.relative_to(ROOT)}: {link}")
    assert broken == []


@pytest.mark.parametrize("index", ["README.md", "llms.txt"])
def test_each_page_is_in_the_list_of_pages(index: str) -> None:
    pages = {f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")} - {"docs/index.md"}
    assert pages - set(re.findall(r"\]\(([^)#\s]+)\)", (ROOT / index).read_text("utf-8"))) == set()


def test_the_page_of_the_command_line_has_each_command() -> None:
    page = (ROOT / "docs" / "cli.md").read_text("utf-8")
    missing = []
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        if f"| [`holdfast {name}`](" not in page:
            missing.append(name)
        if isinstance(command, click.Group) and command.commands:
            section = page.partition(f"\n## `holdfast {name}`\n")[2].partition("\n## ")[0]
            missing += [
                f"{name} {one}" for one in command.commands if not re.search(f"`(holdfast {name} )?{one}[ `]", section)
            ]
    assert missing == []


def anchors(document: Path) -> set[str]:
    """Returns the names by which links can address the headings of a document."""
    headings = re.findall(r"^#+ (.*)$", document.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


async def test_a_queue_in_thirty_seconds(tmp_path: Path) -> None:
    code = blocks("README.md", "## A queue in 30 seconds")[0]
    eight = asyncio.Barrier(8)
    handled: list[int] = []

    async def handle(message: Message) -> None:
        await eight.wait()  # for ever, unless eight are handled at once
        handled.append(message.item)

    async with Server(tmp_path) as server, Client(server.url) as client:
        consuming = asyncio.create_task(run(code.replace("http://127.0.0.1:8080", server.url), {"handle": handle}))
        queue = client.queue("orders")

        async def is_consuming() -> bool:
            return (await queue.config())["max_locks"] == 8

        await eventually(is_consuming)
        await queue.push_many(range(8))

        async def all_handled() -> bool:
            return len(handled) == 8

        await eventually(all_handled)
        consuming.cancel()
        await asyncio.wait({consuming})


async def test_an_orchestration_in_a_minute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module, used = blocks("README.md", "## An orchestration in a minute")
    (tmp_path / "shop.py").write_text(module)
    monkeypatch.syspath_prepend(tmp_path)
    async with Server(tmp_path, "shop:app") as server:
        left = await run(used.replace("http://127.0.0.1:8080", server.url), {})
        assert left["shipped"] == ["oar is on its way"]
    sys.modules.pop("shop", None)


async def test_a_start_with_every_option(tmp_path: Path) -> None:
    (tmp_path / "guide.py").write_text(first_block("docs/orchestrations.md"))
    async with Server(tmp_path, "guide:app") as server:
        await run(first_block("docs/starting.md").replace("http://127.0.0.1:8080", server.url), {"Client": Client})


async def test_a_request_and_its_reply(tmp_path: Path) -> None:
    module, used, tested = re.findall(r"```python\n(.*?)```", (ROOT / "docs/requests.md").read_text("utf-8"), re.DOTALL)
    (tmp_path / "guide.py").write_text(module)
    async with Server(tmp_path, "guide:app") as server, Client(server.url) as client:
        run_of_guide = (await run(used, {"client": client}))["run"]
        assert await run_of_guide.request("add-line", {"article": "sail"}) == {"lines": 2}
        assert await run_of_guide.request("add-line", {"article": "rope"}) == {"lines": 3}
        assert await run_of_guide.result(timeout=30) == ["oar", "sail", "rope"]
    names: dict[str, Any] = {"TestEnvironment": TestEnvironment}
    exec(module, names)
    await run(tested, names)


async def test_the_patch_of_the_guide() -> None:
    app = App()

    @app.activity
    async def add_tax(order: dict[str, float]) -> dict[str, float]:
        return {"total": 1.2 * order["total"]}

    @app.activity
    async def charge(order: dict[str, float]) -> str:
        return f"{order['total']:g} charged"

    names = {"app": app, "Context": Context, "Order": dict[str, float], "add_tax": add_tax, "charge": charge}
    exec(first_block("docs/changing-code.md"), names)
    with TestEnvironment(app) as environment:
        assert await environment.run("checkout", {"total": 10.0}) == "12 charged"


async def test_the_first_orchestration_of_the_guide(tmp_path: Path) -> None:
    (tmp_path / "guide.py").write_text(first_block("docs/orchestrations.md"))
    async with Server(tmp_path, "guide:app") as server, Client(server.url) as client:
        started = await client.start("checkout", {"id": 1, "lines": ["oar", "rope"]})

        async def waits() -> bool:
            return any([event.type == "EventSubscribed" async for event in started.history()])

        await eventually(waits, what="it waits for the event")
        await started.raise_event("approved")
        assert await started.result(timeout=30) == ["oar is on its way", "rope is on its way"]


async def test_the_guides_test_passes() -> None:
    names: dict[str, Any] = {"__name__": "guide"}
    exec(first_block("docs/orchestrations.md"), names)
    exec(blocks("docs/orchestrations.md", "## Testing")[0], names)
    tests = [value for name, value in names.items() if name.startswith("test_")]
    assert [inspect.iscoroutinefunction(test) for test in tests] == [True]
    for test in tests:
        await test()


async def test_an_effect_that_happens_once(tmp_path: Path) -> None:
    sent: list[int] = []

    async def send_invoice() -> int:
        sent.append(17)
        return len(sent)

    code = first_block("docs/idempotency.md")
    async with Server(tmp_path) as server:
        names = {"send_invoice": send_invoice}
        ran = [
            (await run(code.replace("http://127.0.0.1:8080", server.url), dict(names)))["outcome"].ran for _ in range(2)
        ]
    assert (ran, sent) == ([True, False], [17])


async def test_messages_that_are_handled_once(tmp_path: Path) -> None:
    pushes, by_key, by_function, with_more = [
        line for line in blocks("docs/idempotency.md", "## In a consumer")[0].splitlines() if line
    ]
    handled: list[int] = []

    async def handle(message: Message) -> None:
        handled.append(message.item["order"])

    async with Server(tmp_path) as server, Client(server.url) as client:
        names = {"orders": client.queue("orders"), "handle": handle, "Idempotency": Idempotency}
        for consume in (by_key, by_function, with_more):
            await run(pushes, dict(names))
            consuming = asyncio.create_task(run(consume, dict(names)))

            async def is_empty() -> bool:
                stats = await client.queue("orders").stats()
                return (stats.count, stats.locked) == (0, 0)

            await eventually(is_empty, what="the message is handled")
            consuming.cancel()
            await asyncio.wait({consuming})
    assert handled == [17]


async def test_a_client_in_a_fastapi_app(server: Server, client: Client) -> None:
    names: dict[str, Any] = {}
    exec(blocks("docs/client.md", "## In a FastAPI app")[0].replace("http://127.0.0.1:8080", server.url), names)
    answer: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b'{"id": 1}'}

    async def send(message: dict[str, Any]) -> None:
        answer.append(message)

    async with names["app"].router.lifespan_context(names["app"]) as state:
        scope = {"type": "http", "method": "POST", "path": "/orders", "query_string": b"", "state": dict(state)}
        await names["app"](scope | {"headers": [(b"content-type", b"application/json")]}, receive, send)
    assert answer[0]["status"] == 200
    [message] = await client.queue("orders").pop()
    assert answer[1]["body"] == f'{{"id":"{message.id}"}}'.encode()


async def test_a_server_in_a_program(tmp_path: Path) -> None:
    program = blocks("docs/client.md", "## The server in your own process")[0].replace("port=8080", "port=0")
    run = await asyncio.create_subprocess_exec(sys.executable, "-c", program, cwd=tmp_path)
    assert await asyncio.wait_for(run.wait(), 60) == 0
    async with Server(tmp_path, "--data", "holdfast-data") as server, Client(server.url) as client:
        assert [message.item for message in await client.queue("orders").pop()] == [{"id": 1}]


async def test_a_client_without_async(server: Server, client: Client) -> None:
    queue = client.queue("orders")
    await queue.purge()
    code = blocks("docs/client.md", "## Synchronous code")[0].replace("http://127.0.0.1:8080", server.url)
    run = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
    output, _ = await asyncio.wait_for(run.communicate(), 60)
    assert run.returncode == 0
    assert output.decode().endswith(" {'id': 1}\n")
    assert (await queue.stats()).count == 0


@pytest.mark.parametrize("protocol", ["http", "grpc"])
async def test_calls_with_the_sdk(tmp_path: Path, protocol: str) -> None:
    """Each is a program of its own: the SDK keeps its settings for the whole process."""
    programs = re.findall(r"```python\n(.*?)```", (ROOT / "docs/dapr.md").read_text("utf-8"), re.DOTALL)
    said = []
    grpc_port = free_port()
    async with Server(tmp_path, "--grpc-port", str(grpc_port)) as server:
        environment = {
            **os.environ,
            "DAPR_HTTP_PORT": str(server.port),
            "DAPR_GRPC_PORT": str(grpc_port),
            "DAPR_API_METHOD_INVOCATION_PROTOCOL": protocol,
        }
        for program in programs:
            run = await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", program), env=environment, stdout=asyncio.subprocess.PIPE
            )
            output, _ = await asyncio.wait_for(run.communicate(), 60)
            assert run.returncode == 0
            said.append(output.decode().strip())
    assert said == [
        "[{'task_id': 123}]",
        "[{'task_id': 124}]",
        "[{'every': '5m', 'at': '2026-01-01T00:00:00Z'}]",
    ]


@pytest.mark.parametrize(
    ("language", "program"),
    [("javascript", "javascript/client.js"), ("go", "go/main.go"), ("java", "java/src/main/java/Client.java")],
)
def test_calls_from_other_languages_are_parts_of_the_tested_clients(language: str, program: str) -> None:
    """``tests/sdks`` runs the clients."""
    shown = re.findall(rf"```{language}\n(.*?)```", (ROOT / "docs/dapr.md").read_text("utf-8"), re.DOTALL)
    client = (ROOT / "examples/clients" / program).read_text("utf-8")
    for part in ("queue/", "PushPopActor"):
        assert any(part in block for block in shown)
    for block in shown:
        assert without_indentation(block) in without_indentation(client)


def without_indentation(code: str) -> str:
    return "\n".join(line.strip() for line in code.splitlines())
