"""``GET /metrics`` of a real server, read as Prometheus would."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from holdfast.local.ports import free_port
from holdfast.pushpop.index import SHARDS
from holdfast.runtime.dapr import DaprHost
from holdfast.runtime.dapr.client import DaprHostClient
from holdfast.server import create_gateway
from tests.support.checkout import ROOT
from tests.support.server import Server
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from prometheus_client.samples import Sample
    from starlette.types import ASGIApp

TOKEN = "open-sesame-0123456789"

# One worker starts what they share.
pytestmark = pytest.mark.xdist_group("gateway")


class Scrape:
    def __init__(self, text: str) -> None:
        self.families = {family.name: family for family in text_string_to_metric_families(text)}
        self.samples: list[Sample] = [sample for family in self.families.values() for sample in family.samples]

    def value(self, name: str, **labels: str) -> float | None:
        """None when it is not shown."""
        found = [sample.value for sample in self.samples if sample.name == name and sample.labels == labels]
        assert len(found) <= 1
        return found[0] if found else None


class Caller:
    """A client of a server's queues and metrics."""

    def __init__(self, server: Server, session: aiohttp.ClientSession) -> None:
        self._server = server
        self._session = session

    async def post(self, path: str, body: Any = None) -> Any:
        async with self._session.post(self._server.url + path, json=body or {}) as answer:
            return await answer.json()

    async def scrape(self) -> Scrape:
        async with self._session.get(f"{self._server.url}/metrics") as answer:
            assert answer.status == 200
            assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
            return Scrape(await answer.text())

    async def scrape_until(self, name: str, wanted: float, **labels: str) -> Scrape:
        """Scrapes until the metric has this value: figures of queues may be a few seconds old."""
        seen: list[Scrape] = []

        async def reached() -> bool:
            seen.append(await self.scrape())
            return seen[-1].value(name, **labels) == wanted

        await eventually(reached, what=f"{name} is {wanted}")
        return seen[-1]


@pytest.fixture
async def caller(server: Server) -> AsyncIterator[Caller]:
    async with aiohttp.ClientSession() as session:
        yield Caller(server, session)


async def test_what_was_done_with_a_queue_is_shown(caller: Caller) -> None:
    queue = "/queue/metrics-orders"
    await caller.post(f"{queue}/push", {"items": [{"item": number} for number in range(10)]})
    await caller.post(f"{queue}/push", {"item": "later", "delay_seconds": 600})
    for _ in range(2):
        await caller.post(f"{queue}/push", {"item": "once", "dedup_id": "a"})
    lock = await caller.post(f"{queue}/pop?require_ack=true&count=3")
    await caller.post(f"{queue}/acknowledge", {"lock_id": lock["lock_id"]})
    lock = await caller.post(f"{queue}/pop?require_ack=true&count=2")
    await caller.post(f"{queue}/abandon", {"lock_id": lock["lock_id"]})
    lock = await caller.post(f"{queue}/pop?require_ack=true&count=2")
    await caller.post(f"{queue}/dead-letter", {"lock_id": lock["lock_id"]})
    await caller.post(f"{queue}/pop?require_ack=true")
    assert (await caller.post(f"{queue}/pop"))["error_code"] == "QUEUE_LOCKED"

    name = "metrics-orders"
    shown = await caller.scrape_until("holdfast_queue_dead_letter_items", 2, queue=name)
    counts = {
        what: shown.value(f"holdfast_queue_{what}_items_total", queue=name)
        for what in ("pushed", "popped", "acknowledged", "abandoned", "redelivered", "dead_lettered", "deduplicated")
    }
    assert list(counts.values()) == [12, 8, 3, 2, 2, 2, 1]
    depths = {
        state: shown.value("holdfast_queue_depth_items", queue=name, state=state)
        for state in ("waiting", "delayed", "locked")
    }
    assert depths == {"waiting": 5, "delayed": 1, "locked": 1}
    assert (shown.value("holdfast_queue_oldest_age_seconds", queue=name) or 0) > 0
    assert shown.value("holdfast_queue_pushed_items_total", queue=f"{name}-deadletter") == 2
    requests = {"route": "/queue/{queue}/pop", "method": "POST"}
    assert (shown.value("holdfast_http_requests_total", status="200", **requests) or 0) >= 4
    assert (shown.value("holdfast_http_requests_total", status="423", **requests) or 0) >= 1
    assert (shown.value("holdfast_processing_seconds_count") or 0) >= 1


async def test_the_process_itself_is_shown(caller: Caller) -> None:
    await caller.post("/queue/metrics-process/push", {"item": 1})
    shown = await caller.scrape()
    assert (shown.value("process_resident_memory_bytes") or 0) > 1_000_000
    assert (shown.value("process_open_fds") or 0) > 0
    assert (shown.value("holdfast_turn_duration_seconds_count", actor_type="PushPopActor") or 0) >= 1
    assert shown.value("holdfast_append_failures_total", actor_type="PushPopActor") == 0
    build = shown.families["holdfast_build_info"].samples[0]
    assert build.labels["host"] == "embedded"


async def test_every_metric_says_what_it_is_and_no_series_is_there_for_the_library_alone(caller: Caller) -> None:
    shown = await caller.scrape()
    ours = [family for name, family in shown.families.items() if name.startswith("holdfast_")]
    assert len(ours) > 20
    assert all(family.documentation.endswith(".") and family.type != "unknown" for family in ours)
    assert not [sample.name for sample in shown.samples if sample.name.endswith("_created")]


async def test_every_metric_is_documented_and_what_is_documented_exists(caller: Caller) -> None:
    shown = {plain(name) for name in (await caller.scrape()).families if name.startswith("holdfast_")}
    page = (ROOT / "docs" / "metrics.md").read_text("utf-8")
    documented = {plain(name) for name in re.findall(r"^\| `(holdfast_\w+)`", page, re.MULTILINE)}
    assert sorted(shown ^ documented) == []


def plain(name: str) -> str:
    """The name of a family, which the text format and its parser write with and without a suffix."""
    return re.sub(r"_(total|info)$", "", name)


async def test_what_callers_make_up_makes_no_new_series(caller: Caller, server: Server) -> None:
    async with aiohttp.ClientSession() as session:
        for number in range(20):
            for path in (
                f"/nothing/{number}",
                f"/queue/made-up/nothing-{number}",
                f"/v1.0/actors/A{number}/1/method/x",
            ):
                async with session.get(server.url + path) as answer:
                    assert answer.status >= 400
    requests = [sample for sample in (await caller.scrape()).samples if sample.name == "holdfast_http_requests_total"]
    routes = {sample.labels["route"] for sample in requests}
    assert {"other", "/v1.0/actors", "/metrics"} <= routes
    assert not [route for route in routes if "made-up" in route or "nothing" in route]


async def test_pops_that_wait_are_shown_while_they_do(caller: Caller) -> None:
    before = (await caller.scrape()).value("holdfast_long_polls_waiting")
    assert before is not None
    rung = (await caller.scrape()).value("holdfast_long_poll_wakeups_total")
    assert rung is not None
    waiting = asyncio.create_task(caller.post("/queue/metrics-waiting/pop?wait_seconds=20"))
    await caller.scrape_until("holdfast_long_polls_waiting", before + 1)
    await caller.post("/queue/metrics-waiting/push", {"item": 1})
    assert (await waiting)["items"] == [1]
    shown = await caller.scrape()
    assert shown.value("holdfast_long_polls_waiting") == before
    assert (shown.value("holdfast_long_poll_wakeups_total") or 0) > rung


async def test_what_queues_counted_goes_on_after_a_restart_and_what_the_process_counted_begins_again(
    tmp_path: Path,
) -> None:
    server = Server(tmp_path)
    async with aiohttp.ClientSession() as session:
        caller = Caller(server, session)
        await server.start()
        await caller.post("/queue/orders/push", {"items": [{"item": number} for number in range(5)]})
        await caller.post("/queue/orders/pop")
        await caller.scrape_until("holdfast_queue_popped_items_total", 1, queue="orders")
        await server.kill()
        await server.start()
        try:
            await caller.post("/queue/orders/push", {"item": 5})
            shown = await caller.scrape_until("holdfast_queue_pushed_items_total", 6, queue="orders")
            assert shown.value("holdfast_queue_popped_items_total", queue="orders") == 1
            requests = {"route": "/queue/{queue}/push", "method": "POST", "status": "200"}
            assert shown.value("holdfast_http_requests_total", **requests) == 1
        finally:
            await server.kill()


async def test_a_server_without_its_sidecar_shows_at_least_itself() -> None:
    unused = f"http://127.0.0.1:{free_port()}"
    gateway = create_gateway(lambda app: DaprHost(app, client=DaprHostClient(unused, unused)), loopback=True)
    try:
        await requested(gateway.app, "PUT", "/actors/Nothing/made-up/method/x")
        status, text = await requested(gateway.app, "GET", "/metrics")
        assert status == 200
        shown = Scrape(text)
        assert shown.value("holdfast_scrape_unreachable", what="index") == SHARDS
        assert (shown.value("process_open_fds") or 0) > 0
        call = {"route": "/actors/{actor_type}/{actor_id}/method/{name}", "method": "PUT", "status": "500"}
        assert shown.value("holdfast_http_requests_total", **call) == 1
    finally:
        await gateway.host.stop()


async def requested(app: ASGIApp, verb: str, path: str) -> tuple[int, str]:
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": verb, "path": path, "raw_path": path.encode(), "query_string": b""}
    headers = [(b"host", b"127.0.0.1:8080")]
    await app({**scope, "headers": headers, "client": ("127.0.0.1", 1234)}, receive, send)
    return sent[0]["status"], sent[1]["body"].decode()


@pytest.mark.parametrize(("headers", "status"), [({}, 401), ({"Authorization": f"Bearer {TOKEN}"}, 200)])
async def test_where_a_token_is_set_it_is_asked_for(guarded: Server, headers: dict[str, str], status: int) -> None:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{guarded.url}/metrics", headers=headers) as answer,
    ):
        assert answer.status == status
        assert ("holdfast_" in await answer.text()) == (status == 200)


@pytest.fixture(scope="module")
async def guarded(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    async with Server(tmp_path_factory.mktemp("guarded-metrics"), "--token", TOKEN) as running:
        yield running
