"""Events, messages and effects on their way through JSON."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from pydantic_core import from_json, to_json

from holdfast import App
from holdfast.orchestration.core import history
from holdfast.orchestration.core.effects import load_effect
from holdfast.orchestration.core.failures import Failure
from holdfast.orchestration.core.history import load_event
from holdfast.orchestration.core.json_records import Parent
from holdfast.orchestration.core.messages import (
    ActivityOutcome,
    Cancel,
    RaiseEvent,
    Resume,
    Start,
    SubOrchestrationOutcome,
    Suspend,
    load_message,
)
from tests.unit.orchestration.driver import Driver

if TYPE_CHECKING:
    from holdfast import Context

HUGE = 2**80


def test_every_event_and_effect_comes_back_as_it_was() -> None:
    app = App()

    @app.orchestration
    async def child(ctx: Context) -> None: ...

    @app.orchestration(mailboxes=["mail"])
    async def everything(ctx: Context, number: int) -> int:
        async with asyncio.timeout(5):
            await asyncio.gather(ctx.call("a", number), ctx.sub(child), ctx.event("word"), return_exceptions=True)
        await ctx.sub(child, detached=True)
        if ctx.execution_id < 2:
            ctx.continue_as_new(number + 1)
        await ctx.call("given up")
        return number

    driver = Driver(app)
    parent = Parent(instance_id="p", execution_id=1, scheduled_seq=1)
    driver.deliver(Start(name="everything", input=str(HUGE), seed="s", parent=parent), Suspend(), Resume())
    for _ in range(2):
        scheduled = {event.type: event.seq for event in driver.history}
        driver.raise_event("mail", {"big": HUGE}, "m1")
        driver.fail(scheduled["ActivityScheduled"], ValueError("odd"))
        driver.fail_sub(scheduled["SubOrchestrationScheduled"], Failure(type="E", message="m", kind="cancelled"))
        driver.raise_event("word", [HUGE])
    driver.deliver(Cancel(reason="enough"))
    for event in driver.events:
        assert load_event(from_json(to_json(event.dump()))) == event
    for effect in driver.effects:
        assert load_effect(from_json(to_json(effect.dump()))) == effect
    types = {event.type for event in driver.events}
    assert types >= {"ContinuedAsNew", "OrchestrationCancelled", "CancelRequested", "OrchestrationSuspended"}


def test_payloads_are_kept_as_text_and_shown_as_values() -> None:
    event = history.ActivityCompleted(seq=3, execution_id=1, timestamp=5.0, scheduled_seq=2, result=f'{{"n":{HUGE}}}')
    assert event.dump() == {
        "type": "ActivityCompleted",
        "seq": 3,
        "execution_id": 1,
        "timestamp": 5.0,
        "scheduled_seq": 2,
        "result": f'{{"n":{HUGE}}}',
    }
    assert event.show()["result"] == {"n": HUGE}


def test_every_message_comes_back_as_it_was() -> None:
    failure = Failure(type="E", message="m", types=("a.E",))
    parent = Parent(instance_id="p", execution_id=1, scheduled_seq=1)
    for message in (
        Start(name="n", input="1", seed="s", version="2", parent=parent),
        ActivityOutcome(execution_id=1, scheduled_seq=2, result="1"),
        SubOrchestrationOutcome(execution_id=1, scheduled_seq=2, error=failure),
        RaiseEvent(name="n", data="{}", event_id="e"),
        Cancel(reason="r"),
        Suspend(),
        Resume(),
    ):
        assert load_message(from_json(to_json(message.dump()))) == message


@pytest.mark.parametrize(
    "wrong", [{}, {"type": "Nonsense"}, {"type": "TimerFired", "seq": 1}, {"type": "TimerFired", "x": 1}]
)
def test_what_is_no_event_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="record is invalid"):
        load_event(wrong)
