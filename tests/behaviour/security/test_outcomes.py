"""Outcomes of activities, from workers or callers that pose as one, are checked before they become history."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from tests.support.rest import Answer
from tests.support.server import Server
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

# One worker starts what they share.
pytestmark = pytest.mark.xdist_group("attacks-outcomes")

APP = """
from holdfast import App, Context

app = App()


@app.orchestration
async def asking(ctx: Context, number: int) -> list:
    return [await ctx.call("ask", number), await ctx.call("ask", number)]
"""
MEBIBYTE = 1024 * 1024
TOO_LARGE = {
    "a result": {"result": json.dumps("x" * MEBIBYTE)},
    "the message of an error": {"error": {"type": "E", "message": "x" * MEBIBYTE}},
    "the traceback of an error": {"error": {"type": "E", "message": "", "traceback": "x" * MEBIBYTE}},
    "the types of an error": {"error": {"type": "E", "message": "", "types": ["x" * 1000] * 1100}},
}
NOT_JSON = {
    "half an object": "{",
    "a word": "nothing of the kind",
    "nothing": "",
    "NaN": "NaN",
    "two values": "1 2",
    "too large a number": "1e400",
    "101 levels": "[" * 101 + "]" * 101,
    "199 levels": '{"a":' * 199 + "1" + "}" * 199,
    "100,000 levels": "[" * 100_000,
}


class Asking:
    """An instance whose first activity was asked for, and which no worker works for."""

    def __init__(self, session: aiohttp.ClientSession, name: str) -> None:
        self._session = session
        self._path = f"/orchestrations/{name}"

    async def get(self, view: str = "") -> Answer:
        async with self._session.get(self._path + view) as answer:
            return Answer(answer.status, answer.headers, await answer.read())

    async def outcome(self, seq: int, **outcome: Any) -> Answer:
        body = {"of": "activity", "execution_id": 1, "scheduled_seq": seq, **outcome}
        async with self._session.post(f"{self._path}/outcome", json=body) as answer:
            return Answer(answer.status, answer.headers, await answer.read())

    async def events(self) -> list[Any]:
        events: list[Any] = (await self.get("/history")).ok()["events"]
        return events


async def begun(session: aiohttp.ClientSession, name: str) -> Asking:
    async with session.post("/orchestrations/asking/start", json={"instance_id": name, "input": 1}) as answer:
        assert answer.status == 202
    instance = Asking(session, name)

    async def has_asked() -> bool:
        return [event["type"] for event in await instance.events()] == ["OrchestrationStarted", "ActivityScheduled"]

    await eventually(has_asked, what="the activity is asked for")
    return instance


@pytest.fixture(scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    folder = tmp_path_factory.mktemp("outcomes")
    (folder / "asking.py").write_text(APP)
    async with Server(folder, "asking:app", "--no-worker") as running:
        yield running


@pytest.fixture
async def session(server: Server) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(server.url) as session:
        yield session


@pytest.mark.parametrize("what", NOT_JSON)
async def test_a_result_that_is_not_json_is_refused(session: aiohttp.ClientSession, what: str) -> None:
    instance = await begun(session, f"not-json-{list(NOT_JSON).index(what)}")
    before = await instance.events()
    refused = await instance.outcome(2, result=NOT_JSON[what])
    assert len(refused.refused(400, "INVALID_REQUEST")["message"]) < 1000
    assert await instance.events() == before
    assert (await instance.outcome(2, result="7")).status == 202
    assert [event["type"] for event in await instance.events()][2] == "ActivityCompleted"


@pytest.mark.parametrize("what", TOO_LARGE)
async def test_what_is_larger_than_a_payload_may_be_is_refused(session: aiohttp.ClientSession, what: str) -> None:
    instance = await begun(session, f"too-large-{list(TOO_LARGE).index(what)}")
    before = await instance.events()
    (await instance.outcome(2, **TOO_LARGE[what])).refused(413, "TOO_LARGE")
    assert await instance.events() == before


async def test_a_kind_of_failure_that_there_is_not_is_refused(session: aiohttp.ClientSession) -> None:
    instance = await begun(session, "kind")
    (await instance.outcome(2, error={"type": "E", "message": "", "kind": "made up"})).refused(400, "INVALID_REQUEST")


@pytest.mark.parametrize("text", ["{", "[" * 150 + "]" * 150, "[" * 500], ids=["half", "150 levels", "500 levels"])
async def test_a_history_that_has_such_a_result_can_still_be_read(tmp_path: Path, text: str) -> None:
    (tmp_path / "asking.py").write_text(APP)
    server = Server(tmp_path, "asking:app", "--no-worker")
    async with server, aiohttp.ClientSession(server.url) as session:
        instance = await begun(session, "stored")
        assert (await instance.outcome(2, result='"replaced"')).status == 202
    # As a version stored it that did not look at results.
    with closing(sqlite3.connect(tmp_path / "data" / "holdfast.db")) as connection, connection:
        like = "%||OrchestrationActor||stored||%"
        for key, value in connection.execute("SELECT key, value FROM state WHERE key LIKE ?", (like,)).fetchall():
            stored = value.decode() if isinstance(value, bytes) else value
            changed = stored.replace(json.dumps('"replaced"'), json.dumps(text))
            connection.execute("UPDATE state SET value = ? WHERE key = ?", (changed, key))
    server = Server(tmp_path, "asking:app", "--no-worker")
    async with server, aiohttp.ClientSession(server.url) as session:
        instance = Asking(session, "stored")
        assert [event["result"] for event in await instance.events() if "result" in event] == [text]
        recorded = (await instance.get("/history?recorded=true")).ok()["events"]
        assert [event["result"] for event in recorded if "result" in event] == [text]
        assert (await instance.get()).ok()["name"] == "asking"
