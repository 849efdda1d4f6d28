"""A copy of the first part of a history, from which a rerun starts a new instance."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby, pairwise, takewhile
from typing import TYPE_CHECKING, Any

from holdfast.errors import Conflict, InvalidRequest
from holdfast.orchestration.core import history
from holdfast.orchestration.core.child_ids import restarted_child
from holdfast.orchestration.core.history import OrchestrationStarted, load_event
from holdfast.orchestration.core.replay import unanswered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.orchestration.core.history import Event
    from holdfast.orchestration.definitions import Orchestration

_FAILURES = (history.ActivityFailed, history.SubOrchestrationFailed)
# Decisions that a step consults before it makes them again: which path it took.
_CONSULTED = (history.PatchMarked, history.ValueRefused, history.RequestAnswered)


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """The events before a cut, and what has to be known of the events after it."""

    source_id: str
    #: The number of the first event that is not copied.
    from_seq: int
    #: Whether the cut is before the last failure.
    at_failure: bool
    #: The events before the cut. The first event of the source is always there: what it says is also needed for a cut
    #: before it.
    events: list[Event]
    #: When the events end within a step: the decisions of that step which are not copied, as far as they are consulted.
    cut_off: list[Event] | None
    #: After a failure, the other answers to what was scheduled before it, in order; timers that fired together in one
    #: group.
    kept: list[list[Event]]

    @property
    def started(self) -> OrchestrationStarted:
        """The first event of the source."""
        first = self.events[0]
        assert isinstance(first, OrchestrationStarted)
        return first

    @property
    def copied(self) -> int:
        """The number of copied events."""
        return self.from_seq - 1

    def is_same(self, other: dict[str, Any] | None) -> bool:
        """Returns whether ``other``, as :meth:`origin` returns it, is this cut of this instance."""
        return other == self.origin()

    def origin(self) -> dict[str, Any]:
        """Returns where the copy is from, for the record of the new instance."""
        return {
            "instance_id": self.source_id,
            "execution_id": self.started.execution_id,
            "from_seq": self.from_seq,
            "at_failure": self.at_failure,
            "seed": self.started.seed,
        }

    def events_for(
        self, instance_id: str, seed: str, definition: Orchestration, now: float, traceparent: str | None = None
    ) -> list[Event]:
        """Returns the copied events as the first events of a new instance; for a start from the beginning its start.

        The instance has no parent. Its time limit begins now, and children without an answer get new ids.
        """
        source, is_first = self.started, self.started.execution_id == 1
        # The first execution begins late if a time was given. A later one has begun already.
        start_at = source.start_at
        changes: dict[str, Any] = {
            "seed": seed,
            "version": definition.version,
            "parent": None,
            "deadline": definition.deadline(max(now, start_at or now)),
            "origins": self._origins(),
            "traceparent": traceparent,
        }
        if not self.copied:
            mailboxes = () if is_first else source.mailboxes or ()
            requests = () if is_first else source.requests or ()
            changes |= {
                "timestamp": now,
                "mailboxes": sorted({*definition.mailboxes, *mailboxes}),
                "requests": sorted({*definition.requests, *requests}) or None,
                "start_at": start_at if start_at is not None and start_at > now else None,
            }
        started = replace(source, **changes)
        answered = {getattr(event, "scheduled_seq", None) for group in self.kept for event in group}
        open_children = {
            event.seq: event
            for event in unanswered(self.events)
            if isinstance(event, history.SubOrchestrationScheduled) and event.seq not in answered
        }
        return [
            started,
            *(
                _under_new_id(open_children[event.seq], instance_id, seed) if event.seq in open_children else event
                for event in self.events[1:]
            ),
        ]

    def _origins(self) -> list[list[Any]]:
        origins = [[name, seed, min(last, self.copied)] for name, seed, last in self.started.origins or ()]
        origins.append([self.source_id, self.started.seed, self.copied])
        # The first one is kept in any case, for its seed.
        return [origins[0], *(late for early, late in pairwise(origins) if late[2] > early[2])]

    def dump(self) -> dict[str, Any]:
        return {
            "source_id": self.source_id,
            "from_seq": self.from_seq,
            "at_failure": self.at_failure,
            "events": [event.dump() for event in self.events],
            "cut_off": None if self.cut_off is None else [event.dump() for event in self.cut_off],
            "kept": [[event.dump() for event in group] for group in self.kept],
        }

    @classmethod
    def load(cls, dumped: dict[str, Any]) -> Copy:
        """Returns the copy that :meth:`dump` wrote. Raises ValueError for anything else."""
        try:
            copy = cls(
                source_id=dumped["source_id"],
                from_seq=dumped["from_seq"],
                at_failure=dumped["at_failure"],
                events=list(map(load_event, dumped["events"])),
                cut_off=None if dumped["cut_off"] is None else list(map(load_event, dumped["cut_off"])),
                kept=[list(map(load_event, group)) for group in dumped["kept"]],
            )
            is_valid = copy.copied >= 0 and len(copy.events) == max(1, copy.copied)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"The copy is invalid: {error!r}.") from error
        if not (is_valid and isinstance(copy.events[0], OrchestrationStarted) and isinstance(copy.source_id, str)):
            raise ValueError("The copy is invalid: it does not have the events before its cut.")
        return copy


def is_enough(event: Event, from_seq: int) -> bool:
    """Returns whether no event after this one has to be known for a cut before ``from_seq``."""
    return event.seq >= from_seq and not isinstance(event, history.DECISIONS)


def cut(source_id: str, events: Sequence[Event], from_seq: int | None) -> Copy:
    """Returns the events before ``from_seq``, or without it those before the last failure.

    ``events`` are those of one execution, up to the end of the step at the cut or longer. Raises InvalidRequest when
    there is no such event, and Conflict when there is no failure.
    """
    kept: list[list[Event]] = []
    at_failure = from_seq is None
    if from_seq is None:
        failures = [event.seq for event in events if isinstance(event, _FAILURES)]
        if not failures:
            raise Conflict(
                f"No activity and no sub-orchestration has failed in the history of {source_id}: "
                "name an event with from_seq, or rerun it from the start."
            )
        from_seq = failures[-1]
        kept = _answers(events[: from_seq - 1], events[from_seq:])
    elif not 1 <= from_seq <= len(events):
        raise InvalidRequest(f"from_seq: there is no event {from_seq} in the history, which has {len(events)}.")
    before, after = list(events[: from_seq - 1]), events[from_seq - 1 :]
    cut_off: list[Event] | None = None
    if isinstance(after[0], history.DECISIONS + history.ENDINGS):
        rest = takewhile(lambda event: isinstance(event, history.DECISIONS), after)
        cut_off = [event for event in rest if isinstance(event, _CONSULTED)]
    return Copy(
        source_id=source_id,
        from_seq=from_seq,
        at_failure=at_failure,
        events=before or list(events[:1]),
        cut_off=cut_off,
        kept=kept,
    )


def _answers(before: Sequence[Event], after: Sequence[Event]) -> list[list[Event]]:
    """Returns the events of ``after`` that answer an event of ``before``."""
    timers = {event.seq: event.fire_at for event in before if isinstance(event, history.TimerCreated)}
    answers = [event for event in after if 0 < (getattr(event, "scheduled_seq", None) or 0) <= len(before)]
    groups: list[list[Event]] = []
    for moment, found in groupby(answers, lambda event: timers.get(getattr(event, "scheduled_seq", 0))):
        group = list(found)
        groups += [[event] for event in group] if moment is None else [group]
    return groups


def _under_new_id(event: history.SubOrchestrationScheduled, instance_id: str, seed: str) -> Event:
    child = restarted_child(instance_id, seed, event.execution_id, event.seq)
    return replace(event, instance_id=child, original_id=event.original_id or event.instance_id)
