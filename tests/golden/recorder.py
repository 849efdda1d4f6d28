"""Makes a store that has every kind of stored value and every kind of event, through REST on the embedded host.

``python -m tests.golden.recorder`` writes ``tests/golden/store.json``. Do it when a format version changes, and
in no other case: the file stands for data that users have stored.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sqlite3
import sys
import tempfile
import time
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import aiohttp

from tests.support.server import Server
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

HERE = Path(__file__).parent
STORE = HERE / "store.json"

RECORDINGS = 5
TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
TABLES = ("metadata", "state", "holdfast_reminders")

#: Where it is not the version declared last.
VERSIONS = {"varied": {"version": "1"}}

Json = dict[str, Any]


class Rest:
    """Calls of one server. Any other refusal than of a rejected request is an error."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self._url = url
        self._session = session
        #: Headers of the next calls.
        self.headers: dict[str, str] = {}

    async def __call__(self, method: str, path: str, body: Any = None) -> Json:
        request = self._session.request(method, f"{self._url}/{path}", json=body, headers=self.headers)
        async with request as answer:
            found: Json = await answer.json()
            assert answer.status < 400 or found["error_code"] == "REJECTED", f"{method} {path}: {found}"
            return found

    async def push(self, queue: str, *items: Any, **options: Any) -> Json:
        return await self("POST", f"queue/{queue}/push", {"items": [{"item": item} | options for item in items]})

    async def lock(self, queue: str, count: int = 1) -> str:
        found = await self("POST", f"queue/{queue}/pop?require_ack=true&ttl_seconds=300&count={count}")
        return str(found["lock_id"])

    async def start(self, name: str, instance_id: str, given: Any = None) -> None:
        await self("POST", f"orchestrations/{name}/start", {"instance_id": instance_id, "input": given})

    async def raise_event(self, instance_id: str, event: str, data: Any, event_id: str | None = None) -> None:
        query = "" if event_id is None else f"?event_id={event_id}"
        await self("POST", f"orchestrations/{instance_id}/events/{event}{query}", data)

    async def status(self, instance_id: str) -> Json:
        return await self("GET", f"orchestrations/{instance_id}")

    async def history(self, instance_id: str, execution_id: int | None = None) -> list[Json]:
        """Returns the events of an execution, by default the current one, as they are stored."""
        query = "recorded=true&limit=1000" + ("" if execution_id is None else f"&execution_id={execution_id}")
        found = await self("GET", f"orchestrations/{instance_id}/history?{query}")
        events: list[Json] = found["events"]
        return events

    async def ended(self, instance_id: str, timeout_seconds: float = 30) -> Json:
        found = await self("GET", f"orchestrations/{instance_id}/wait?timeout_seconds={timeout_seconds}")
        assert found["ended_at"] is not None, found
        return found

    async def reaches(self, instance_id: str, event: str, count: int = 1) -> None:
        """Waits until the history of an instance has so many events of a type."""

        async def has() -> bool:
            return sum(found["type"] == event for found in await self.history(instance_id)) >= count

        await eventually(has, what=f"{instance_id} has {count} {event}")

    async def becomes(self, instance_id: str, status: str) -> None:
        async def has() -> bool:
            return bool((await self.status(instance_id))["status"] == status)

        await eventually(has, what=f"{instance_id} is {status}")


@asynccontextmanager
async def served(folder: Path, *options: str, **variables: str) -> AsyncIterator[Rest]:
    with mock.patch.dict(os.environ, variables):
        server = Server(folder, "app:app", *options, imports=HERE)
        await server.start()
    try:
        async with aiohttp.ClientSession() as session:
            yield Rest(server.url, session)
    finally:
        # An orderly stop lets everything arrive that can.
        assert await server.stop() == 0


async def store_everything(folder: Path) -> Json:
    """Fills the store in ``folder``, and returns the answers that later versions have to give."""
    async with served(folder, GOLDEN_HELD="1") as rest:
        await store_queues(rest)
        await store_records(rest)
        await store_instances(rest)
    async with served(folder, "--no-worker", GOLDEN_CHANGED="1") as rest:
        await rest.start("crowded", "crowded", 60)
        await rest.reaches("crowded", "ActivityScheduled", 60)
        await rest.becomes("blocked", "BLOCKED")
        for number in range(3):
            await rest.raise_event("blocked", "notes", {"number": number})
        names = (
            *("everything", "rounds", "large", "broken", "cancelled", "suspended", "blocked", "crowded", "later"),
            *("again", "reporting", "overdue", "varied", await child_of(rest, "everything")),
        )
        return {
            "statuses": {name: await rest.status(name) for name in names},
            "histories": {name: await rest.history(name) for name in names},
            "earlier": {
                name: await rest.history(name, execution) for name, execution in (("rounds", 40), ("varied", 1))
            },
            "queues": {name: await rest("GET", f"queue/{name}") for name in ("plain", "held", "spread")},
            "peeked": {
                name: (await rest("GET", f"queue/{name}/peek?count=100"))["items"] for name in ("plain", "spread")
            },
        }


async def child_of(rest: Rest, instance_id: str) -> str:
    """Returns the id of the first child that an instance has started."""
    started = (event for event in await rest.history(instance_id) if event["type"] == "SubOrchestrationScheduled")
    return str(next(started)["instance_id"])


async def store_queues(rest: Rest) -> None:
    await rest("PUT", "queue/plain/config", {"max_locks": 3, "dedup_window_seconds": 86400, "max_deliveries": 2})
    await rest.push("plain", *({"number": number, "text": "ä" * 300} for number in range(120)), priority=1)
    await rest.push("plain", "first", None, [1.5, True], priority=0)
    await rest.push("plain", "known", dedup_id="order-1", idempotency_key="key-1")
    await rest.push("plain", "later", delay_seconds=365 * 86400)
    await rest.push("plain", "traced", traceparent=TRACEPARENT)
    await rest.push("plain", "fleeting", ttl_seconds=365 * 86400)
    for lock_id in (await rest.lock("plain", 2), await rest.lock("plain")):
        await rest("POST", "queue/plain/abandon", {"lock_id": lock_id, "error": "came back"})
    await rest("POST", "queue/plain/dead-letter", {"lock_id": await rest.lock("plain"), "reason": "rejected"})
    await rest.lock("plain", 2)
    await rest.lock("plain")
    await rest("PUT", "queue/held/config", {"max_locks": 2})
    await rest.push("held", *range(3))
    await rest("POST", "queue/held/abandon", {"lock_id": await rest.lock("held"), "delay_seconds": 300})
    await rest("PUT", "queue/spread/config", {"partitions": 3})
    for number in range(6):
        await rest.push("spread", number)
    # Dead letters that their queue has no room for are in transfer.
    await rest("PUT", "queue/narrow/config", {"capacity": 1})
    await rest.push("narrow", "in the way")
    await rest("PUT", "queue/stuck/config", {"dead_letter_queue": "narrow"})
    await rest.push("stuck", "in transfer")
    await rest("POST", "queue/stuck/dead-letter", {"lock_id": await rest.lock("stuck"), "reason": "rejected"})
    await rest("PUT", "queue/full/config", {"capacity": 1})


async def store_records(rest: Rest) -> None:
    for key in ("done", "failed", "running"):
        begun = await rest("POST", f"idempotency/default/{key}/begin", {"owner": "me", "lease_seconds": 300})
        assert begun["outcome"] == "run"
    kept = {"owner": "me", "result": {"receipt": 7}, "retention_seconds": 365 * 86400}
    await rest("POST", "idempotency/default/done/commit", kept)
    await rest("POST", "idempotency/default/failed/fail", {"owner": "me", "error": "out of paper"})


async def store_instances(rest: Rest) -> None:
    given = {"id": 21, "lines": ["oar"]}
    options = {"tags": {"batch": "b-1", "region": "north"}, "priority": 3}
    rest.headers = {"traceparent": TRACEPARENT}
    await rest("POST", "orchestrations/everything/start", {"instance_id": "everything", "input": given} | options)
    await rest.reaches("everything", "EventSubscribed")
    await rest("POST", "orchestrations/everything/suspend", {"reason": "a look"})
    await rest("POST", "orchestrations/everything/resume")
    await rest.raise_event("everything", "approved", {"by": "ann"})
    await rest("POST", "orchestrations/everything/requests/price?timeout_seconds=30&request_id=r-1", "oar")
    await rest("POST", "orchestrations/everything/requests/price?timeout_seconds=0&request_id=r-2", "mast")
    await rest.raise_event("everything", "notes", "not a number")
    await rest.raise_event("everything", "notes", "read me", "note-1")
    await rest.ended("everything")
    rest.headers = {}
    await rest("POST", "orchestrations/everything/rerun", {"from": "failure", "instance_id": "again"})

    async def lists_its_rerun() -> bool:
        return (await rest.status("everything")).get("reruns") == ["again"]

    await eventually(lists_its_rerun)
    await rest.reaches("again", "EventSubscribed")
    for name, given in (("reporting", None), ("overdue", None), ("varied", [])):
        await rest(
            "POST", f"orchestrations/{name}/start", {"instance_id": name, "input": given} | VERSIONS.get(name, {})
        )
    await rest.ended("overdue")
    await rest.ended("varied")
    await rest.reaches("reporting", "ActivityScheduled", 2)
    await rest.start("rounds", "rounds", 0)
    await rest("POST", "orchestrations/rounds/suspend")
    for number in range(40):
        await rest.raise_event("rounds", "steps", f"{number} {'x' * 1000}", f"step-{number}")
    await rest("POST", "orchestrations/rounds/resume")

    async def has_gone_round() -> bool:
        return bool((await rest.status("rounds"))["execution_id"] == 41)

    await eventually(has_gone_round, what="all mail is received")
    # Unread mail beyond one value of the store, with an execution that goes on.
    await rest("POST", "orchestrations/rounds/suspend")
    for number in range(40):
        await rest.raise_event("rounds", "steps", f"{number} {'y' * 1000}")
    await rest.start("large", "large", "z" * 2000)
    await rest.ended("large")
    await rest.start("broken", "broken")
    await rest.ended("broken")
    await rest.start("waits", "cancelled")
    await rest.reaches("cancelled", "EventSubscribed")
    await rest("POST", "orchestrations/cancelled/cancel", {"reason": "no longer wanted"})
    await rest.ended("cancelled")
    await rest.start("waits", "suspended")
    await rest.reaches("suspended", "EventSubscribed")
    await rest("POST", "orchestrations/suspended/suspend", {"reason": "for now"})
    await rest.raise_event("suspended", "first", 1)
    await rest("POST", "orchestrations/child/start", {"instance_id": "later", "input": 4, "start_at": "2999-12-31"})
    await rest("PUT", "schedules/yearly", {"orchestration": "child", "input": 2, "cron": "0 0 1 1 *"})
    triggered = await rest("POST", "schedules/yearly/trigger")
    # Otherwise the stop may come while its activity runs.
    await rest.ended(triggered["instance_id"])
    await rest.start("waits", "blocked")
    await rest.reaches("blocked", "EventSubscribed")


def rows_of(database: Path) -> Json:
    """Returns the rows of a store, by table, as JSON."""
    connection = sqlite3.connect(database)
    try:
        connection.row_factory = sqlite3.Row
        return {
            table: [dict(row) for row in connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2, 3 LIMIT 100000")]
            if table != "metadata"
            else [dict(row) for row in connection.execute("SELECT * FROM metadata ORDER BY key")]
            for table in TABLES
        }
    finally:
        connection.close()


def shapes(tables: Json) -> set[str]:
    """Returns each path in the stored values of each kind of actor, with the type of what is there."""
    found = {f"{actor}/{key}{path}" for actor, key, value in stored(tables) for path in paths(value)}
    # Which statuses are counted, depends on when the index was saved.
    return {re.sub(r"/shard\.counts\.\w+\.[A-Z]+:", "/shard.counts.NAME.STATUS:", path) for path in found}


def stored(tables: Json) -> Iterator[tuple[str, str, Any]]:
    """Yields type of actor, kind of key and value of each row."""
    for row in tables["state"]:
        _, actor, _, key = row["key"].split("||")
        yield actor, without_numbers(key), json.loads(row["value"])


def paths(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from (f".{without_numbers(key)}{path}" for path in paths(inner))
    elif isinstance(value, list):
        for inner in value:
            yield from (f"[]{path}" for path in paths(inner))
    else:
        # Whether a time has a fraction is chance.
        yield f": {'number' if type(value) in (int, float) else type(value).__name__}"


def without_numbers(name: str) -> str:
    """Returns a key with N for numbers and digests."""
    return re.sub(r"[0-9a-f]{12,}|\d+", "N", name)


async def recorded(folder: Path) -> Json:
    answers = await store_everything(folder)
    return {"recorded_at": time.time(), "answers": answers, "tables": rows_of(folder / "data" / "holdfast.db")}


def main() -> None:
    known: set[str] = set()
    # Some fields are there or not, by chance.
    for _ in range(RECORDINGS):
        with tempfile.TemporaryDirectory() as folder:
            found = asyncio.run(recorded(Path(folder)))
        known |= shapes(found["tables"])
    found["shapes"] = sorted(known)
    # Tracebacks name the files of the app, which lie elsewhere on each machine.
    text = json.dumps(found, indent=1, ensure_ascii=False).replace(str(HERE), "/app")
    STORE.write_text(text + "\n", "utf-8")
    sys.stdout.write(f"{STORE} has {len(found['tables']['state'])} values of {len(known)} shapes.\n")


if __name__ == "__main__":
    main()
