"""Replay: compares the commands of the code with the recorded history."""

from __future__ import annotations

from collections import defaultdict, deque
from itertools import islice
from typing import TYPE_CHECKING

from holdfast.errors import NonDeterminism
from holdfast.orchestration.core.history import (
    DECISIONS,
    ActivityScheduled,
    Event,
    OrchestrationStarted,
    PatchMarked,
    RequestAnswered,
    SubOrchestrationScheduled,
    TimerCreated,
    TimerFired,
)
from holdfast.orchestration.core.matching import Differences, Pairing, in_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from holdfast.orchestration.core.commands import Command
    from holdfast.orchestration.core.history import Json

_NOTHING = "nothing: it waits"
_END = "the end of the history"
_ADVICE = "Code that runs on old histories must make the same calls at the same steps; give changed code a new version."
_ADVICE_ON_INPUTS = (
    "A loop over a set has a different order in every process: use a list, or sorted(...), and give changed code a "
    "new version."
)


class ReplayCursor:
    """Reads the events of one execution once, from the first to the last."""

    def __init__(self, events: Sequence[Event], cut_off: Sequence[Event] | None = None) -> None:
        """Creates a cursor. ``cut_off`` are, for a copy that ends within a step, the decisions that were not copied."""
        for place, event in enumerate(events, start=1):
            if event.seq != place:
                raise NonDeterminism(f"The history is damaged: event {event.seq} is at position {place}.")
        if events and not isinstance(events[0], OrchestrationStarted):
            raise NonDeterminism(f"The history is damaged: it begins with {events[0].type}.")
        #: Recorded calls whose content differed on replay and which were accepted nevertheless.
        self.accepted: list[Event] = []
        #: The contents of these calls, as issued and as recorded.
        self.differences = Differences()
        self._events = events
        self._cut_off = cut_off
        self._read = 0
        #: The number of the event that marks each patch.
        self.marks = {event.name: event.seq for event in reversed(events) if isinstance(event, PatchMarked)}
        #: The children of the current step by name and input, and the position after the last event among them.
        self._children: dict[tuple[str, Json], deque[SubOrchestrationScheduled]] = {}
        self._children_until = -1

    def external_events(self, moment_of: Callable[[int], float | None]) -> Iterator[list[Event]]:
        """Yields the external events in order; timers that fired at the same time come as one group."""
        while self._skip_marks() < len(self._events):
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

    @property
    def is_used_up(self) -> bool:
        """Whether the code goes on from here on its own: the copied events, which end within this step, are read."""
        return self._cut_off is not None and self._read == len(self._events)

    @property
    def _is_in_cut_step(self) -> bool:
        return self._cut_off is not None and all(isinstance(event, DECISIONS) for event in self._events[self._read :])

    def take(self, commands: Sequence[Command]) -> list[Event | None]:
        """Returns the recorded events of the commands of one step, in the order of the commands.

        An event is None if it was cut off from a copied history. Raises NonDeterminism when the history has other or
        fewer events, or when the pairing is ambiguous.
        """
        asked = {command.fields["name"] for command in commands if command.kind is PatchMarked}
        decisions = list(
            islice(
                (event for event in self._decisions() if not isinstance(event, PatchMarked) or event.name in asked),
                len(commands),
            )
        )
        _add_skew(commands, decisions)
        pairing = Pairing(commands, decisions)
        missing = pairing.unmatched_commands
        if missing and (pairing.unmatched_decisions or not self._is_in_cut_step):
            raise self._departure(missing, pairing.unmatched_decisions, decisions)
        for command, event in pairing.different:
            if not self.differences.add(command, event):
                found = f"{in_words(command, content=True)}, which the history records as a different call"
                raise nondeterminism(event, found, command.line, content=True)
        self.accepted += [event for _, event in pairing.different]
        self._read = _last(decisions, self._read)
        return pairing.events

    def child_id(self, name: str, given: Json, like: Callable[[str], bool]) -> str | None:
        """Returns the recorded id of a child that the code starts without an id, found by its input; each id once."""
        waiting = self._started_children(like).get((name, given))
        while waiting:
            event = waiting.popleft()
            if event.seq > self._read:
                return event.original_id or event.instance_id
        return None

    def scheduled(self, kind: type[Event], name: str) -> Event | None:
        """Returns the recorded decision of this kind and name in the current step, or None."""
        return next((event for event in self._step() if type(event) is kind and event.name == name), None)  # type: ignore[attr-defined]

    @property
    def position(self) -> int:
        """The number of events read, which is the number of the last one."""
        return self._read

    def mark(self, name: str) -> int | None:
        """Returns the number of the event that marks a patch, if it is in the current step or before."""
        seq = self.marks.get(name)
        if seq is None and self._is_in_cut_step:
            marks = (event for event in self._cut_off or () if isinstance(event, PatchMarked))
            return next((event.seq for event in marks if event.name == name), None)
        if seq is None or seq <= self._read:
            return seq
        return seq if all(isinstance(event, DECISIONS) for event in self._events[self._read : seq]) else None

    def refused_request(self, request_id: str) -> bool:
        """Returns whether the current step recorded that the data of a request did not have the right type."""
        return any(
            isinstance(event, RequestAnswered) and event.request_id == request_id and event.error_code is not None
            for event in self._step()
        )

    def end(self, kind: type[Event], line: str | None, error: str | None = None) -> Event:
        """Returns the event that ends the execution. Raises NonDeterminism when the history has a different event."""
        self._skip_marks()
        event = self._peek()
        if event is None or type(event) is not kind:
            raise nondeterminism(event, kind.__name__ if error is None else f"{kind.__name__} ({error})", line)
        self._read += 1
        return event

    def _started_children(
        self, like: Callable[[str], bool]
    ) -> dict[tuple[str, Json], deque[SubOrchestrationScheduled]]:
        if self._read > self._children_until:
            self._children = defaultdict(deque)
            self._children_until = self._read
            for event in self._decisions():
                self._children_until += 1
                if isinstance(event, SubOrchestrationScheduled) and like(event.original_id or event.instance_id):
                    self._children[event.name, event.input].append(event)
        return self._children

    def _decisions(self) -> Iterator[Event]:
        """Yields the next decisions, up to the next external event."""
        for place in range(self._read, len(self._events)):
            if not isinstance(self._events[place], DECISIONS):
                return
            yield self._events[place]

    def _step(self) -> Iterator[Event]:
        """Yields the next decisions of the step, also those that were cut off."""
        yield from self._decisions()
        if self._is_in_cut_step:
            yield from self._cut_off or ()

    def _departure(self, commands: Sequence[Command], left: Sequence[Event], taken: Sequence[Event]) -> NonDeterminism:
        if not left:
            self._read = _last(taken, self._read)
            self._skip_marks()
            return nondeterminism(self._peek(), in_words(commands[0]), commands[0].line)
        alike = [command for command in commands if in_words(command) == in_words(left[0])]
        command = (alike or commands)[0]
        return nondeterminism(left[0], in_words(command, content=bool(alike)), command.line, content=bool(alike))

    def _skip_marks(self) -> int:
        """Skips marks of patches that the code no longer asks for. Returns the number of events read."""
        while isinstance(self._peek(), PatchMarked):
            self._read += 1
        return self._read

    def _peek(self) -> Event | None:
        return self._events[self._read] if self._read < len(self._events) else None


def _last(decisions: Sequence[Event], before: int) -> int:
    return max((event.seq for event in decisions), default=before)


def unanswered(events: Sequence[Event]) -> list[Event]:
    """Returns the scheduled activities and children that have no result in the history."""
    scheduled: dict[int, Event] = {}
    for event in events:
        if isinstance(event, ActivityScheduled) or (
            isinstance(event, SubOrchestrationScheduled) and not event.detached
        ):
            scheduled[event.seq] = event
        else:
            scheduled.pop(getattr(event, "scheduled_seq", None) or 0, None)
    return list(scheduled.values())


def nondeterminism(
    expected: Event | None, found: str | None, line: str | None, *, content: bool = False
) -> NonDeterminism:
    """Returns the error that names the recorded event and what the code does instead; with contents if they differ."""
    step = _END if expected is None else f"event {expected.seq}, {in_words(expected, content=content)}"
    return NonDeterminism(
        f"The code does not do what its history says it did. {_ADVICE_ON_INPUTS if content else _ADVICE}",
        expected=step,
        found=found or _NOTHING,
        line=line,
    )


def _add_skew(commands: Sequence[Command], decisions: Sequence[Event]) -> None:
    """Converts the due times of timers from history time, which the code uses, to the host's clock, as recorded."""
    skew = next((event.skew for event in decisions if isinstance(event, TimerCreated)), None)
    if skew is not None:
        for command in commands:
            if command.kind is TimerCreated:
                command.fields = TimerCreated.at(command.fields["fire_at"], skew)
