"""A backlog of mail of an orchestration that takes one message and continues as new: what it writes, and keeps."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from holdfast import App, Context
from holdfast.kinds import ORCHESTRATION_TYPE
from holdfast.orchestration.actor.actor import orchestration_actor
from holdfast.orchestration.core.event_ids import MAX_EVENT_IDS
from holdfast.orchestration.core.history import load_event
from holdfast.orchestration.core.replayer import verify_history
from holdfast.orchestration.index.instance_index import InstanceIndexActor
from holdfast.orchestration.index.tenant_index import TenantIndexActor
from holdfast.orchestration.recovery.rescuer import RescuerActor
from holdfast.runtime.serialization import load
from tests.support.simulated import InstanceStage, on_simulated_host

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dapr.actor import Actor

    from holdfast.runtime.in_process.storage import Write

LETTERS = 600
PADDING = "x" * 200
# A bound that does not depend on how much mail there is: ten short histories, the head and a few chunks of mail.
MOST_BYTES = 200_000

app = App()


@app.orchestration(mailboxes=["letters", "never"])
async def collecting(ctx: Context, number: int) -> int:
    """One letter in each execution: the numbers must come in order."""
    letter = await ctx.receive("letters")
    if letter != "end":
        assert letter["number"] == number, letter
        ctx.continue_as_new(number + 1)
    return number


@app.orchestration(mailboxes=["letters"])
async def patient(ctx: Context, number: int) -> int:
    """The same, but the code waits for an event in each tenth execution."""
    letter = await ctx.receive("letters")
    if letter != "end":
        assert letter["number"] == number, letter
        if number % 10 == 9:
            await ctx.event("go")
        ctx.continue_as_new(number + 1)
    return number


class Stage(InstanceStage):
    def __init__(self) -> None:
        super().__init__()
        self.written: list[int] = []

    def actors(self) -> Iterable[type[Actor]]:
        return (InstanceIndexActor, TenantIndexActor, RescuerActor, orchestration_actor(app.registry))

    async def start(self) -> None:
        await super().start()
        self.host.storage.committed = self._note

    def _note(self, writes: Sequence[Write]) -> None:
        self.written.append(sum(len(write.value or b"") + len(write.key) for write in writes))

    async def tell(self, method: str, **data: Any) -> Any:
        return await self.ask("i", method, **data)

    async def send(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            await self.tell(
                "RaiseEvent", name="letters", data={"number": number, "text": PADDING}, event_id=str(number)
            )

    async def until_ended(self) -> Any:
        while (status := await self.tell("Status"))["ended_at"] is None:
            await asyncio.sleep(1)
        return status

    def keys(self, beginning: str) -> list[str]:
        prefix = f"holdfast||{ORCHESTRATION_TYPE}||i||{beginning}"
        return [key for key in self.host.storage.rows if key.startswith(prefix)]


on_stage = on_simulated_host(Stage)


@on_stage
async def test_an_execution_that_is_left_to_the_next_turn_starts_once(stage: Stage) -> None:
    """A turn ends after 50 executions. The start of the next one is recorded before its code runs."""
    await stage.tell("Start", name="collecting", input=0)
    await stage.tell("Suspend")
    await stage.send(range(50))
    await stage.tell("RaiseEvent", name="letters", data="end")
    await stage.tell("Resume")
    assert (await stage.until_ended())["output"] == 50
    for execution in range(46, 52):
        events = (await stage.tell("History", execution_id=execution))["events"]
        assert [event["type"] for event in events].count("OrchestrationStarted") == 1
    await stage.tell("Delete")
    await asyncio.sleep(60)
    assert stage.keys("") == []


@on_stage
async def test_a_backlog_is_received_in_order_in_transactions_of_bounded_size(stage: Stage) -> None:
    await stage.tell("Start", name="collecting", input=0)
    await stage.tell("Suspend")
    await stage.send(range(LETTERS))
    assert max(stage.written) < MOST_BYTES
    await stage.tell("Resume")
    await stage.tell("RaiseEvent", name="letters", data="end")
    status = await stage.until_ended()
    assert (status["output"], status["execution_id"]) == (LETTERS, LETTERS + 1)
    assert max(stage.written) < MOST_BYTES
    await asyncio.sleep(10)
    # What the ten histories that are kept refer to.
    assert 1 <= len(stage.keys("mail-")) <= 2
    assert len(stage.keys("history-")) <= 11


@on_stage
async def test_a_backlog_is_received_over_restarts(stage: Stage) -> None:
    await stage.tell("Start", name="collecting", input=0)
    await stage.tell("Suspend")
    await stage.send(range(LETTERS))
    await stage.restart()
    await stage.tell("Resume")
    # Between two of the turns in which it works off what there is.
    await stage.restart()
    await stage.tell("RaiseEvent", name="letters", data="end")
    await stage.restart()
    assert (await stage.until_ended())["output"] == LETTERS


@on_stage
async def test_a_backlog_is_written_once_however_many_executions_leave_it_unread(stage: Stage) -> None:
    await stage.tell("Start", name="patient", input=0)
    await stage.send(range(LETTERS))
    stage.written.clear()
    for _ in range(LETTERS // 10):
        await stage.tell("RaiseEvent", name="go")
    await stage.tell("RaiseEvent", name="letters", data="end")
    assert (await stage.until_ended())["output"] == LETTERS
    assert max(stage.written) < MOST_BYTES
    assert sum(stage.written) < 60 * LETTERS * len(PADDING) / 10


@on_stage
async def test_recorded_histories_have_their_unread_mail_and_can_be_replayed(stage: Stage) -> None:
    await stage.tell("Start", name="patient", input=0)
    await stage.send(range(25))
    await stage.tell("RaiseEvent", name="go")
    await stage.restart()
    present = (await stage.tell("Status"))["execution_id"]
    assert present == 20
    # The tenth began before there was a backlog.
    assert "unread" not in (await stage.tell("History", execution_id=10, recorded=True))["events"][0]
    for execution_id in range(present - 9, present + 1):
        answer = await stage.tell("History", execution_id=execution_id, recorded=True, limit=1000)
        unread = answer["events"][0]["unread"]
        assert [load(mail["data"].encode())["number"] for mail in unread] == list(range(execution_id - 1, 25))
        verify_history(app.registry, "i", [load_event(event) for event in answer["events"]])


@on_stage
async def test_ids_of_events_are_remembered_over_executions_and_after_the_end(stage: Stage) -> None:
    await stage.tell("Start", name="collecting", input=0)
    await stage.send(range(MAX_EVENT_IDS + 300))
    for restarted in (False, True):
        if restarted:
            await stage.restart()
        # The last ones; the first have long been forgotten, and would be taken again.
        await stage.send(range(300, MAX_EVENT_IDS + 300, 50))
        assert (await stage.tell("Status"))["execution_id"] == MAX_EVENT_IDS + 301
    await stage.tell("RaiseEvent", name="letters", data="end")
    assert (await stage.until_ended())["output"] == MAX_EVENT_IDS + 300
    answer = await stage.tell("RaiseEvent", name="letters", data="late", event_id=str(MAX_EVENT_IDS))
    assert answer["success"]
    assert len(stage.keys("event-ids-")) <= 5


@on_stage
async def test_nothing_is_left_of_a_deleted_one_with_mail(stage: Stage) -> None:
    await stage.tell("Start", name="patient", input=0)
    await stage.send(range(LETTERS))
    for number in range(300):
        await stage.tell("RaiseEvent", name="letters", data={"number": LETTERS + number, "text": PADDING * 100})
    await stage.tell("RaiseEvent", name="go")
    assert stage.keys("mail-")
    assert stage.keys("event-ids-")
    await stage.tell("Delete", force=True)
    await asyncio.sleep(60)
    assert stage.keys("") == []
