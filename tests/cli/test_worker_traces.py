"""Spans of a worker in a process of its own are in one trace with those of the server."""

from __future__ import annotations

import secrets
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import pytest

from tests.cli.test_worker import Worker
from tests.support import workflows
from tests.support.collector import Collector, Tree
from tests.support.server import Server

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """A collector that processes export to when they stop, and not before."""
    made = Collector()
    for name, value in {**made.environment, "OTEL_BSP_SCHEDULE_DELAY": "3600000"}.items():
        monkeypatch.setenv(name, value)
    yield made
    made.close()


async def test_a_worker_goes_on_with_the_trace_and_an_orderly_stop_exports_it(
    collector: Collector, tmp_path: Path
) -> None:
    shutil.copy(Path(workflows.__file__), tmp_path)
    trace_id, caller = secrets.token_hex(16), secrets.token_hex(8)
    async with Server(tmp_path, "workflows:app", "--no-worker") as server:
        async with Worker(tmp_path, server.url) as worker, aiohttp.ClientSession(server.url) as session:
            body = {"instance_id": "order", "input": {"number": 1, "lines": ["oar"]}}
            headers = {"traceparent": f"00-{trace_id}-{caller}-01"}
            async with session.post("/orchestrations/checkout/start", json=body, headers=headers) as answer:
                assert answer.status == 202
            async with session.get("/orchestrations/order/wait?timeout_seconds=30") as answer:
                assert (await answer.json())["status"] == "COMPLETED"
            assert collector.trace(trace_id) == []
            assert await worker.stop() == 0
        assert [span.name for span in collector.trace(trace_id)] == ["run ship"]
        assert await server.stop() == 0
    tree = Tree(collector.trace(trace_id), caller)
    assert tree.orphans == []
    assert tree.lines() == [
        "POST /orchestrations/{name}/start",
        "  OrchestrationActor Start",
        "  orchestration checkout",
        "    send ship",
        "      PushPopActor Push",
        "      run ship",
        "        OrchestrationActor Complete",
        "        POST /orchestrations/{instance_id}/outcome",
    ]


async def test_spans_are_printed_without_a_collector(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console")
    async with Server(tmp_path) as server, aiohttp.ClientSession(server.url) as session:
        async with session.post("/queue/orders/push", json={"item": 1}) as answer:
            assert answer.status == 200
        assert await server.stop() == 0
        assert '"name": "POST /queue/{queue}/push"' in server.logged()
