"""The state machine of one schedule: which ticks start an instance, and which calls are to be made for them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from holdfast.errors import Capacity, InvalidRequest
from holdfast.schedules.core.ticks import Timetable, jitter_of, tick_id

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

Overlap = Literal["skip", "allow", "buffer_one", "cancel_previous"]

#: How many ticks and results are shown.
SHOWN_TICKS = 5
KEPT_RESULTS = 10
#: The most ticks of one backfill.
MAX_BACKFILL = 1000
# The most ticks that one turn decides about; the next turn goes on.
_TICKS_PER_TURN = 2000
# The most calls that wait to be made. Ticks beyond that are missed.
_MAX_OUTBOX = 2 * MAX_BACKFILL
# How soon calls are repeated that a crash left unmade, and how often a buffered tick asks for the end of the last one.
_RETRY_SECONDS = 10.0
_POLL_SECONDS = 5.0

UNDECLARED = "The deployed code no longer declares this schedule."


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """The part of a schedule that its caller sets."""

    orchestration: str
    cron: str | None = None
    every_seconds: int | None = None
    #: JSON text.
    input: str = "null"
    timezone: str = "UTC"
    overlap: Overlap = "skip"
    catch_up_seconds: int = 60
    jitter_seconds: int = 0
    tags: dict[str, str] | None = None
    starts_at: float | None = None
    ends_at: float | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a tick."""

    at: float
    #: None for a tick that started no instance.
    instance_id: str | None = None
    skipped: bool = False
    #: Why the instance could not be started.
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """A call to an instance that is made after the turn, and again after a crash."""

    number: int
    method: Literal["Start", "Cancel"]
    instance_id: str
    #: The tick it is for; None for a trigger.
    at: float | None = None


@dataclass(slots=True, kw_only=True)
class Outcomes:
    """How many ticks a turn has decided, by outcome, for the metrics."""

    started: int = 0
    skipped: int = 0
    missed: int = 0


@dataclass(slots=True, kw_only=True)
class Schedule:
    """One schedule."""

    name: str
    definition: Definition
    created_at: float
    updated_at: float
    #: The last tick that was decided, or the time from which ticks count.
    cursor: float
    paused: bool = False
    paused_reason: str | None = None
    #: Whether it comes from the code of an app.
    declared: bool = False
    deleted: bool = False
    #: Whether the index has it.
    indexed: bool = False
    missed: int = 0
    #: The instance of the last tick that started one.
    previous: str | None = None
    #: The tick that waits for the end of that instance.
    buffered: float | None = None
    #: The last results, newest first.
    last: list[Result] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    #: The number of the last call.
    numbered: int = 0

    # Storage

    def to_json(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if value is not None and key != "calls"}

    def calls_to_json(self) -> list[dict[str, Any]]:
        return [asdict(call) for call in self.calls]

    @classmethod
    def from_json(cls, value: Mapping[str, Any], calls: Collection[Mapping[str, Any]]) -> Schedule:
        return cls(
            **{
                **value,
                "definition": Definition(**value["definition"]),
                "last": [Result(**result) for result in value["last"]],
                "calls": [Call(**call) for call in calls],
            }
        )

    # Decisions

    @property
    def timetable(self) -> Timetable:
        given = self.definition
        anchor = self.created_at if given.starts_at is None else given.starts_at
        return Timetable(given.cron, given.every_seconds, given.timezone, anchor, given.starts_at, given.ends_at)

    def depends_on_previous(self, now: float) -> bool:
        """Returns whether the next turn has to know whether the previous instance has ended."""
        if self.previous is None or self.deleted:
            return False
        if self.buffered is not None:
            return True
        due = self._next_due()
        return self.definition.overlap != "allow" and not self.paused and due is not None and due <= now

    def advance(self, now: float, *, previous_ended: bool) -> Outcomes:
        """Decides all ticks that are due, up to a limit for one turn."""
        outcomes = Outcomes()
        if self.deleted:
            return outcomes
        runs = self.previous is not None and not previous_ended
        if self.buffered is not None and not runs:
            tick, self.buffered = self.buffered, None
            self._start(tick, outcomes)
            runs = True
        if self.paused:
            return outcomes
        due = 0.0
        for tick in islice(self.timetable.after(self.cursor), _TICKS_PER_TURN):
            # In order, also where the jitter is longer than the interval.
            due = max(due, tick + self._jitter(tick))
            if due > now:
                break
            self.cursor = tick
            if now - due > self.definition.catch_up_seconds or len(self.calls) >= _MAX_OUTBOX:
                self.missed += 1
                outcomes.missed += 1
            elif not runs or self.definition.overlap == "allow":
                self._start(tick, outcomes)
                runs = True
            elif self.definition.overlap == "cancel_previous":
                assert self.previous is not None
                self._call("Cancel", self.previous)
                self._start(tick, outcomes)
            elif self.definition.overlap == "buffer_one" and self.buffered is None:
                self.buffered = tick
            else:
                self._record(Result(tick, skipped=True))
                outcomes.skipped += 1
        return outcomes

    def next_deadline(self, now: float) -> float | None:
        """Returns when the schedule has to be looked at again."""
        if self.deleted or not self.indexed:
            return now + _RETRY_SECONDS
        moments = [self._next_due()] if not self.paused else []
        if self.calls:
            moments.append(now + _RETRY_SECONDS)
        if self.buffered is not None:
            moments.append(now + _POLL_SECONDS)
        return min((moment for moment in moments if moment is not None), default=None)

    def next_ticks(self, now: float) -> list[float]:
        """Returns the next ticks; none while it is paused."""
        if self.paused:
            return []
        return list(islice(self.timetable.after(max(self.cursor, now)), SHOWN_TICKS))

    # Commands. Each is preceded by ``advance``, so that ticks are decided as things stood when they were due.

    def change(self, definition: Definition, now: float, *, paused: bool | None, declared: bool) -> None:
        """Replaces the definition. Ticks before ``now`` have been decided."""
        if definition != self.definition:
            self.definition = definition
            self.cursor = max(self.cursor, now)
            self.updated_at = now
        if paused is not None and paused is not self.paused:
            self.pause(now) if paused else self.resume(now)
        self.declared = declared

    def pause(self, now: float, reason: str | None = None) -> None:
        self.paused, self.paused_reason, self.updated_at = True, reason, now

    def resume(self, now: float) -> None:
        """Ends the pause. Ticks of the pause neither run nor count as missed."""
        if self.paused:
            self.paused, self.paused_reason, self.updated_at = False, None, now
            self.cursor = max(self.cursor, now)

    def trigger(self, now: float, suffix: str) -> str:
        """Starts an instance now, also while it is paused, and returns its id."""
        self._check_room(1)
        instance_id = f"{tick_id(f'{self.name}-manual', now)}-{suffix}"
        self._call("Start", instance_id)
        return instance_id

    def backfill(self, since: float, until: float) -> int:
        """Starts the instances of all ticks from ``since`` to before ``until``, and returns how many ticks these are.

        A tick that has run before has the same instance, which is not started again.
        """
        unbounded = replace(self.timetable, ends_at=None)
        ticks = list(islice(_before(until, unbounded.after(since - 1e-3)), MAX_BACKFILL + 1))
        if len(ticks) > MAX_BACKFILL:
            raise InvalidRequest(f"There are more than {MAX_BACKFILL} ticks in this time: backfill a shorter one.")
        self._check_room(len(ticks))
        for tick in ticks:
            self._call("Start", tick_id(self.name, tick), tick)
        return len(ticks)

    def made(self, errors: Mapping[int, str | None]) -> None:
        """Removes calls that were made. Those with an error were refused for good."""
        for call in self.calls:
            if (error := errors.get(call.number)) is not None:
                self.last = [
                    replace(result, error=error) if result.instance_id == call.instance_id else result
                    for result in self.last
                ]
        self.calls = [call for call in self.calls if call.number not in errors]

    def _next_due(self) -> float | None:
        tick = next(self.timetable.after(self.cursor), None)
        return None if tick is None else tick + self._jitter(tick)

    def _jitter(self, tick: float) -> float:
        return jitter_of(self.name, tick, self.definition.jitter_seconds)

    def _start(self, tick: float, outcomes: Outcomes) -> None:
        instance_id = tick_id(self.name, tick)
        self._call("Start", instance_id, tick)
        self._record(Result(tick, instance_id))
        self.previous = instance_id
        outcomes.started += 1

    def _call(self, method: Literal["Start", "Cancel"], instance_id: str, at: float | None = None) -> None:
        self.numbered += 1
        self.calls.append(Call(self.numbered, method, instance_id, at))

    def _record(self, result: Result) -> None:
        self.last = [result, *self.last[: KEPT_RESULTS - 1]]

    def _check_room(self, calls: int) -> None:
        if len(self.calls) + calls > _MAX_OUTBOX:
            raise Capacity(
                f"The schedule {self.name} has {len(self.calls)} starts that have yet to be made. Try again."
            )


def created(name: str, definition: Definition, now: float, *, paused: bool, declared: bool) -> Schedule:
    return Schedule(
        name=name,
        definition=definition,
        created_at=now,
        updated_at=now,
        cursor=now,
        paused=paused,
        declared=declared,
    )


def _before(until: float, ticks: Iterator[float]) -> Iterator[float]:
    for tick in ticks:
        if tick >= until:
            return
        yield tick
