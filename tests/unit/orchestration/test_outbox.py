"""An instance's outbox: effects arrive once each, whatever their neighbours' targets and the process do."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import Any

import pytest

from holdfast import App, Context
from holdfast.errors import Unavailable
from holdfast.kinds import ORCHESTRATION_TYPE, QUEUE_TYPE
from holdfast.orchestration.actor.cache import save_arrivals
from holdfast.orchestration.core.effects import RunActivity
from holdfast.orchestration.core.limits import TURN_BYTES
from holdfast.orchestration.storage.outbox import SMALL_BOXES_BYTES, Outbox
from holdfast.runtime.batching import CallBatcher
from holdfast.runtime.serialization import dump
from tests.support.simulated import on_simulated_host, takes_little
from tests.unit.orchestration.test_actor import Stage

app = App()


@app.activity
async def charge(number: int) -> int:
    return number


@app.activity
async def carry(text: str) -> None: ...


@app.activity(queue="other")
async def other(number: int) -> int:
    return number


@app.orchestration
async def both(ctx: Context) -> None:
    await asyncio.gather(ctx.call(charge, 1), ctx.call(other, 2), _later(ctx))


async def _later(ctx: Context) -> None:
    await ctx.event("go")
    await ctx.call(charge, 3)


@app.orchestration
async def fan_out(ctx: Context, count: int) -> None:
    await asyncio.gather(*(ctx.call(other, number) for number in range(count)))


@app.orchestration
async def adopting(ctx: Context, child: str) -> Any:
    return await ctx.sub(waiting, instance_id=child)


@app.orchestration
async def hasty(ctx: Context, child: str) -> str:
    """Ends in the step in which it asked for a child."""
    task = asyncio.create_task(ctx.sub(waiting, instance_id=child))
    await ctx.event("go")
    task.cancel()
    return "ended"


@app.orchestration
async def detaching(ctx: Context) -> None:
    await ctx.sub(waiting, instance_id="apart", detached=True)
    await ctx.event("never")


@app.orchestration
async def leaving_children(ctx: Context) -> None:
    """Asks for two children that go on without it."""
    await ctx.sub(waiting, instance_id="detached", detached=True)
    task = asyncio.create_task(ctx.sub(waiting, instance_id="abandoned", on_parent_end="abandon"))
    await ctx.event("go")
    task.cancel()


@app.orchestration
async def waiting(ctx: Context, text: str = "") -> Any:
    return await ctx.event("go")


class Outside(Stage):
    """No worker takes the activities: the tests do."""

    app = app

    async def history(self, instance_id: str) -> list[dict[str, Any]]:
        """All pages of it."""
        events: list[dict[str, Any]] = []
        cursor: int | None = 0
        while cursor is not None:
            answer = await self.ask(instance_id, "History", cursor=cursor, limit=1000)
            events += answer["events"]
            cursor = int(answer["next_cursor"]) if "next_cursor" in answer else None
        return events

    async def queue(self, name: str, method: str, **data: Any) -> Any:
        return await self.invoke(QUEUE_TYPE, name, method, data or None)

    async def fill(self, capacity: int) -> None:
        """Makes the queue ``other`` full."""
        await self.queue("other", "SetConfig", capacity=capacity)
        for _ in range(capacity):
            await self.queue("other", "Push", items=[{"item": "in the way"}])

    async def taken(self, name: str) -> list[dict[str, Any]]:
        """Takes all activities that wait in a queue."""
        items = (await self.queue(name, "Pop", count=100))["items"]
        return [item for item in items if isinstance(item, dict)]

    def measured(self) -> list[int]:
        """From now on, the size of each transaction of an instance."""
        sizes: list[int] = []
        save = self.host.client.save_state

        async def save_and_measure(actor_type: str, actor_id: str, changes: Any) -> None:
            if actor_type == ORCHESTRATION_TYPE:
                sizes.append(sum(len(change.value or b"") for change in changes))
            await save(actor_type, actor_id, changes)

        self.host.client.save_state = save_and_measure  # type: ignore[method-assign]
        return sizes

    async def status(self, instance_id: str) -> str:
        return str((await self.ask(instance_id, "Status"))["status"])


on_stage = on_simulated_host(Outside)


@on_stage
async def test_a_full_queue_repeats_nothing_in_another_one(stage: Outside) -> None:
    await stage.fill(1)
    await stage.ask("i", "Start", name="both")
    runs: Counter[int] = Counter()
    for _ in range(10):
        await asyncio.sleep(60)
        runs.update(item["input"] for item in await stage.taken("activities"))
    assert runs == {1: 1}
    # The window in which a queue knows a dedup id is 300 seconds, so that it is the instance that has to know.
    for _ in range(10):
        stage.host = await stage.host.restarted()
        await asyncio.sleep(60)
        runs.update(item["input"] for item in await stage.taken("activities"))
    assert runs == {1: 1}
    assert await stage.taken("other") == []
    await asyncio.sleep(120)
    [late] = await stage.taken("other")
    assert (late["input"], late["again"]) == (2, True)


@on_stage
async def test_an_orderly_stop_saves_what_has_arrived(stage: Outside) -> None:
    """A restart would send the activity again moments after it was sent, and it would run twice side by side."""
    await stage.ask("i", "Start", name="fan_out", input=1)
    await asyncio.sleep(0.1)
    await save_arrivals(stage.host.client, 1.0)
    stage.host = await stage.host.restarted()
    await asyncio.sleep(60)
    assert [item["input"] for item in await stage.taken("other")] == [0]


@on_stage
async def test_a_call_of_an_instance_that_has_ended_is_not_sent(stage: Outside) -> None:
    """Cancelling resumes it: the code takes what came meanwhile, makes a call, and gives it up in the same turn."""
    await stage.ask("i", "Start", name="both")
    await asyncio.sleep(10)
    await stage.taken("activities")
    await stage.ask("i", "Suspend")
    await stage.ask("i", "RaiseEvent", name="go")
    await stage.ask("i", "Cancel")
    assert await stage.status("i") == "CANCELLED"
    await asyncio.sleep(60)
    assert await stage.taken("activities") == []


@on_stage
async def test_a_full_queue_holds_up_no_later_effects(stage: Outside) -> None:
    await stage.fill(1)
    await stage.ask("i", "Start", name="both")
    await asyncio.sleep(30)
    await stage.ask("i", "RaiseEvent", name="go")
    await asyncio.sleep(1)
    assert [item["input"] for item in await stage.taken("activities")] == [1, 3]


@on_stage
async def test_a_fan_out_goes_into_a_queue_that_has_less_room(stage: Outside) -> None:
    await stage.queue("other", "SetConfig", capacity=3)
    await stage.ask("i", "Start", name="fan_out", input=8)
    runs: Counter[int] = Counter()
    for _ in range(10):
        await asyncio.sleep(70)
        runs.update(item["input"] for item in await stage.taken("other"))
    assert runs == Counter(range(8))


@on_stage
async def test_activities_of_a_long_id_are_no_duplicates_of_each_other(stage: Outside) -> None:
    await stage.fill(1)
    instance = "i" * 255
    await stage.ask(instance, "Start", name="fan_out", input=20)
    await asyncio.sleep(1)
    await stage.queue("other", "SetConfig", capacity=None)
    stage.host = await stage.host.restarted()
    await asyncio.sleep(10)
    answer = await stage.queue("other", "Peek", count=100)
    assert Counter(item["input"] for item in answer["items"][1:]) == Counter(range(20))
    assert all(item["again"] for item in answer["items"][1:])
    messages = answer["messages"][1:]
    assert len({message["dedup_id"] for message in messages}) == 20
    assert {message["idempotency_key"] for message in messages} == {f"{instance}:1:{seq}" for seq in range(2, 22)}


def test_a_target_that_refuses_for_long_is_asked_and_logged_ever_more_rarely(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @on_stage
    async def body(stage: Outside) -> None:
        await stage.fill(1)
        with caplog.at_level(logging.DEBUG, logger="holdfast.orchestration.actor.actor"):
            await stage.ask("i", "Start", name="fan_out", input=1)
            await asyncio.sleep(1800)
            turns.append(stage.value("holdfast_turn_duration_seconds_count", actor_type=ORCHESTRATION_TYPE))

    turns: list[float | None] = []
    body()
    # One for each attempt, and not one for each look of the actor that has written the instance down.
    assert turns[0] is not None
    assert turns[0] < 60
    refused = [record for record in caplog.records if "queue other" in record.getMessage()]
    assert 20 < len(refused) < 60
    warnings = [record for record in refused if record.levelno >= logging.WARNING]
    assert 4 <= len(warnings) <= 6
    assert "orchestration i: 1 effect to queue other not sent" in warnings[0].getMessage()


@on_stage
async def test_an_instance_that_is_not_its_child_is_not_cancelled(stage: Outside) -> None:
    await stage.ask("order-1", "Start", name="waiting")
    await stage.ask("theirs", "Start", name="adopting", input="child-1")
    await asyncio.sleep(1)
    for number, child in enumerate(("order-1", "child-1")):
        start = {"method": "Start", "data": {"name": "hasty", "input": child}}
        go = {"method": "RaiseEvent", "data": {"name": "go"}}
        await stage.ask(f"hasty-{number}", "Batch", calls=[start, go])
        assert await stage.status(f"hasty-{number}") == "COMPLETED"
    await asyncio.sleep(60)
    assert await stage.status("order-1") == "RUNNING"
    assert await stage.status("child-1") == "RUNNING"
    # Its own parent cancels it.
    await stage.ask("theirs", "Cancel")
    await asyncio.sleep(10)
    assert await stage.status("child-1") == "CANCELLED"
    # And so does a user, who is no parent.
    await stage.ask("order-1", "Cancel")
    assert await stage.status("order-1") == "CANCELLED"


@on_stage
async def test_a_later_instance_of_a_parents_id_is_another_parent(stage: Outside) -> None:
    await stage.ask("p", "Start", name="adopting", input="c", seed="first")
    await asyncio.sleep(1)
    parent = (await stage.ask("c", "Status"))["parent"]
    answer = await stage.ask("c", "CancelChild", parent=parent | {"incarnation": "second"})
    assert answer["outcome"] == "not a child"
    assert await stage.status("c") == "RUNNING"
    answer = await stage.ask("c", "CancelChild", parent=parent | {"incarnation": "first"})
    assert answer["outcome"] == "recorded"
    assert await stage.status("c") == "CANCELLED"


@on_stage
async def test_forced_deletion_cancels_the_children_that_were_awaited(stage: Outside) -> None:
    await stage.ask("p", "Start", name="adopting", input="c")
    await stage.ask("q", "Start", name="detaching")
    await asyncio.sleep(1)
    for instance in ("p", "q"):
        assert (await stage.ask(instance, "Delete", force=True))["success"]
        # The next instance of the id waits for another one of that name: it has to leave the first alone.
        await stage.ask(instance, "Start", name="waiting")
    await asyncio.sleep(10)
    assert await stage.status("c") == "CANCELLED"
    assert (await stage.ask("c", "Status"))["reason"] == "Its parent was deleted."
    assert await stage.status("apart") == "RUNNING"
    assert [await stage.status(instance) for instance in ("p", "q")] == ["RUNNING", "RUNNING"]


@on_stage
async def test_forced_deletion_of_a_parent_whose_process_ends_then(stage: Outside) -> None:
    await stage.ask("p", "Start", name="adopting", input="c")
    await asyncio.sleep(1)
    assert (await stage.ask("p", "Delete", force=True))["success"]
    stage.host = await stage.host.restarted()
    await asyncio.sleep(20)
    assert await stage.status("c") == "CANCELLED"
    assert not [key for key in stage.host.storage.rows if f"||{ORCHESTRATION_TYPE}||p||" in key]


@on_stage
async def test_a_call_that_only_reads_fails_alone(stage: Outside) -> None:
    await stage.ask("i", "Start", name="waiting", input="x" * 1000)
    stage.host.storage.rows[f"holdfast||{ORCHESTRATION_TYPE}||i||input"] = (b"{", None)
    stage.host = await stage.host.restarted()
    go = {"method": "RaiseEvent", "data": {"name": "go", "data": 5}}
    status, raised = (await stage.ask("i", "Batch", calls=[{"method": "Status", "data": None}, go]))["replies"]
    assert (status["success"], status["error_code"]) == (False, "STORAGE_BROKEN")
    assert raised["success"] is True
    history = (await stage.ask("i", "History"))["events"]
    assert [event["type"] for event in history][-2:] == ["EventRaised", "OrchestrationCompleted"]


@on_stage
async def test_a_call_that_only_reads_fails_alone_while_the_store_does_not_answer(stage: Outside) -> None:
    await stage.ask("i", "Start", name="waiting", input="x" * 1000)
    stage.host = await stage.host.restarted()
    load_state = stage.host.client.load_state

    async def load_all_but_inputs(actor_type: str, actor_id: str, keys: Any) -> Any:
        if "input" in keys:
            raise Unavailable("The store does not answer. Try again.")
        return await load_state(actor_type, actor_id, keys)

    stage.host.client.load_state = load_all_but_inputs  # type: ignore[method-assign]
    go = {"method": "RaiseEvent", "data": {"name": "go", "data": 5}}
    status, raised = (await stage.ask("i", "Batch", calls=[{"method": "Status", "data": None}, go]))["replies"]
    assert (status["success"], status["error_code"]) == (False, "UNAVAILABLE")
    assert raised["success"] is True


@app.orchestration
async def carrying(ctx: Context, count: int) -> None:
    for _ in range(count):
        await ctx.event("go")
    await asyncio.gather(*(ctx.call(carry, "x" * 100_000) for _ in range(count)))


@on_stage
async def test_an_instance_fails_whose_step_the_store_does_not_take(stage: Outside) -> None:
    """A sidecar may be configured to take less than Holdfast counts on."""
    takes_little(stage.host)
    await stage.ask("i", "Start", name="carrying", input=5)
    go = {"method": "RaiseEvent", "data": {"name": "go"}}
    replies = (await stage.ask("i", "Batch", calls=[go] * 5))["replies"]
    # The first four are saved, each by itself, since the fifth is the one at fault.
    assert [reply["success"] for reply in replies] == [True, True, True, True, False]
    status = await stage.ask("i", "Status")
    assert (status["status"], status["error"]["type"]) == ("FAILED", "TooLarge")
    assert "larger than the sidecar takes. Ask for less at once" in status["error"]["message"]
    types = [event["type"] for event in (await stage.ask("i", "History"))["events"]]
    assert types[1:] == ["EventSubscribed", "EventRaised"] * 4 + ["EventSubscribed", "OrchestrationFailed"]
    await asyncio.sleep(10)
    assert await stage.taken("activities") == []


@app.orchestration(mailboxes=["letters"])
async def hoarding(ctx: Context) -> None:
    await ctx.event("never")


@on_stage
async def test_one_turn_does_not_take_more_than_fits_into_a_transaction(stage: Outside) -> None:
    sizes = stage.measured()
    await stage.ask("i", "Start", name="hoarding")
    instances = CallBatcher.of(stage.host.client, ORCHESTRATION_TYPE)
    letter = dump({"name": "letters", "data": '"' * 300_000})
    answers = await asyncio.gather(*(instances.call("i", "RaiseEvent", letter) for _ in range(27)))
    assert all(answer["success"] for answer in answers)
    history = await stage.history("i")
    assert len(history) == 29
    assert max(sizes) < TURN_BYTES + 3_000_000


@app.orchestration
async def ringing(ctx: Context) -> None:
    await asyncio.gather(*(_alarm(ctx, number) for number in range(30)))


async def _alarm(ctx: Context, number: int) -> None:
    await asyncio.sleep(1 + number / 100)
    await ctx.call(carry, "x" * 500_000)


@on_stage
async def test_timers_that_fall_due_together_fire_in_several_turns(stage: Outside) -> None:
    await stage.ask("i", "Start", name="ringing")
    stage.host.crash()
    await asyncio.sleep(10)
    stage.host = await stage.host.restarted()
    sizes = stage.measured()
    await asyncio.sleep(60)
    types = Counter(event["type"] for event in await stage.history("i"))
    assert (types["TimerFired"], types["ActivityScheduled"]) == (30, 30)
    assert TURN_BYTES < max(sizes) < TURN_BYTES + 2_000_000


@app.orchestration(mailboxes=["letters"])
async def perpetual(ctx: Context, load: str) -> str:
    letter = await ctx.receive("letters")
    if letter != "last":
        ctx.continue_as_new(load)
    return str(ctx.execution_id)


@on_stage
async def test_executions_that_carry_much_are_saved_in_several_turns(stage: Outside) -> None:
    await stage.ask("i", "Start", name="perpetual", input="x" * 500_000)
    await stage.ask("i", "Suspend")
    for _ in range(40):
        await stage.ask("i", "RaiseEvent", name="letters", data="next")
    sizes = stage.measured()
    await stage.ask("i", "Resume")
    # A message that comes meanwhile waits for the execution that it is for.
    assert (await stage.ask("i", "RaiseEvent", name="letters", data="last"))["success"]
    await asyncio.sleep(10)
    assert (await stage.ask("i", "Status"))["output"] == "41"
    assert TURN_BYTES < max(sizes) < TURN_BYTES + 3_000_000


def test_entries_that_have_arrived_are_not_asked_for_again() -> None:
    """A large entry that its target refuses for hours leaves a gap to the ones that come and go meanwhile."""
    entries = Outbox()
    text = f'"{"x" * 2 * SMALL_BOXES_BYTES}"'
    for seq in range(1000):
        queue = "other" if seq else "refusing"
        effect = RunActivity(execution_id=1, scheduled_seq=seq, name="a", input=text, queue=queue, attempt=1)
        entries.put([effect], now=0.0)
    entries.saved()
    while due := entries.next_part("queue other", now=1.0):
        entry, part = due
        entry.remove("queue other", part.effects)
    entries.remove_arrived()
    assert next(Outbox.restore(entries.head())) == ("outbox-0",)


@pytest.mark.parametrize("crashes", [False, True])
def test_children_that_go_on_without_their_parent_are_started_though_it_was_deleted(crashes: bool) -> None:
    @on_simulated_host(Outside)
    async def test(stage: Outside) -> None:
        invoke = stage.host.client.invoke_method

        async def invoke_no_child(actor_type: str, actor_id: str, method: str, data: bytes = b"") -> bytes:
            if actor_id in ("detached", "abandoned"):
                raise Unavailable
            return await invoke(actor_type, actor_id, method, data)

        stage.host.client.invoke_method = invoke_no_child  # type: ignore[method-assign]
        await stage.ask("i", "Start", name="leaving_children")
        await stage.ask("i", "RaiseEvent", name="go", data=None)
        assert (await stage.ask("i", "Status"))["status"] == "COMPLETED"
        assert (await stage.ask("i", "Delete"))["success"]
        if crashes:
            await stage.restart()
        else:
            stage.host.client.invoke_method = invoke  # type: ignore[method-assign]
        await asyncio.sleep(120)
        for child in ("detached", "abandoned"):
            assert (await stage.ask(child, "Status"))["status"] == "RUNNING"
        assert (await stage.ask("i", "Status"))["error_code"] == "NOT_FOUND"

    test()
