"""Answers that attackers want to be large: every one of them has a bound, and lists say where to go on."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from benchmarks.tenants import peak_memory
from holdfast import Client
from tests.support.checkout import ROOT
from tests.support.server import Server
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

# One worker starts what they share.
pytestmark = pytest.mark.xdist_group("attacks-answers")

MEBIBYTE = 1024 * 1024
LETTER = "x" * (MEBIBYTE - 100)
LETTERS = 24
READERS = 150
MAX_ANSWER = 8 * MEBIBYTE
MOST_MEMORY = 500 * MEBIBYTE


@pytest.fixture(scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    folder = tmp_path_factory.mktemp("answers")
    async with Server(folder, "benchmarks.attacked:app", imports=ROOT) as running:
        yield running


@pytest.fixture
async def session(server: Server) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(server.url, connector=aiohttp.TCPConnector(limit=0)) as session:
        yield session


async def ask(session: aiohttp.ClientSession, verb: str, path: str, body: Any = None) -> Any:
    """Returns the body of the answer, which must not be too large."""
    async with session.request(verb, path, json=body) as answer:
        text = await answer.read()
        assert answer.status in (200, 202), f"{answer.status}: {text[:2000]!r}"
        assert len(text) <= MAX_ANSWER
        return json.loads(text)


@pytest.fixture(scope="module")
async def history(server: Server) -> str:
    """The path of the history of an instance that received far more than fits into an answer."""
    async with aiohttp.ClientSession(server.url) as session:
        await ask(session, "POST", "/orchestrations/reader/start", {"instance_id": "large", "input": LETTERS})
        for _ in range(LETTERS):
            await ask(session, "POST", "/orchestrations/large/events/letters", LETTER)
        await ask(session, "GET", "/orchestrations/large/wait")
    return "/orchestrations/large/history"


@pytest.mark.parametrize("recorded", ["false", "true"])
async def test_a_page_of_a_history_ends_when_it_is_large(
    session: aiohttp.ClientSession, history: str, recorded: str
) -> None:
    found: list[int] = []
    cursor = 0
    while True:
        page = await ask(session, "GET", f"{history}?limit=1000&recorded={recorded}&cursor={cursor}")
        assert page["events"]
        found += [event["seq"] for event in page["events"]]
        if "next_cursor" not in page:
            break
        cursor = int(page["next_cursor"])
    assert found == list(range(1, len(found) + 1))
    assert len(found) > LETTERS


async def test_the_client_reads_all_of_it(server: Server, history: str) -> None:
    async with Client(server.url) as client:
        events = [event async for event in client.orchestration("large").history(page_size=1000)]
    assert sum(event.type == "EventRaised" for event in events) == LETTERS


async def test_a_history_that_is_too_large_to_be_copied_is_not_read_to_its_end(
    session: aiohttp.ClientSession, history: str
) -> None:
    async with session.post("/orchestrations/large/rerun", json={"from_seq": 10_000}) as answer:
        # Reading on to the end would find that the history has no such event, which is another error.
        assert (answer.status, (await answer.json())["error_code"]) == (413, "TOO_LARGE")


async def test_a_page_of_schedules_ends_when_it_is_large(session: aiohttp.ClientSession) -> None:
    names = [f"schedule-{number:02}" for number in range(12)]
    for name in names:
        given = {"orchestration": "echo", "every_seconds": 3600, "input": LETTER}
        await ask(session, "PUT", f"/schedules/{name}", given)

    async def listed() -> list[list[str]]:
        pages: list[list[str]] = []
        page: Any = {"next_cursor": ""}
        while "next_cursor" in page:
            page = await ask(session, "GET", f"/schedules?limit=100&cursor={page['next_cursor']}")
            pages.append([schedule["name"] for schedule in page["schedules"]])
        return pages

    async def all_are_listed() -> bool:
        pages = await listed()
        assert len(pages) == 1 or all(pages)
        return [name for page in pages for name in page] == names and len(pages) > 1

    # A schedule is put on the list after its answer.
    await eventually(all_are_listed)


async def test_an_event_for_many_is_not_stored_without_a_bound(session: aiohttp.ClientSession) -> None:
    for number in range(20):
        start = {"instance_id": f"each-{number}", "input": 1, "tags": {"part": "each"}}
        await ask(session, "POST", "/orchestrations/reader/start", start)

    async def all_are_listed() -> bool:
        return len((await ask(session, "GET", "/orchestrations?tag=part:each&limit=100"))["orchestrations"]) == 20

    await eventually(all_are_listed)
    body = {"action": "raise", "filter": {"tag": "part:each"}, "event": "letters", "data": LETTER, "limit": 100}
    raised = await ask(session, "POST", "/orchestrations/bulk", body)
    assert (raised["matched"], raised["done"]) == (16, 16)
    rest = await ask(session, "POST", "/orchestrations/bulk", body | {"cursor": raised["next_cursor"]})
    assert (rest["matched"], rest["done"], "next_cursor" in rest) == (4, 4, False)


async def test_many_who_ask_for_it_at_once_do_not_fill_the_memory(
    session: aiohttp.ClientSession, history: str, server: Server
) -> None:
    await asyncio.gather(*(ask(session, "GET", f"{history}?limit=1000") for _ in range(50)))
    assert peak_memory(server.pid) < MOST_MEMORY


@pytest.fixture(scope="module")
async def partitioned(server: Server) -> str:
    """A queue whose partitions have a large item each, and as much locked."""
    async with aiohttp.ClientSession(server.url) as session:
        await ask(session, "PUT", "/queue/wide/config", {"partitions": 12, "max_locks": 10})

        async def knows_them() -> bool:
            return len((await ask(session, "POST", "/queue/wide/push", {"item": 0}))["ids"][0].split("-")) == 4

        await eventually(knows_them, what="the queue has partitions")
        for _ in range(24):
            await ask(session, "POST", "/queue/wide/push", {"item": LETTER})
        for _ in range(12):
            await ask(session, "POST", "/queue/wide/pop?require_ack=true&ttl_seconds=300")
    return "/queue/wide"


@pytest.mark.parametrize("path", ["peek?count=100", "in-flight", ""])
async def test_what_partitions_show_together_is_not_more_than_one_shows(
    session: aiohttp.ClientSession, partitioned: str, path: str
) -> None:
    answer = await ask(session, "GET", f"{partitioned}/{path}".rstrip("/"))
    assert answer.get("count", 1) > 0


async def test_locks_are_shown_up_to_a_number(session: aiohttp.ClientSession) -> None:
    await ask(session, "PUT", "/queue/locks/config", {"max_locks": 10_000})
    for _ in range(2):
        await ask(session, "POST", "/queue/locks/push", {"items": [{"item": number} for number in range(600)]})
    pop = "/queue/locks/pop?require_ack=true&ttl_seconds=300"
    await asyncio.gather(*(ask(session, "POST", pop) for _ in range(1200)))
    for path in ("/queue/locks", "/queue/locks/in-flight"):
        answer = await ask(session, "GET", path)
        assert (len(answer["locks"]), answer["locks_not_shown"]) == (1000, 200)


@pytest.mark.parametrize(("size", "status"), [(MEBIBYTE, 400), (10 * MEBIBYTE, 413)])
async def test_an_error_does_not_repeat_what_was_sent(session: aiohttp.ClientSession, size: int, status: int) -> None:
    queue = f"echo-{status}"
    await ask(session, "POST", f"/queue/{queue}/push", {"item": 1})
    lock = (await ask(session, "POST", f"/queue/{queue}/pop?require_ack=true"))["lock_id"]
    body = {"lock_id": lock, "ids": ["x" * size]}
    async with session.post(f"/queue/{queue}/abandon", json=body) as answer:
        assert answer.status == status
        assert len(await answer.read()) < 10_000


async def test_peers_that_never_read_do_not_fill_the_memory(session: aiohttp.ClientSession, server: Server) -> None:
    """Peers that read their answers are not affected either."""
    for _ in range(3):
        await ask(session, "POST", "/queue/unread/push", {"item": LETTER})
    path = "/queue/unread/peek?count=100"
    request = b"GET %b HTTP/1.1\r\nHost: localhost\r\n\r\n" % path.encode()
    peers = [await asyncio.open_connection("127.0.0.1", server.port, limit=1024) for _ in range(READERS)]
    try:
        for _, writer in peers:
            writer.write(request * 5)

        async def made() -> bool:
            metrics = await (await session.get("/metrics")).text()
            wanted = 'holdfast_http_requests_total{method="GET",route="/queue/{queue}/peek",status="200"} '
            counts = [float(line.removeprefix(wanted)) for line in metrics.splitlines() if line.startswith(wanted)]
            return sum(counts) >= READERS

        await eventually(made, what="an answer for each of them", within=120)
        assert len((await ask(session, "GET", path))["items"]) >= 2
        assert peak_memory(server.pid) < MOST_MEMORY
    finally:
        for _, writer in peers:
            writer.transport.abort()
