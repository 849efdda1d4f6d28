"""A random program is rerun from every event of its history, and gets the same answers again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic_core import from_json, to_json

from holdfast.orchestration.core import history
from holdfast.orchestration.core.copies import Copy, cut
from holdfast.orchestration.core.effects import RunActivity, StartSubOrchestration
from holdfast.orchestration.core.history import load_event
from holdfast.orchestration.core.instance import Instance
from holdfast.orchestration.core.messages import (
    ActivityOutcome,
    Cancel,
    MakeRequest,
    RaiseEvent,
    Resume,
    SubOrchestrationOutcome,
    Suspend,
)
from tests.properties.orchestrations.on_engine import Way, World, app
from tests.properties.orchestrations.programs import Author

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.orchestration.core.effects import Effect
    from holdfast.orchestration.core.history import Event
    from holdfast.orchestration.core.messages import Message

# Fields of a rerun that differ from those of its source.
_OWN = ("seed", "origins", "deadline", "instance_id", "original_id")
# One program in so many gets all messages late.
_LATE_EVERY = 4
_OUTCOMES = {
    history.ActivityCompleted: ActivityOutcome,
    history.ActivityFailed: ActivityOutcome,
    history.SubOrchestrationCompleted: SubOrchestrationOutcome,
    history.SubOrchestrationFailed: SubOrchestrationOutcome,
}


def rerun_everywhere(seed: int) -> int:
    """Reruns a program from each event of its history. Returns the number of reruns."""
    way = Way(lateness=0.0 if seed % _LATE_EVERY else 1.0)
    source = [load_event(event) for event in World(Author(seed).write(), way).run().history]
    before = to_json([event.dump() for event in source])
    for from_seq in range(1, len(source) + 1):
        first = _rerun("test", source, from_seq, "again")
        if (seed + from_seq) % 10 == 0:
            # The rerun has the same history, and can be rerun as well.
            for second in {1, from_seq, len(first)}:
                _rerun("again", first, second, "once-more")
    assert to_json([event.dump() for event in source]) == before
    return len(source)


def _rerun(source_id: str, source: Sequence[Event], from_seq: int, instance_id: str) -> list[Event]:
    copy = Copy.load(from_json(to_json(cut(source_id, source, from_seq).dump())))
    before = source[max(0, from_seq - 2)].timestamp
    instance, begun = Instance.rerun(app.registry, instance_id, copy, before, seed=f"seed of {instance_id}")
    events, effects = begun.events, begun.effects
    answered = {getattr(event, "scheduled_seq", None) for event in source[: from_seq - 1]}
    assert not (answered - {None}) & {*map(_call, effects)}
    while len(events) < len(source):
        if len(events) % 7 == from_seq % 7:
            instance = _restored(instance, events)
        following = source[len(events)]
        message = _message(following)
        if isinstance(message, ActivityOutcome) and instance.waits_for_activity(1, message.scheduled_seq):
            assert message.scheduled_seq in map(_call, effects), f"event {message.scheduled_seq} is not run"
        messages = [] if message is None else [message]
        delivery = instance.deliver(messages, following.timestamp, fire_timers=message is None)
        assert delivery.events, f"event {following.seq} has no effect: {following}"
        events += delivery.events
        effects += delivery.effects
    assert [*map(_shown, events)] == [*map(_shown, source)], f"from event {from_seq}"
    calls = [call for call in map(_call, effects) if call is not None]
    assert len(calls) == len(set(calls))
    _restored(instance, events).close()
    return events


def _restored(instance: Instance, events: Sequence[Event]) -> Instance:
    instance.close()
    return Instance.restore(app.registry, instance.instance_id, [load_event(event.dump()) for event in events])


def _call(effect: Effect) -> int | None:
    return effect.scheduled_seq if isinstance(effect, RunActivity | StartSubOrchestration) else None


def _message(event: Event) -> Message | None:
    """Returns the message that was recorded as an event; None for a timer."""
    if kind := _OUTCOMES.get(type(event)):
        fields: Any = event
        result, error = getattr(event, "result", None), getattr(event, "error", None)
        return kind(execution_id=1, scheduled_seq=fields.scheduled_seq, result=result, error=error)
    if isinstance(event, history.EventRaised):
        return RaiseEvent(name=event.name, data=event.data, event_id=event.event_id)
    if isinstance(event, history.RequestReceived):
        return MakeRequest(name=event.name, data=event.data, request_id=event.request_id)
    if isinstance(event, history.CancelRequested):
        return Cancel(reason=event.reason)
    if isinstance(event, history.OrchestrationSuspended):
        return Suspend(reason=event.reason)
    if isinstance(event, history.OrchestrationResumed):
        return Resume()
    assert isinstance(event, history.TimerFired), event
    return None


def _shown(event: Event) -> dict[str, Any]:
    return {name: value for name, value in event.dump().items() if name not in _OWN}
