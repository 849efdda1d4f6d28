"""Wrong calls are refused at the start and leave nothing; wrong code fails its instance, and the server lives on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from tests.behaviour.stacks import on_every_stack
from tests.support.runs import Run, accepted, delivered, start

if TYPE_CHECKING:
    from tests.support.rest import Server

MEBIBYTE = 1024 * 1024

WRONG_BODIES: list[dict[str, Any]] = [
    {"instance_id": ""},
    {"instance_id": 7},
    {"instance_id": "a/b"},
    {"instance_id": ".a"},
    {"instance_id": "a b"},
    {"instance_id": "a@b"},
    {"instance_id": "a||b"},
    {"instance_id": "i" * 256},
    {"version": 1},
    {"version": []},
    {"tags": []},
    {"tags": {"": "x"}},
    {"tags": {"a b": "x"}},
    {"tags": {"k" * 65: "x"}},
    {"tags": {"k": 1}},
    {"tags": {"k": None}},
    {"tags": {"k": "v" * 256}},
    {"tags": {"k": "a\u0000b"}},
    {"tags": {str(number): "x" for number in range(21)}},
    {"priority": -1},
    {"priority": "1"},
    {"priority": True},
    {"priority": 2**31},
    {"start_at": 1},
    {"start_at": ""},
    {"start_at": "tomorrow"},
    {"start_at": "2026-13-01T00:00:00Z"},
    {"start_at": "20261117T060000Z"},
    {"start_at": "2026-W47-2"},
    {"start_at": "9" * 65},
    {"event": []},
    {"event": {}},
    {"event": {"name": "a/b"}},
    {"event": {"name": 1}},
    {"event": {"name": "go", "value": 1}},
    {"event": {"name": "go", "data": "a\u0000b"}},
    {"event": {"name": "go", "event_id": ""}},
    {"inputs": 1},
    {"input": "a\u0000b"},
]
WRONG_INPUTS: list[Any] = [None, 1, "text", [], {}, {"number": "x"}, {"number": 1, "lines": 7}, {"number": 1.5}]


@on_every_stack
async def test_unknown_names_and_versions(server: Server) -> None:
    run = Run(server)
    assert "nobody" in (await run.start("nobody")).refused(404, "NOT_FOUND")["message"]
    assert "version 3" in (await run.start("greeting", version="3")).refused(404, "NOT_FOUND")["message"]
    (await run.start(quote("a/b", safe=""))).refused(400, "INVALID_REQUEST")
    assert await run.stored() == {}
    assert not await run.is_found()


@pytest.mark.parametrize("value", WRONG_INPUTS, ids=repr)
@on_every_stack
async def test_an_input_of_the_wrong_shape(server: Server, value: Any) -> None:
    run = Run(server)
    message = (await run.start("typed", value)).refused(400, "INVALID_REQUEST")["message"]
    assert message.startswith("input")
    assert await run.stored() == {}


@on_every_stack
async def test_bodies_of_a_start(server: Server) -> None:
    for body in WRONG_BODIES:
        (await start(server, "echo", **body)).refused(400, "INVALID_REQUEST")
    for text in (b"[]", b"7", b'"x"', b"{", b'{"input": nan}', b"\xff"):
        (await server.request("POST", "/orchestrations/echo/start", text)).refused(400, "INVALID_REQUEST")
    assert (await server.request("POST", "/orchestrations/echo/start")).status == 202


@on_every_stack
async def test_bodies_of_other_calls(server: Server) -> None:
    run = await Run(server).begin("waiting")
    for call, body in (
        ("cancel", {"reason": 7}),
        ("cancel", {"reason": "r" * 1025}),
        ("cancel", {"why": "x"}),
        ("suspend", {"reason": []}),
        ("resume", {"reason": "x"}),
        ("outcome", {"of": "timer", "execution_id": 1, "scheduled_seq": 1}),
        ("outcome", {"of": "activity", "execution_id": 0, "scheduled_seq": 1}),
        ("outcome", {"of": "activity"}),
    ):
        (await run.tell(call, **body)).refused(400, "INVALID_REQUEST")
    for path, query in (
        ("/history", {"limit": 0}),
        ("/history", {"limit": 1001}),
        ("/history", {"cursor": -1}),
        ("/history", {"cursor": "x"}),
        ("/wait", {"timeout_seconds": -1}),
        ("/wait", {"timeout_seconds": 301}),
        ("/wait", {"timeout_seconds": "nan"}),
        ("/wait", {"wait_seconds": 1}),
    ):
        (await run.get(path, **query)).refused(400, "INVALID_REQUEST")
    # These belong into the body. In the query they would have no effect.
    for path, query in (("cancel", {"reason": "x"}), ("rerun", {"from": "failure"}), ("suspend", {"force": "true"})):
        answer = await server.request("POST", f"/orchestrations/{run.id}/{path}", query=query)
        assert next(iter(query)) in answer.refused(400, "INVALID_REQUEST")["message"]
    (await run.delete(force="yes")).refused(400, "INVALID_REQUEST")
    (await run.raise_event("a%20b")).refused(400, "INVALID_REQUEST")
    (await run.raise_event("go", event_id="")).refused(400, "INVALID_REQUEST")
    path = f"/orchestrations/{run.id}/events/go"
    (await server.request("POST", path, b"{")).refused(400, "INVALID_REQUEST")
    status = await run.status()
    assert (status["status"], status["events"]) == ("RUNNING", 2)


@on_every_stack
async def test_payloads_have_a_limit(server: Server) -> None:
    large, just_right = "x" * MEBIBYTE, "x" * (MEBIBYTE - 2)
    run = Run(server)
    (await run.start("echo", large)).refused(413, "TOO_LARGE")
    assert await run.stored() == {}
    await run.begin("echo", just_right)
    assert await run.output() == just_right
    waiting = await Run(server, "waiting").begin("waiting")
    (await waiting.raise_event("go", large)).refused(413, "TOO_LARGE")
    delivered(await waiting.raise_event("go", just_right))
    assert await waiting.output() == just_right


@on_every_stack
async def test_an_output_that_cannot_be_written(server: Server) -> None:
    for name, said in (("without_json", "JSON"), ("wrong_type", "int")):
        run = await Run(server, name).begin(name)
        error = await run.error()
        assert (error["type"], error["kind"]) == ("TypeError", "error")
        assert said in error["message"]
        assert await run.types() == ["OrchestrationStarted", "OrchestrationFailed"]


@on_every_stack
async def test_an_orchestration_that_raises(server: Server) -> None:
    run = await Run(server).begin("broken")
    error = await run.error()
    assert 'raise RuntimeError("broken on purpose")' in error.pop("traceback")
    assert error == {"type": "RuntimeError", "message": "broken on purpose", "kind": "error"}


@on_every_stack
async def test_an_orchestration_that_never_waits(server: Server) -> None:
    run = await Run(server).begin("spinning")
    error = await run.error()
    assert (error["type"], error["kind"]) == ("NeverYields", "never_yields")
    assert "without waiting" in error["message"]
    assert await (await Run(server, "next").begin("echo", 1)).output() == 1


@on_every_stack
async def test_completions_that_nobody_scheduled_change_nothing(server: Server) -> None:
    run = await Run(server).begin("waiting")
    before = await run.stored()
    for of, execution_id, scheduled_seq in (
        ("activity", 1, 1),
        ("activity", 1, 2),
        ("activity", 1, 99),
        ("activity", 2, 2),
        ("sub", 1, 2),
        ("sub", 7, 1),
    ):
        body = {"of": of, "execution_id": execution_id, "scheduled_seq": scheduled_seq, "result": json.dumps("x")}
        accepted(await run.tell("outcome", **body))
    assert await run.stored() == before
    unknown = Run(server, "unknown")
    (await unknown.tell("outcome", of="activity", execution_id=1, scheduled_seq=1)).refused(404, "NOT_FOUND")
