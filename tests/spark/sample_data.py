"""A bit of everything that a server can hold, and what REST says of it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tests.support.runs import Run
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.rest import Queue, Server

LONG_NUMBER = 123456789012345678901234567890
KEY = "a/b ü|c"


@dataclass
class ExpectedRows:
    """Rows as the tables should have them, by what names them."""

    queues: dict[tuple[str, int], dict[str, Any]] = field(default_factory=dict)
    items: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    locks: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    dead_letters: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    instances: dict[str, dict[str, Any]] = field(default_factory=dict)
    history: dict[tuple[str, int, int], dict[str, Any]] = field(default_factory=dict)
    idempotency: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)


async def store_samples(server: Server) -> None:
    """Items of every kind and in every state, instances of every status, records of every outcome."""
    mixed, spread, bad = (server.queue(name) for name in ("mixed", "spread", "bad"))
    (await mixed.configure(max_locks=5)).ok()
    await mixed.push({"first": LONG_NUMBER}, priority=1, dedup_id="d-1", idempotency_key="i-1", ttl_seconds=3600)
    await mixed.push("<b>Grüße</b> \u0000", priority=1)
    await mixed.push(None)
    for start in range(0, 230, 115):
        await mixed.push_many(*({"n": number, "text": "x" * 100} for number in range(start, start + 115)), priority=7)
    await mixed.push({"soon": 1}, priority=7, delay_seconds=0.1)
    late = (await mixed.push({"late": 1}, delay_seconds=3600, ttl_seconds=60)).ok()["ids"]
    assert late
    await mixed.push("spoils", priority=1, ttl_seconds=1)
    await mixed.push("revoked", priority=7)
    ids = (await mixed.push_many("gap", "kept", priority=3)).ok()["ids"]
    (await mixed.revoke(ids[0])).ok()

    async def settled() -> bool:
        stats = await mixed.stats()
        return stats["delayed"] == 1 and stats["counters"]["ttl_expired"] == 1

    await eventually(settled)
    await mixed.pop()  # the null, and its lane with it
    held = await mixed.lock(count=1, ttl_seconds=300)
    again = await mixed.lock(count=2, ttl_seconds=300)
    await mixed.lock(count=3, ttl_seconds=300)
    (await mixed.abandon(again["lock_id"], error="no luck")).ok()
    later = await mixed.lock(count=1, ttl_seconds=300)
    (await mixed.abandon(later["lock_id"], delay_seconds=3600, error="not now")).ok()
    assert held["count"] == 1

    (await spread.configure(partitions=3, max_deliveries=1)).ok()
    for number in range(6):
        await spread.push({"number": number}, priority=number % 2)

    await bad.push_many({"bad": 1}, {"bad": 2}, {"good": 1}, idempotency_key="k")
    lock = await bad.lock(count=2)
    (await bad.dead_letter(lock["lock_id"], reason="not an order")).ok()

    async def buried() -> bool:
        return len(await bad.dead_letters()) == 2

    await eventually(buried)
    await _run(server)
    for key, what in ((KEY, "commit"), ("tried", "fail"), ("running", None)):
        owner = (await _post(server, key, "begin", {"lease_seconds": 300}))["owner"]
        if what is not None:
            body = {"result": {"ok": LONG_NUMBER}} if what == "commit" else {"error": "it went wrong"}
            await _post(server, key, what, {"owner": owner} | body)


async def _run(server: Server) -> None:
    done, broken, again, waiting, cancelled, counted, parent, tagged, gone = (
        Run(server, name)
        for name in ("done", "broken", "again", "waiting", "cancelled", "counted", "parent", "tagged", "gone")
    )
    await done.begin("fan_out", 40)
    await broken.begin("broken")
    await waiting.begin("waiting")
    await cancelled.begin("waiting")
    await counted.begin("countdown", 2)
    await parent.begin("parent", "echo")
    await tagged.start("tagging", tags={"customer": "acme"})
    await tagged.waits_for("EventSubscribed")
    await tagged.raise_event("tags", {"customer": None, "stage": "paid"})
    await gone.begin("echo", "old")
    for run in (done, broken, counted, parent, gone):
        await run.ended()
    assert (await broken.tell("rerun", instance_id=again.id)).status == 202
    await again.ended()

    async def lists_its_rerun() -> bool:
        return (await broken.status()).get("reruns") == [again.id]

    await eventually(lists_its_rerun)
    assert (await gone.delete()).status == 200
    assert (await cancelled.tell("cancel", reason="enough")).status == 202
    await cancelled.ended()
    await waiting.waits_for("EventSubscribed")


async def expected_rows(server: Server) -> ExpectedRows:
    """Returns the rows that the tables must have, from REST."""
    expected = ExpectedRows()
    for name in ("mixed", "spread", "bad", "bad-deadletter"):
        await _add_queue(server.queue(name), expected)
    for letter in await server.queue("bad").dead_letters():
        row = {key: value for key, value in letter.items() if key != "tenant_id"}
        expected.dead_letters[f"{server.name}-bad-deadletter", letter["id"]] = row
    for name in ("done", "broken", "again", "waiting", "cancelled", "counted", "parent", "parent-child", "tagged"):
        run = Run(server, name)
        status = await run.status()
        status.pop("reason", None)
        expected.instances[run.id] = {"parent": None} | status
        for execution in range(1, status["execution_id"] + 1):
            for event in await run.history(execution_id=execution):
                expected.history[run.id, execution, event["seq"]] = event
    for key in (KEY, "tried", "running"):
        record = (await server.request("GET", f"/idempotency/{server.name}/{quote(key, safe='')}")).ok()
        expected.idempotency[server.name, key] = record
    return expected


async def _add_queue(queue: Queue, expected: ExpectedRows) -> None:
    stats = await queue.stats()
    expected.queues[queue.name, 0] = stats
    peeked = await queue.peek(count=100)
    for state, shown in (("waiting", [peeked]), ("locked", await queue.in_flight())):
        for page in shown:
            for item, message in zip(page["items"], page["messages"], strict=True):
                expected.items[queue.name, message["id"]] = message | {"item": item, "state": state}
    for lock in await queue.in_flight():
        expected.locks[queue.name, lock["lock_id_prefix"]] = lock


async def _post(server: Server, key: str, what: str, body: dict[str, Any]) -> Any:
    path = f"/idempotency/{server.name}/{quote(key, safe='')}/{what}"
    return (await server.request("POST", path, json.dumps(body).encode())).ok()
