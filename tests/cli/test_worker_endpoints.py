"""``/healthz`` and ``/metrics`` of a worker in a process of its own."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from holdfast import Client
from tests.cli.test_worker import Worker
from tests.support import workflows
from tests.support.checkout import ROOT
from tests.support.server import Server
from tests.support.workflows import Order

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Command

TOKEN = "the-right-one-0123"


async def get(url: str, *, host: str | None = None, **headers: str) -> tuple[int, str]:
    given = headers if host is None else {**headers, "Host": host}
    async with aiohttp.ClientSession() as session, session.get(url, headers=given) as answer:
        return answer.status, await answer.text()


async def address_of(worker: Worker) -> str:
    await worker.says("/metrics")
    found = re.search(r"Metrics on (http://\S+)/metrics", worker.process.logged())
    assert found is not None
    return found[1]


async def test_a_worker_shows_what_it_has_run(tmp_path: Path) -> None:
    (tmp_path / "workflows.py").write_bytes((ROOT / "tests" / "support" / "workflows.py").read_bytes())
    async with (
        Server(tmp_path, "workflows:app", "--no-worker", "--token", TOKEN) as server,
        Worker(tmp_path, server.url, "--token", TOKEN, "--port", "0", "--listen", "0.0.0.0") as worker,
        Client(server.url, token=TOKEN) as client,
    ):
        run = await client.start(workflows.checkout, Order(number=1, lines=["oar", "rope"]))
        await run.result(timeout=30)
        address = (await address_of(worker)).replace("0.0.0.0", "127.0.0.1")
        assert await get(f"{address}/healthz") == (200, '{"status":"ok"}')
        assert (await get(f"{address}/metrics"))[0] == 401
        token = {"Authorization": f"Bearer {TOKEN}"}
        status, text = await get(f"{address}/metrics", **token)
        assert status == 200
        assert 'holdfast_worker_activities_total{activity="ship",outcome="completed"} 2.0' in text
        assert (await get(f"{address}/queues", **token))[0] == 404
        assert await worker.stop() == 0
    shown = {family.name for family in text_string_to_metric_families(text) if family.name.startswith("holdfast_")}
    page = (ROOT / "docs" / "metrics.md").read_text("utf-8").partition("## Per worker")[2].partition("\n## ")[0]
    documented = {name.removesuffix("_total") for name in re.findall(r"^\| `(holdfast_\w+)`", page, re.MULTILINE)}
    assert {name.removesuffix("_info") for name in shown} == documented | {"holdfast_build"}


async def test_pages_of_other_names_get_nothing_without_a_token(tmp_path: Path) -> None:
    """The server it works for need not be there."""
    async with Worker(tmp_path, "http://127.0.0.1:9", "--port", "0") as worker:
        address = await address_of(worker)
        assert (await get(f"{address}/metrics"))[0] == 200
        assert (await get(f"{address}/metrics", host="shop.example"))[0] == 403


def test_beyond_loopback_a_worker_needs_a_token(holdfast: Command) -> None:
    (holdfast.folder / "workflows.py").write_bytes((ROOT / "tests" / "support" / "workflows.py").read_bytes())
    ended = holdfast("worker", "workflows", "--port", "0", "--listen", "0.0.0.0")
    assert ended.code == 1
    assert "would admit every caller" in ended.error
