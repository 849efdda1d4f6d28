"""A history that is played again: what the code does is held against what it did."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import NonDeterminism
from holdfast.orchestration.history import (
    DECISIONS,
    ENDINGS,
    ActivityScheduled,
    Event,
    EventSubscribed,
    OrchestrationStarted,
    SubOrchestrationScheduled,
    TimerCreated,
    TimerFired,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

_NOTHING = "nothing: it waits"
_END = "the end of the history"


class Transcript:
    """The events of one execution, read once from the first to the last."""

    def __init__(self, events: Sequence[Event]) -> None:
        for place, event in enumerate(events, start=1):
            if event.seq != place:
                raise NonDeterminism(f"The history has event {event.seq} in place {place}.")
        if events and not isinstance(events[0], OrchestrationStarted):
            raise NonDeterminism(f"The history begins with {events[0].type}.")
        self._events = events
        self._read = 0

    def occurrences(self, moment_of: Callable[[int], float | None]) -> Iterator[list[Event]]:
        """What came from outside, one after the other; timers of the same moment together, as they fired."""
        while self._read < len(self._events):
            group = [self._events[self._read]]
            self._read += 1
            if isinstance(group[0], TimerFired):
                moment = moment_of(group[0].scheduled_seq)
                while (following := self._peek()) and isinstance(following, TimerFired):
                    if moment_of(following.scheduled_seq) != moment:
                        break
                    group.append(following)
                    self._read += 1
            yield group

    def expect(self, kind: type[Event], fields: dict[str, Any], line: str | None) -> Event:
        """The event that the code's next decision is. Raises NonDeterminism when the history has another, or none."""
        event = self._peek()
        if event is None or type(event) is not kind or _name(event) != fields.get("name"):
            raise departure(event, _in_words(kind, fields.get("name")), line)
        self._read += 1
        return event

    def next_decision(self) -> Event | None:
        """What the history has the code do next, if it is the code's turn."""
        event = self._peek()
        return event if isinstance(event, DECISIONS + ENDINGS) else None

    def _peek(self) -> Event | None:
        return self._events[self._read] if self._read < len(self._events) else None


def unanswered(events: Sequence[Event]) -> list[Event]:
    """What a history has scheduled and has no answer to."""
    scheduled: dict[int, Event] = {}
    for event in events:
        if isinstance(event, ActivityScheduled) or (
            isinstance(event, SubOrchestrationScheduled) and not event.detached
        ):
            scheduled[event.seq] = event
        else:
            scheduled.pop(getattr(event, "scheduled_seq", None) or 0, None)
    return list(scheduled.values())


def departure(expected: Event | None, found: str | None, line: str | None) -> NonDeterminism:
    step = _END if expected is None else f"event {expected.seq}, {_in_words(type(expected), _name(expected))}"
    done = found or _NOTHING
    where = line or "no line of the orchestration's own"
    return NonDeterminism(
        "The code does not do what its history says it did. "
        f"The history has: {step}. The code does: {done}. At: {where}. "
        "Code that runs on old histories must make the same calls in the same order; give changed code a new version.",
        expected=step,
        found=done,
        line=where,
    )


def _name(event: Event) -> str | None:
    return getattr(event, "name", None)


def _in_words(kind: type[Event], name: str | None) -> str:
    if kind in (ActivityScheduled, SubOrchestrationScheduled, EventSubscribed):
        return f"{kind.__name__} ({name})"
    if kind is TimerCreated:
        return "TimerCreated (a sleep or a time-out)"
    return kind.__name__
