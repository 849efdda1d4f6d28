"""Requests that orchestrations reply to."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from tests.behaviour.orchestrations.redeployment import blocked, deploys
from tests.behaviour.queues.test_acks import around_the_save, crash_and_restart, crash_at, is_not_answered
from tests.behaviour.stacks import ALL, KILLED, on_every_stack, on_stacks
from tests.support.runs import Run, accepted, delivered
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.rest import Answer, Server

BULK = 600


def replied(answer: Answer, reply: Any, request_id: str | None = None) -> None:
    assert answer.status == 200, answer.text
    assert answer.body == {"request_id": request_id or answer.body["request_id"], "reply": reply}


def is_open(answer: Answer, request_id: str) -> None:
    assert (answer.status, answer.body) == (202, {"request_id": request_id}), answer.text


@on_every_stack
async def test_the_code_replies_and_the_same_request_has_the_same_reply(server: Server) -> None:
    run = await Run(server).begin("cart")
    replied(await run.request("add-line", {"number": 4}, request_id="first"), {"price": 8}, "first")
    replied(await run.request("add-line", {"number": 5}), {"price": 10})
    for data in ({"number": 4}, {"number": 9}):
        replied(await run.request("add-line", data, request_id="first"), {"price": 8}, "first")
    replied(await run.reply("first"), {"price": 8}, "first")
    replied(await run.request("close", 1, request_id="closing"), 2)
    assert await run.output() == [4, 5]
    # Also after the end.
    replied(await run.request("add-line", {"number": 4}, request_id="first"), {"price": 8}, "first")
    replied(await run.reply("closing"), 2)
    types = await run.types()
    assert types.count("RequestReceived") == types.count("RequestAnswered") == 3
    received = next(event for event in await run.history() if event["type"] == "RequestReceived")
    answered = next(event for event in await run.history() if event["type"] == "RequestAnswered")
    assert (received["name"], received["request_id"], received["data"]) == ("add-line", "first", {"number": 4})
    assert (answered["name"], answered["request_id"], answered["reply"]) == ("add-line", "first", {"price": 8})


@on_every_stack
async def test_what_is_wrong_with_a_request_is_said(server: Server) -> None:
    run = await Run(server).begin("cart")
    for wrong in (None, 1, [], {}, {"number": "x"}):
        body = (await run.request("add-line", wrong)).refused(400, "INVALID_REQUEST")
        assert "the request add-line" in body["message"]
    (await run.request("add-line", {"number": 1}, request_id="")).refused(400, "INVALID_REQUEST")
    (await run.request("add-line", {"number": 1}, request_id="x" * 256)).refused(400, "INVALID_REQUEST")
    (await run.request("add-line", {"number": 1}, timeout_seconds=301)).refused(400, "INVALID_REQUEST")
    (await run.request("remove-line", {"number": 1})).refused(404, "NOT_FOUND")
    (await run.request(".x", 1)).refused(400, "INVALID_REQUEST")
    (await run.reply("unknown")).refused(404, "NOT_FOUND")
    (await Run(server, "unknown").request("add-line", {"number": 1})).refused(404, "NOT_FOUND")
    (await Run(server, "unknown").reply("first")).refused(404, "NOT_FOUND")
    assert await run.types() == ["OrchestrationStarted"]
    for _ in range(2):
        body = (await run.request("add-line", {"number": -1}, request_id="r")).refused(409, "REJECTED")
        assert (body["message"], body["request_id"]) == ("A number is not negative.", "r")
    assert (await run.reply("r")).refused(409, "REJECTED")["message"] == "A number is not negative."


@on_every_stack
async def test_a_request_waits_for_its_reply_as_long_as_it_may(server: Server) -> None:
    run = await Run(server).begin("thinking")
    is_open(await run.request("ask", None, request_id="a", timeout_seconds=0.2), "a")
    is_open(await run.reply("a"), "a")
    [waiting] = (await run.status())["waiting_for"]
    assert (waiting["kind"], waiting["name"]) == ("event", "go")
    waits = [
        asyncio.ensure_future(run.request("ask", None, request_id="a", timeout_seconds=60)),
        asyncio.ensure_future(run.reply("a", timeout_seconds=60)),
    ]
    await asyncio.sleep(0.5)
    delivered(await run.raise_event("go", "at last"))
    for wait in waits:
        replied(await wait, "at last", "a")
    replied(await run.reply("a"), "at last", "a")


@on_every_stack
async def test_a_request_that_is_open_at_the_end_is_refused(server: Server) -> None:
    run = await Run(server).begin("thinking")
    wait = asyncio.ensure_future(run.request("ask", None, request_id="a", timeout_seconds=60))
    await run.waits_for("RequestReceived", "EventSubscribed")
    accepted(await run.tell("cancel"))
    assert (await wait).refused(409, "CONFLICT")["request_id"] == "a"
    for answer in (await run.request("ask", None, request_id="a"), await run.reply("a"), await run.request("ask")):
        answer.refused(409, "CONFLICT")
    (await run.delete()).ok()
    (await run.reply("a")).refused(404, "NOT_FOUND")


@on_every_stack
async def test_any_characters_may_be_in_an_id(server: Server) -> None:
    run = await Run(server).begin("numbering", 0)
    ids = ["a/b", "ü 𝄞", "..", "a?b#c%20", "@" * 255, "x" * 255, '"\\']
    for number, request_id in enumerate(ids):
        replied(await run.request("number", None, request_id=request_id), number, request_id)
    for number, request_id in enumerate(ids):
        if request_id != "..":  # a client would have to write it as %2E%2E
            replied(await run.reply(request_id), number, request_id)
    answer = await server.request("GET", f"/orchestrations/{run.id}/requests/%2E%2E")
    assert answer.status in (200, 404)


@on_every_stack
async def test_requests_in_bulk_are_taken_along_in_order(server: Server) -> None:
    """With one request taken in each execution, unread ones must not be written again by each execution."""
    run = await Run(server).begin("numbering", 0)
    accepted(await run.tell("suspend"))
    for number in range(BULK):
        is_open(await run.request("number", None, request_id=f"r{number}", timeout_seconds=0), f"r{number}")
    last = asyncio.ensure_future(run.request("number", "end", request_id="last", timeout_seconds=120))
    await asyncio.sleep(0.5)
    accepted(await run.tell("resume"))
    replied(await last, BULK, "last")
    assert await run.output() == BULK
    for number in range(0, BULK, 50):
        replied(await run.reply(f"r{number}"), number)

    async def swept() -> bool:
        kept = [key for key in await run.stored() if key.startswith(("history-", "mail-"))]
        return len(kept) < 15

    await eventually(swept)


@on_every_stack
async def test_a_tenant_has_its_own_requests(server: Server) -> None:
    us, them = server.of(f"us-{server.name}"), server.of(f"them-{server.name}")
    ours, theirs = await Run(us).begin("numbering", 1), await Run(them).begin("numbering", 7)
    replied(await ours.request("number", None, request_id="a"), 1, "a")
    (await theirs.reply("a")).refused(404, "NOT_FOUND")
    replied(await theirs.request("number", None, request_id="a"), 7, "a")
    replied(await ours.reply("a"), 1, "a")
    assert not await Run(server).is_found()


@around_the_save
@on_stacks(*ALL, part=KILLED)
@pytest.mark.parametrize("event", ["RequestReceived", "ActivityCompleted"])
async def test_a_request_survives_a_crash_around_each_save(server: Server, when: str, event: str) -> None:
    run = await Run(server).begin("cart")
    crash_at(run, event, when)
    # The caller hears nothing, or waits: the app dies either way.
    await is_not_answered(run.request("add-line", {"number": 4}, request_id="a", timeout_seconds=60))
    await crash_and_restart(server)

    async def is_answered() -> bool:
        return (await run.request("add-line", {"number": 4}, request_id="a")).status == 200

    await eventually(is_answered)
    replied(await run.reply("a"), {"price": 8}, "a")
    types = await run.types()
    assert (types.count("RequestReceived"), types.count("RequestAnswered")) == (1, 1)


@around_the_save
@on_stacks(*ALL, part=KILLED)
async def test_a_reply_and_the_next_execution_are_saved_together(server: Server, when: str) -> None:
    run = await Run(server).begin("numbering", 0)
    replied(await run.request("number", None, request_id="a"), 0)
    crash_at(run, "RequestReceived", when)
    await is_not_answered(run.request("number", None, request_id="b"))
    await crash_and_restart(server)
    replied(await run.request("number", None, request_id="b"), 1)
    replied(await run.request("number", None, request_id="a"), 0)
    replied(await run.request("number", "end", request_id="c"), 2)
    assert await run.output() == 2


@on_stacks(*ALL, part=KILLED)
async def test_requests_to_a_blocked_instance_are_answered_after_a_rollback(server: Server) -> None:
    run = await Run(server).begin("answering")
    replied(await run.request("ask", None, request_id="before"), 0)
    async with deploys(server) as changing:
        await changing.deploy(requests=["another"])
        reason = await blocked(run)
        assert (reason["kind"], reason["expected"]) == ("undeclared_request", "the request ask")
        assert "changing_definitions.py:" in reason["line"]
        assert (await run.status())["waiting_for"][0]["kind"] == "request"
        for number in range(3):
            is_open(await run.request("ask", None, request_id=f"r{number}", timeout_seconds=0), f"r{number}")
        replied(await run.request("ask", None, request_id="before"), 0)
        (await run.request("unheard-of", timeout_seconds=0)).refused(404, "NOT_FOUND")
        (await run.reply("unknown")).refused(404, "NOT_FOUND")
        await changing.deploy(kill=True)
        for number in range(3):
            replied(await run.reply(f"r{number}", timeout_seconds=60), number + 1)
