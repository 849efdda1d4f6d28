"""Requests to the actor of an instance: their replies are kept, whatever happens to the instance."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import App, Context
from holdfast.orchestration.actor.actor import waiting_for
from holdfast.orchestration.core.requests import MAX_REPLIES
from holdfast.orchestration.reader import InstanceReader, events_in
from holdfast.runtime.batching import CallBatcher
from holdfast.runtime.notifier import Notifier, Subscription
from holdfast.runtime.serialization import dump, load
from tests.support.simulated import on_simulated_host
from tests.unit.orchestration.redeployment import ROWS, Stage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.runtime.in_process.storage import Write

BULK = 600
PADDING = "x" * 200
#: What one turn may write, however many requests wait and however many replies there are.
MOST_BYTES = 200_000


def an_app(requests: Any = ("ask",), *, departed: bool = False) -> App:
    app = App()

    @app.orchestration(requests=requests)
    async def answering(ctx: Context, number: int = 0) -> None:
        """For ever, in one execution."""
        if departed:
            await asyncio.sleep(1)
        while True:
            request = await ctx.request("ask")
            if request.data == "end":
                return
            if request.data == "never":
                await ctx.event("never")
            request.reply({"number": number, "text": PADDING})
            number += 1

    @app.orchestration(requests=requests)
    async def one_each(ctx: Context, number: int = 0) -> None:
        """One request in each execution."""
        if departed:
            await asyncio.sleep(1)
        request = await ctx.request("ask")
        if request.data != "end":
            request.reply({"number": number, "text": PADDING})
            ctx.continue_as_new(number + 1)

    @app.orchestration(requests=requests)
    async def later(ctx: Context) -> None:
        request = await ctx.request("ask")
        await ctx.event("go")
        request.reject("too late") if request.data == "wrong" else request.reply("at last")
        await ctx.event("never")

    return app


on_stage = on_simulated_host(partial(Stage, an_app))


async def ask(stage: Stage, request_id: str, data: Any = None, name: str = "ask") -> Any:
    return await stage.ask("i", "Request", name=name, data=data, request_id=request_id)


async def number_of(stage: Stage, request_id: str) -> int:
    answer = await stage.ask("i", "Reply", request_id=request_id)
    assert answer["answered"], answer
    number: int = answer["reply"]["number"]
    return number


async def in_bulk(stage: Stage, count: int) -> list[Any]:
    """Many requests at once, as from as many callers."""
    batcher = CallBatcher.of(stage.host.client, "OrchestrationActor")
    bodies = [dump({"name": "ask", "data": PADDING, "request_id": f"bulk-{number}"}) for number in range(count)]
    return list(await asyncio.gather(*(batcher.call("i", "Request", body) for body in bodies)))


def largest_write(stage: Stage) -> list[int]:
    written: list[int] = []

    def note(writes: Sequence[Write]) -> None:
        written.append(sum(len(write.value or b"") + len(write.key) for write in writes))

    stage.host.storage.committed = note
    return written


@on_stage
async def test_the_first_reply_is_given_again_also_after_a_restart_and_after_the_end(stage: Stage) -> None:
    await stage.begin("i", "answering")
    first = await ask(stage, "a")
    assert first == {
        "success": True,
        "request_id": "a",
        "answered": True,
        "reply": {"number": 0, "text": PADDING},
    }
    assert await ask(stage, "a", "other data") == first
    await stage.deploy()
    assert await ask(stage, "a") == first
    assert await number_of(stage, "a") == 0
    ended = await ask(stage, "b", "end")
    assert (ended["success"], ended["error_code"], ended["request_id"]) == (False, "CONFLICT", "b")
    assert await ask(stage, "a") == first
    assert (await ask(stage, "c"))["error_code"] == "CONFLICT"
    assert (await stage.ask("i", "Reply", request_id="c"))["error_code"] == "CONFLICT"
    assert (await stage.types("i")).count("RequestReceived") == 2


@on_stage
async def test_a_reply_that_comes_later_is_read_later(stage: Stage) -> None:
    await stage.begin("i", "later")
    pending = {"success": True, "request_id": "a", "answered": False}
    assert await ask(stage, "a") == pending
    assert await ask(stage, "a") == pending
    assert await stage.ask("i", "Reply", request_id="a") == pending
    assert (await stage.ask("i", "Reply", request_id="unknown"))["error_code"] == "NOT_FOUND"
    await stage.deploy()
    assert await stage.ask("i", "Reply", request_id="a") == pending
    await stage.ask("i", "RaiseEvent", name="go")
    assert (await stage.ask("i", "Reply", request_id="a"))["reply"] == "at last"
    for request_id, name, code in (("u", "unheard-of", "NOT_FOUND"), ("", "ask", "INVALID_REQUEST")):
        assert (await ask(stage, request_id, name=name))["error_code"] == code
    assert (await stage.ask("nowhere", "Request", name="ask"))["error_code"] == "NOT_FOUND"
    assert (await stage.ask("nowhere", "Reply", request_id="a"))["error_code"] == "NOT_FOUND"


@on_stage
async def test_a_rejected_request_stays_rejected(stage: Stage) -> None:
    await stage.begin("i", "later")
    await ask(stage, "a", "wrong")
    await stage.ask("i", "RaiseEvent", name="go")
    for _ in range(2):
        answer = await ask(stage, "a")
        assert (answer["error_code"], answer["message"], answer["request_id"]) == ("REJECTED", "too late", "a")
        await stage.deploy()


@on_stage
async def test_who_waits_for_a_reply_is_sent_it(stage: Stage) -> None:
    await stage.begin("i", "later")
    await ask(stage, "a")
    notifier = await Notifier(stage.host.client).subscribe()
    with Subscription(f"{waiting_for('i')} a") as wakeup:
        await stage.ask("i", "Reply", request_id="a", notify=notifier)
        await stage.ask("i", "RaiseEvent", name="other")
        assert not wakeup.is_set()
        await stage.ask("i", "RaiseEvent", name="go")
        await asyncio.wait_for(wakeup.wait(), 5)
        assert wakeup.payload is not None
        assert load(wakeup.payload.encode())["reply"] == "at last"
    with Subscription(f"{waiting_for('i')} b") as wakeup:
        await ask(stage, "b")
        await stage.ask("i", "Reply", request_id="b", notify=notifier)
        await stage.ask("i", "Cancel")
        await asyncio.wait_for(wakeup.wait(), 5)
        assert wakeup.payload is None


@pytest.mark.parametrize("name", ["answering", "one_each"])
def test_many_requests_at_once_are_answered_in_order_in_turns_of_bounded_size(name: str) -> None:
    async def body(stage: Stage) -> None:
        await stage.begin("i", name)
        await stage.ask("i", "Suspend")
        written = largest_write(stage)
        answers = await in_bulk(stage, BULK)
        assert {answer["answered"] for answer in answers} == {False}
        await stage.ask("i", "Resume")
        await asyncio.sleep(60)
        for number in range(0, BULK, 7):
            assert await number_of(stage, f"bulk-{number}") == number
        await stage.deploy()
        assert [answer["reply"]["number"] for answer in await in_bulk(stage, BULK)] == list(range(BULK))
        # The requests of one call may fill a turn on their own.
        assert max(written) < MOST_BYTES + BULK * 4 * len(PADDING)

    on_stage(body)()


@pytest.mark.parametrize("name", ["answering", "one_each"])
def test_replies_are_written_once_and_the_last_ones_kept(name: str) -> None:
    async def body(stage: Stage) -> None:
        await stage.begin("i", name)
        written = largest_write(stage)
        count = MAX_REPLIES + 300
        for number in range(count):
            await ask(stage, str(number))
        assert max(written) < 60_000
        # Twice in the history, in the head of some turns, and with a page of replies.
        assert sum(written) < 80 * count * len(PADDING)
        for restarted in (False, True):
            if restarted:
                await stage.deploy()
            for number in range(count - MAX_REPLIES, count, 50):
                assert (await ask(stage, str(number)))["reply"]["number"] == number
        # Forgotten, it is a new one.
        assert (await ask(stage, "0"))["reply"]["number"] == count
        await asyncio.sleep(60)
        keys = [key for key in stage.keys("i") if key.startswith("repl")]
        assert len(keys) < MAX_REPLIES // 20
        await stage.ask("i", "Delete", force=True)
        await asyncio.sleep(60)
        assert stage.keys("i") == []

    on_stage(body)()


@on_stage
async def test_requests_to_a_blocked_instance_are_kept_and_answered_later(stage: Stage) -> None:
    await stage.begin("i", "answering")
    await ask(stage, "before")
    await stage.deploy(an_app(departed=True))
    assert await stage.status("i") == "BLOCKED"
    for number in range(3):
        assert (await ask(stage, f"r{number}"))["answered"] is False
    inbox = [key for key in stage.keys("i") if key.startswith("inbox")]
    assert (await ask(stage, "r1"))["answered"] is False
    assert [key for key in stage.keys("i") if key.startswith("inbox")] == inbox
    assert (await ask(stage, "before"))["reply"]["number"] == 0
    assert (await stage.ask("i", "Reply", request_id="r1"))["answered"] is False
    assert (await stage.ask("i", "Reply", request_id="unknown"))["error_code"] == "NOT_FOUND"
    assert (await ask(stage, "x", name="unheard-of"))["error_code"] == "NOT_FOUND"
    await stage.deploy(App())
    assert (await stage.ask("i", "Reply", request_id="r1"))["answered"] is False
    assert (await ask(stage, "r3"))["answered"] is False
    assert (await ask(stage, "x", name="unheard-of"))["error_code"] == "NOT_FOUND"
    await stage.deploy()
    assert [await number_of(stage, f"r{number}") for number in range(4)] == [1, 2, 3, 4]


@on_stage
async def test_a_request_that_does_not_fit_the_code_that_is_back_is_answered_with_the_reason(stage: Stage) -> None:
    await stage.begin("i", "answering")
    await stage.deploy(App())
    assert (await ask(stage, "wrong", "text"))["answered"] is False
    assert (await ask(stage, "right", 1))["answered"] is False
    await stage.deploy(an_app({"ask": int}))
    answer = await stage.ask("i", "Reply", request_id="wrong")
    assert answer["error_code"] == "INVALID_REQUEST"
    assert await number_of(stage, "right") == 0


@on_stage
async def test_an_acknowledged_request_that_is_no_longer_declared_blocks_the_instance(stage: Stage) -> None:
    await stage.begin("i", "later")
    await stage.deploy(App())
    assert (await ask(stage, "a"))["answered"] is False
    await stage.deploy(an_app(["another"]))
    reason = await stage.reason("i")
    assert reason["kind"] == "undeclared_request"
    await stage.deploy()
    await stage.ask("i", "RaiseEvent", name="go")
    assert (await stage.ask("i", "Reply", request_id="a"))["reply"] == "at last"


@on_stage
async def test_a_blocked_instance_that_is_cancelled_answers_no_more(stage: Stage) -> None:
    await stage.begin("i", "answering")
    for number in range(50):
        await ask(stage, f"r{number}")
    await stage.deploy(App())
    await ask(stage, "late")
    await stage.ask("i", "Cancel")
    assert (await stage.ask("i", "Reply", request_id="late"))["error_code"] == "CONFLICT"
    assert (await ask(stage, "r7"))["reply"]["number"] == 7


@on_stage
async def test_a_suspended_instance_answers_when_it_is_resumed(stage: Stage) -> None:
    await stage.begin("i", "one_each")
    await stage.ask("i", "Suspend")
    for number in range(3):
        assert (await ask(stage, f"r{number}"))["answered"] is False
    await stage.deploy()
    assert (await ask(stage, "r1"))["answered"] is False
    await stage.ask("i", "Resume")
    assert [await number_of(stage, f"r{number}") for number in range(3)] == [0, 1, 2]
    assert (await stage.ask("i", "Status"))["waiting_for"][0]["kind"] == "request"


@on_stage
async def test_stored_requests_are_read_from_outside(stage: Stage) -> None:
    await stage.begin("i", "one_each")
    for number in range(50):
        await ask(stage, f"r{number}")
    await ask(stage, "end", "end")
    await asyncio.sleep(60)
    head = load(stage.host.storage.rows[f"{ROWS}i||instance"][0])
    reader = InstanceReader.read("i", head)
    assert reader is not None
    missing = set(reader.needed()) - set(stage.keys("i"))
    assert missing == set()
    assert any(key.startswith("replies-") for key in reader.needed())
    received = next(event for event in events_in(reader.tail) if event.type == "RequestReceived")
    assert (received.name, load(received.data.encode())) == ("ask", {"request_id": "end", "data": "end"})
