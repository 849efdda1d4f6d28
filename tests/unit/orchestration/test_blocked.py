"""Instances whose code is not there, or does not fit: they are BLOCKED, lose nothing, and go on with code that fits."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest

from holdfast import App, Context
from holdfast.errors import Unavailable
from holdfast.orchestration.index.instance_index import shard_of
from holdfast.orchestration.storage.blocking import LONGEST_RETRY_SECONDS, RETRY_SECONDS
from holdfast.orchestration.storage.inbox import CHUNK_MESSAGES
from holdfast.orchestration.storage.outbox import LONGEST_PAUSE_SECONDS, RESEND_SECONDS
from tests.support.index_contents import entries_in_index
from tests.support.simulated import on_simulated_host, takes_little
from tests.unit.orchestration.redeployment import ROWS, Stage

if TYPE_CHECKING:
    from holdfast.runtime.contract import ActorAddress


def an_app(**changes: Any) -> App:
    """The same orchestrations in each deploy, but for what is changed."""
    app = App()
    activity = changes.get("activity", "work")

    @app.orchestration(mailboxes=changes.get("mailboxes", ["letters"]))
    async def reader(ctx: Context, number: int) -> list[Any]:
        found = [await ctx.call(activity, 1)]
        for _ in range(number):
            found.append(await ctx.receive("letters"))
        return found

    @app.orchestration(mailboxes=changes.get("mailboxes", ["letters"]))
    async def forwarder(ctx: Context, left: int) -> list[Any]:
        if left:
            await ctx.event("on")
            ctx.continue_as_new(left - 1)
        await ctx.event("go")
        return [await ctx.receive("letters") for _ in range(2)]

    @app.orchestration
    async def collector(ctx: Context, number: int) -> list[Any]:
        calls = asyncio.gather(*(ctx.call(activity, step) for step in range(number)))
        return [await ctx.event("go"), *await calls]

    if changes.get("child", True):

        @app.orchestration
        async def child(ctx: Context) -> Any:
            return await ctx.event("enough")

    @app.orchestration
    async def carrying(ctx: Context) -> None:
        await ctx.event("go")
        await asyncio.gather(*(ctx.call(activity, "x" * 100_000) for _ in range(6)))

    @app.orchestration
    async def parent(ctx: Context) -> Any:
        try:
            return await ctx.sub("child", instance_id="the-child")
        except Exception as error:
            return f"caught {type(error).__name__}"

    @app.orchestration
    async def one_by_one(ctx: Context) -> dict[str, Any]:
        return {item: await ctx.call("work", item) for item in changes.get("items", ("a", "b"))}

    return app


on_stage = on_simulated_host(partial(Stage, an_app))


@on_stage
async def test_an_activity_of_code_that_departed_is_awaited_and_its_outcome_kept(stage: Stage) -> None:
    await stage.begin("i", "reader", 0)
    [item] = await stage.take()
    await stage.deploy(an_app(activity="other"), check=False)
    assert await stage.awaited(item)
    reason = await stage.reason("i")
    assert reason["kind"] == "non_determinism"
    assert (reason["expected"], reason["found"]) == (
        "event 2, ActivityScheduled (work)",
        "ActivityScheduled (other)",
    )
    assert "test_blocked.py" in reason["line"]
    await stage.outcome(item, "1")
    assert not await stage.awaited(item)
    assert await stage.types("i") == ["OrchestrationStarted", "ActivityScheduled"]
    await stage.deploy()
    assert (await stage.ask("i", "Status"))["output"] == [1]


@on_stage
async def test_it_comes_by_itself_and_goes_on_by_itself(stage: Stage) -> None:
    for name in "abc":
        await stage.begin(name, "reader", 0)
    await stage.begin("sound", "collector", 0)
    await stage.deploy(an_app(activity="other"))
    assert [await stage.status(name) for name in ("a", "b", "c", "sound")] == ["BLOCKED"] * 3 + ["RUNNING"]
    assert stage.value("holdfast_orchestrations_blocked") == 3
    await stage.deploy()
    assert [await stage.status(name) for name in "abc"] == ["RUNNING"] * 3
    assert stage.value("holdfast_orchestrations_blocked") == 0


@on_stage
async def test_one_that_the_index_does_not_know_yet_is_checked_when_it_is_recovered(stage: Stage) -> None:
    """The server stopped before these were listed, so the check at the start does not find them."""
    names = [str(number) for number in range(50)]
    for name in names:
        assert (await stage.ask(name, "Start", name="reader", input=0))["created"]
    await stage.deploy(an_app(activity="other"))
    await asyncio.sleep(10)
    assert {await stage.status(name) for name in names} == {"BLOCKED"}


@pytest.mark.parametrize("deployed", [App(), an_app(activity="other")], ids=["missing", "departed"])
def test_what_comes_while_it_is_blocked_is_delivered_once_and_in_order(deployed: App) -> None:
    async def body(stage: Stage) -> None:
        letters = 3 * CHUNK_MESSAGES + 1
        await stage.begin("i", "reader", letters)
        [item] = await stage.take()
        await stage.deploy(deployed)
        for number in range(letters):
            again = 2 if number % 10 == 0 else 1
            for _ in range(again):
                await stage.recorded("i", "RaiseEvent", name="letters", data=number, event_id=str(number))
        await stage.outcome(item, '"done"')
        # Crashes, full as it is.
        await stage.deploy(deployed)
        assert await stage.types("i") == ["OrchestrationStarted", "ActivityScheduled"]
        await stage.deploy()
        await asyncio.sleep(5)
        assert (await stage.ask("i", "Status"))["output"] == ["done", *range(letters)]
        assert not [key for key in stage.keys("i") if key.startswith("inbox")]

    on_stage(body)()


@on_stage
async def test_what_comes_while_the_inbox_is_delivered_comes_after_it(stage: Stage) -> None:
    letters = 2 * CHUNK_MESSAGES
    await stage.begin("i", "reader", letters + 1)
    await stage.outcome((await stage.take())[0])
    await stage.deploy(App())
    for number in range(letters):
        await stage.recorded("i", "RaiseEvent", name="letters", data=number)
    await stage.deploy(check=False)
    # The first that reaches it, and brings it back.
    await stage.recorded("i", "RaiseEvent", name="letters", data=letters)
    await asyncio.sleep(5)
    assert (await stage.ask("i", "Status"))["output"] == [None, *range(letters + 1)]


@on_stage
async def test_events_that_nothing_waits_for_are_dropped_when_the_code_is_back(stage: Stage) -> None:
    await stage.begin("i", "collector", 1)
    await stage.deploy(App())
    await stage.recorded("i", "RaiseEvent", name="never", data=1)
    await stage.recorded("i", "RaiseEvent", name="go", data=2)
    await stage.deploy()
    assert (await stage.types("i")).count("EventRaised") == 1


@on_stage
async def test_a_blocked_one_is_cancelled_without_its_code(stage: Stage) -> None:
    await stage.begin("p", "parent")
    await stage.deploy(an_app(child=False))
    assert await stage.status("p") == "BLOCKED"
    assert await stage.status("the-child") == "BLOCKED"
    await stage.recorded("the-child", "RaiseEvent", name="enough")
    await stage.recorded("p", "Cancel", reason="enough of it")
    answer = await stage.ask("p", "Status")
    assert (answer["status"], answer["reason"], "blocked" in answer) == ("CANCELLED", "enough of it", False)
    assert (await stage.types("p"))[-2:] == ["CancelRequested", "OrchestrationCancelled"]
    # Also what a process that died has sent is sent again first.
    await asyncio.sleep(2 * RESEND_SECONDS)
    assert await stage.status("the-child") == "CANCELLED"
    await asyncio.sleep(2)
    assert not [key for key in stage.keys("the-child") if key.startswith("inbox")]
    assert stage.value("holdfast_orchestrations_blocked") == 0


@on_stage
async def test_the_parent_of_a_blocked_one_hears_of_its_cancellation(stage: Stage) -> None:
    await stage.begin("p", "parent")
    await stage.deploy(an_app(child=False))
    await stage.recorded("the-child", "Cancel")
    await stage.deploy()
    await asyncio.sleep(2)
    assert (await stage.ask("p", "Status"))["output"] == "caught SubOrchestrationFailed"


@on_stage
async def test_a_blocked_one_is_deleted_by_force_and_its_id_is_free(stage: Stage) -> None:
    await stage.begin("i", "collector", 1)
    await stage.deploy(App())
    for number in range(2 * CHUNK_MESSAGES):
        await stage.recorded("i", "RaiseEvent", name="go", data=number)
    assert (await stage.ask("i", "Delete"))["error_code"] == "CONFLICT"
    assert (await stage.ask("i", "Delete", force=True))["success"]
    await stage.deploy(check=False)
    await stage.begin("i", "collector", 0)
    await asyncio.sleep(5)
    assert await stage.types("i") == ["OrchestrationStarted", "EventSubscribed"]
    assert not [key for key in stage.keys("i") if key.startswith("inbox")]


@on_stage
async def test_a_blocked_one_is_suspended_as_soon_as_its_code_fits(stage: Stage) -> None:
    await stage.begin("i", "collector", 0)
    await stage.deploy(App())
    await stage.recorded("i", "Suspend")
    await stage.recorded("i", "RaiseEvent", name="go", data=1)
    assert await stage.status("i") == "BLOCKED"
    await stage.deploy()
    assert await stage.status("i") == "SUSPENDED"
    await stage.recorded("i", "Resume")
    assert (await stage.ask("i", "Status"))["output"] == [1]


@on_stage
async def test_a_start_of_a_blocked_one_is_a_duplicate(stage: Stage) -> None:
    await stage.begin("i", "collector", 0)
    await stage.deploy(App())
    answer = await stage.ask("i", "Start", name="collector", input=0)
    assert (answer["success"], answer["created"]) == (True, False)
    assert (await stage.ask("new", "Start", name="collector", input=0))["error_code"] == "NOT_FOUND"


@on_stage
async def test_a_mailbox_that_is_no_longer_declared_is_named(stage: Stage) -> None:
    await stage.begin("i", "reader", 2)
    await stage.outcome((await stage.take())[0])
    await stage.recorded("i", "RaiseEvent", name="letters", data=1)
    await stage.deploy(an_app(mailboxes=["post"]))
    reason = await stage.reason("i")
    assert reason["kind"] == "undeclared_mailbox"
    assert "mailbox letters" in reason["message"]
    await stage.recorded("i", "RaiseEvent", name="letters", data=2)
    await stage.deploy()
    assert (await stage.ask("i", "Status"))["output"] == [None, 1, 2]


@on_stage
async def test_a_mailbox_that_is_waited_for_and_no_longer_declared_is_named(stage: Stage) -> None:
    await stage.begin("i", "reader", 1)
    await stage.outcome((await stage.take())[0])
    await stage.deploy(an_app(mailboxes=["post"]))
    reason = await stage.reason("i")
    assert (reason["kind"], reason["found"]) == ("undeclared_mailbox", "no mailbox letters")
    assert "test_blocked.py" in reason["line"]


@on_stage
async def test_mail_that_was_taken_along_is_not_lost_with_its_mailbox(stage: Stage) -> None:
    await stage.begin("i", "forwarder", 1)
    for number in range(2):
        await stage.recorded("i", "RaiseEvent", name="letters", data=number)
    await stage.recorded("i", "RaiseEvent", name="on")
    await stage.deploy(an_app(mailboxes=["post"]))
    assert (await stage.reason("i"))["kind"] == "undeclared_mailbox"
    await stage.deploy()
    await stage.recorded("i", "RaiseEvent", name="go")
    assert (await stage.ask("i", "Status"))["output"] == [0, 1]


@on_stage
async def test_a_child_whose_definition_is_gone_blocks_the_parent(stage: Stage) -> None:
    await stage.begin("p", "parent")
    await stage.deploy(an_app(child=False))
    reason = await stage.reason("p")
    assert (reason["kind"], reason["expected"]) == (
        "missing_child",
        "event 2, SubOrchestrationScheduled (child)",
    )
    assert reason["found"] == "No orchestration is called child."
    assert "test_blocked.py" in reason["line"]
    # One that is new finds out in its code, as ever.
    await stage.begin("new", "parent")
    assert (await stage.ask("new", "Status"))["output"] == "caught UnknownOrchestration"
    await stage.deploy()
    await stage.recorded("the-child", "RaiseEvent", name="enough", data="enough")
    await asyncio.sleep(2)
    assert (await stage.ask("p", "Status"))["output"] == "enough"


@pytest.mark.parametrize("deployed", [an_app(child=False), App()], ids=["child", "all"])
def test_a_child_that_was_not_started_before_its_definition_was_gone_is_started_later(deployed: App) -> None:
    async def body(stage: Stage) -> None:
        call = stage.host.call

        async def out_of_reach(address: ActorAddress, method: str, body: bytes) -> bytes:
            if address.id == "the-child":
                raise Unavailable
            return await call(address, method, body)

        with patch.object(stage.host, "call", out_of_reach):
            await stage.begin("p", "parent")
            await stage.deploy(deployed)
        await asyncio.sleep(3 * RESEND_SECONDS)
        assert await stage.status("p") == "BLOCKED"
        await stage.deploy()
        await asyncio.sleep(LONGEST_PAUSE_SECONDS)
        await stage.recorded("the-child", "RaiseEvent", name="enough", data="enough")
        await asyncio.sleep(2)
        assert (await stage.ask("p", "Status"))["output"] == "enough"

    on_stage(body)()


@on_stage
async def test_a_step_that_finds_out_records_nothing(stage: Stage) -> None:
    """The code asks for what was answered to another call: only a new step shows it."""
    await stage.begin("i", "one_by_one")
    [item] = await stage.take()
    await stage.deploy(an_app(items=("b", "a")))
    assert await stage.status("i") == "RUNNING"
    await stage.outcome(item, '"price of a"')
    reason = await stage.reason("i")
    assert reason["expected"] == 'event 2, ActivityScheduled (work) with input "a"'
    assert 'with input "a"' in reason["found"]
    await asyncio.sleep(3)
    before = dict(stage.host.storage.rows)
    await asyncio.sleep(5 * RETRY_SECONDS)
    assert {key: row for key, row in stage.host.storage.rows.items() if key.startswith(ROWS)} == {
        key: row for key, row in before.items() if key.startswith(ROWS)
    }
    await stage.deploy()
    await stage.outcome((await stage.take())[0], '"price of b"')
    assert (await stage.ask("i", "Status"))["output"] == {"a": "price of a", "b": "price of b"}


def test_it_is_said_once_and_nothing_is_written_when_it_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    async def body(stage: Stage) -> None:
        def said() -> list[tuple[int, str]]:
            return [
                (record.levelno, record.getMessage())
                for record in caplog.records
                if record.name == "holdfast.orchestration.actor.loaded_instance"
            ]

        await stage.begin("i", "collector", 1)
        await stage.deploy(an_app(activity="other"))
        for _ in range(3):
            await asyncio.sleep(RETRY_SECONDS)
            await stage.recorded("i", "RaiseEvent", name="go", data="a secret")
        rows = dict(stage.host.storage.rows)
        replays = stage.value("holdfast_replays_total", orchestration="collector")
        assert replays is not None
        await asyncio.sleep(10 * LONGEST_RETRY_SECONDS)
        tried = stage.value("holdfast_replays_total", orchestration="collector")
        assert tried is not None
        # The pauses before the longest one are a few more tries.
        assert 10 <= tried - replays <= 14
        assert stage.host.storage.rows == rows
        [(level, message)] = said()
        assert level == logging.WARNING
        assert "orchestration i is BLOCKED (non_determinism)" in message
        caplog.clear()
        await stage.deploy()
        [(level, message)] = said()
        assert (level, message) == (logging.INFO, "orchestration i is no longer BLOCKED and continues")

    with caplog.at_level(logging.INFO):
        on_stage(body)()


def test_an_input_that_changed_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    async def body(stage: Stage) -> None:
        await stage.begin("i", "one_by_one")
        for _ in range(3):
            await stage.deploy(an_app(items=("a secret", "c")))
        [record] = [
            record for record in caplog.records if record.name == "holdfast.orchestration.actor.loaded_instance"
        ]
        assert "orchestration i" in record.getMessage()
        assert "event 2 (work)" in record.getMessage()
        assert "in 1 call," in record.getMessage()
        assert "secret" not in caplog.text

    on_stage(body)()


@on_stage
async def test_it_is_listed_as_blocked_and_again_as_running(stage: Stage) -> None:
    async def listed() -> dict[str, str]:
        return {name: entry.status for name, entry in (await entries_in_index(stage.host.client)).items()}

    await stage.begin("i", "collector", 1)
    for _ in range(2):
        await stage.deploy(App())
        await asyncio.sleep(3)
        assert await listed() == {"i": "BLOCKED"}
        await stage.deploy()
        await asyncio.sleep(3)
        assert await listed() == {"i": "RUNNING"}


@on_stage
async def test_a_damaged_part_of_the_index_keeps_no_others_from_being_checked(stage: Stage) -> None:
    names = [f"i-{number}" for number in range(20)]
    for name in names:
        await stage.begin(name, "collector", 0)
    damaged = shard_of(names[0])
    stage.host.storage.rows[f"holdfast||InstanceIndexActor||{damaged}||shard"] = (b"not JSON", None)
    async with asyncio.timeout(600):
        await stage.deploy(App())
    others = [name for name in names if shard_of(name) != damaged]
    assert [await stage.status(name) for name in others] == ["BLOCKED"] * len(others)


@on_stage
async def test_a_blocked_one_is_tried_again_where_it_is(stage: Stage) -> None:
    """Code that only sometimes departs: no deploy is needed."""
    app = an_app()
    runs: list[int] = []

    @app.orchestration
    async def careless(ctx: Context) -> Any:
        runs.append(1)
        return await ctx.call("odd" if len(runs) == 2 else "even")

    await stage.deploy(app)
    await stage.begin("i", "careless")
    await stage.deploy(app)
    assert await stage.status("i") == "BLOCKED"
    await asyncio.sleep(RETRY_SECONDS + 1)
    assert await stage.status("i") == "RUNNING"


@on_stage
async def test_one_whose_next_step_is_too_large_fails_when_its_code_is_back(stage: Stage) -> None:
    await stage.begin("i", "carrying")
    await stage.deploy(App())
    await stage.recorded("i", "RaiseEvent", name="go", data=None)
    await stage.deploy(check=False)
    takes_little(stage.host)
    assert (await stage.ask("i", "Check"))["status"] == "FAILED"
    assert (await stage.ask("i", "Status"))["error"]["type"] == "TooLarge"
