"""A popped item equals the pushed one, to the last digit, also after transfers and restarts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.behaviour.clock import expired
from tests.behaviour.queues.test_dead_letters import arrived, dead_letters_of
from tests.behaviour.stacks import on_every_stack

if TYPE_CHECKING:
    from tests.support.rest import Server

MEBIBYTE = 1024 * 1024


def nested(levels: int) -> Any:
    return json.loads("[" * levels + "]" * levels)


PAYLOADS: dict[str, Any] = {
    "integers": [0, -1, 2**53, 2**53 + 1, -(2**63), 2**63, 2**64 - 1, 2**64, 10**30, 123456789012345678901234567890],
    "integer-past-every-float": 10**400,
    "fractions": [1.0, 0.0, -0.0, -3.0, 1.5, 0.1, 1e22, 1e-7, 5e-324, 1.7976931348623157e308, 100000.0],
    "dates": ["2024-01-01", "2024-01-01T00:00:00Z", "2024-01-01T00:00:00.000+02:00", "12:30", "2024/01/01"],
    "durations": ["5s", "1h30m", "PT5S", "3d", "0h0m5s0ms", "R3/PT1S", "-1.5h"],
    "unicode": ["", "ünï", "日本語", "🦀", "e\u0301", "\u2028\u2029", "\ufeff", "\ud7ff", "\uffff", "\U0010ffff"],
    "controls": ["\u0000", "\u0001\u001f\u007f", 'a"b\\c/d\n\r\t\b\f', "</script>", "\\u0000", "%00%2F"],
    "nulls": {"a": None, "b": [None, {"c": None}], "": {"": None}},
    "constants": [True, False, None, [], {}, "", "true", "null", "1"],
    "keys": {"b": 1, "a": 2, "": 3, " ": 4, "a||b": 5, "__proto__": 6, "items": [], "item": {"priority": 9}, "🦀": 7},
    "base64": ["aGVsbG8=", "bnVsbA=="],
    "deep": nested(90),
    "wide": list(range(5000)),
}


def exact(value: Any) -> str:
    """JSON with types and the order of keys: 1, 1.0 and True are told apart."""
    return json.dumps(value)


@on_every_stack
async def test_payloads_come_back_exactly(server: Server) -> None:
    queue = server.queue()
    for payload in PAYLOADS.values():
        (await queue.push(payload)).ok()
    expected = [exact(payload) for payload in PAYLOADS.values()]
    assert [exact(item) for item in (await queue.peek(count=100))["items"]] == expected
    taken = await queue.lock(count=100, ttl_seconds=1)
    assert [exact(item) for item in taken["items"]] == expected
    await expired(taken)
    taken = await queue.lock(count=100)
    assert [exact(item) for item in taken["items"]] == expected
    [lock] = await queue.in_flight()
    assert [exact(item) for item in lock["items"]] == expected
    (await queue.abandon(taken["lock_id"])).ok()
    assert [exact(item) for item in await queue.drain()] == expected


@pytest.mark.parametrize("name", PAYLOADS)
@on_every_stack
async def test_a_payload_can_be_locked_alone(server: Server, name: str) -> None:
    """A small one is also shown inside the lock, in a store that reads numbers in its own way."""
    queue = server.queue()
    (await queue.push(PAYLOADS[name])).ok()
    taken = await queue.lock()
    assert exact(taken["items"]) == exact([PAYLOADS[name]])
    (await queue.push("meanwhile")).ok()
    (await queue.abandon(taken["lock_id"])).ok()
    taken = await queue.lock()
    assert exact(taken["items"]) == exact([PAYLOADS[name]])
    (await queue.acknowledge(taken["lock_id"])).ok()
    assert await queue.drain() == ["meanwhile"]


@on_every_stack
async def test_payloads_survive_the_process_and_become_dead_letters(server: Server) -> None:
    queue = server.queue()
    (await queue.send("push", {"items": [{"item": payload} for payload in PAYLOADS.values()]})).ok()
    taken = await queue.lock(count=100)
    await server.stack.kill_app()
    await server.stack.start_app()
    expected = [exact(payload) for payload in PAYLOADS.values()]
    [lock] = await queue.in_flight()
    assert [exact(item) for item in lock["items"]] == expected
    (await queue.dead_letter(taken["lock_id"])).ok()
    dead = await arrived(dead_letters_of(queue), len(PAYLOADS))
    assert [exact(item) for item in dead["items"]] == expected


@on_every_stack
async def test_texts_about_an_item_come_back_exactly(server: Server) -> None:
    queue = server.queue()
    text = 'no "luck" \u0001 \\ 🦀 2024-01-01 \u2028'
    (await queue.push(1, idempotency_key=text)).ok()
    taken = await queue.lock()
    assert taken["messages"][0]["idempotency_key"] == text
    (await queue.abandon(taken["lock_id"], error=text)).ok()
    taken = await queue.lock()
    assert taken["messages"][0]["last_error"] == text
    (await queue.dead_letter(taken["lock_id"], reason=text)).ok()
    [message] = (await arrived(dead_letters_of(queue), 1))["messages"]
    assert message["idempotency_key"] == text
    assert (message["dead_letter"]["reason"], message["dead_letter"]["last_error"]) == (text, text)


@on_every_stack
async def test_nothing_is_stored_that_a_store_could_not_hold(server: Server) -> None:
    """PostgreSQL's jsonb knows no U+0000, so no value may have one, though payloads and messages for people may."""
    queue = server.queue()
    (await queue.push("a\u0000b")).ok()
    (await queue.push(1, idempotency_key="a\u0000b")).refused(400, "INVALID_REQUEST")
    taken = await queue.lock()
    assert not _has_nul(await queue.stored())
    (await queue.abandon(taken["lock_id"], error="no\u0000luck")).ok()
    assert not _has_nul(await queue.stored())
    taken = await queue.lock()
    assert (taken["items"], taken["messages"][0]["last_error"]) == (["a\u0000b"], "no\ufffdluck")
    (await queue.dead_letter(taken["lock_id"], reason="\u0000")).ok()
    dead = await arrived(dead_letters_of(queue), 1)
    assert (dead["items"], dead["messages"][0]["dead_letter"]["reason"]) == (["a\u0000b"], "\ufffd")
    assert not _has_nul(await dead_letters_of(queue).stored())


def _has_nul(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_has_nul(entry) for pair in value.items() for entry in pair)
    if isinstance(value, list):
        return any(_has_nul(entry) for entry in value)
    return isinstance(value, str) and "\0" in value


# One character is four bytes.
CRABS = "🦀" * (MEBIBYTE // 4 - 1)
# One character is two bytes in a JSON text, and four in a JSON text inside a JSON text.
QUOTES = '"' * (MEBIBYTE // 2 - 1)


@on_every_stack
async def test_many_items_of_one_mebibyte(server: Server) -> None:
    """A pop of all of them takes as many as fit into an answer, and loses none."""
    queue = server.queue()
    for _ in range(3):
        (await queue.send("push", _body([CRABS] * 11))).ok()
    (await queue.push("small", priority=1)).ok()
    taken = await queue.lock(count=100)
    assert taken["items"] == [CRABS] * taken["count"]
    (await queue.push("smaller", priority=2)).ok()
    (await queue.acknowledge(taken["lock_id"])).ok()
    rest = await queue.drain()
    assert rest == [CRABS] * (33 - taken["count"]) + ["small", "smaller"]


@on_every_stack
async def test_an_item_of_more_than_one_mebibyte_is_413(server: Server) -> None:
    queue = server.queue()
    for item in ("x" * (MEBIBYTE - 1), "é" * (MEBIBYTE // 2), ["x" * 1000] * 1100):
        (await queue.send("push", _body([item]))).refused(413, "TOO_LARGE")
        (await queue.send("push", _body(["small", item]))).refused(413, "TOO_LARGE")
    assert (await queue.stats())["count"] == 0


@on_every_stack
async def test_the_largest_request_of_the_most_awkward_items(server: Server) -> None:
    """Every quote doubles on its way into the store."""
    queue = server.queue()
    body = _body([QUOTES] * 15 + ['"' * (MEBIBYTE // 2 - 1000)])
    assert 16 * MEBIBYTE - 2000 < len(body) <= 16 * MEBIBYTE
    (await queue.send("push", body)).ok()
    assert (await queue.stats())["count"] == 16


def _body(items: list[Any]) -> bytes:
    return json.dumps({"items": [{"item": item} for item in items]}, ensure_ascii=False).encode()
