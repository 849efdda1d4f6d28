"""One execution of an orchestration: events in, decisions out.

Whatever comes from outside is one event, or the timers of one moment. It is applied, the code runs until everything
waits, and what it decided follows in the history. So a history says by itself what was known at each decision, however
messages were grouped on their way, and code to which the same events are applied again makes the same decisions.
"""

from __future__ import annotations

from collections import deque
from contextvars import Context as Variables
from functools import cached_property
from random import Random
from typing import TYPE_CHECKING, Any

from holdfast.errors import NeverYields
from holdfast.orchestration import history
from holdfast.orchestration.commands import Command, Commands
from holdfast.orchestration.context import Context
from holdfast.orchestration.effects import (
    CancelActivity,
    CancelSubOrchestration,
    Effect,
    RunActivity,
    StartSubOrchestration,
    TellParent,
)
from holdfast.orchestration.endings import ending_of
from holdfast.orchestration.failures import Failure, Kind
from holdfast.orchestration.limits import DEFAULT_LIMITS, Limits
from holdfast.orchestration.loop import ReplayLoop
from holdfast.orchestration.mailboxes import Mailboxes
from holdfast.orchestration.transcript import Transcript, departure, unanswered
from holdfast.orchestration.whereabouts import line_of_error, line_of_waiting

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from holdfast.orchestration.definitions import Orchestration
    from holdfast.orchestration.history import Event
    from holdfast.orchestration.records import Parent
    from holdfast.orchestration.registry import Registry
    from holdfast.orchestration.tasks import NumberedTask

#: Ids of the events that came last, by which one sent twice is known.
MAX_EVENT_IDS = 1000


class Execution:
    """The code of one execution, kept where it waits."""

    def __init__(
        self,
        registry: Registry,
        definition: Orchestration,
        instance_id: str,
        started: history.OrchestrationStarted,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self.registry = registry
        self.definition = definition
        self.instance_id = instance_id
        self.started = started
        self.commands = Commands()
        # What typeshed has as abstract is refused there, in one go.
        self.loop = ReplayLoop(instance_id, self.commands.keep_timer, limits)  # type: ignore[abstract]
        self.mailboxes = Mailboxes(definition.mailboxes)
        self.custom_status: str | None = None
        self.suspended = False
        self.cancelling = False
        self.ended: Event | None = None
        self.event_ids: deque[str] = deque(started.event_ids or (), maxlen=MAX_EVENT_IDS)
        #: What is new since somebody took it.
        self.events: list[Event] = []
        self.effects: list[Effect] = []

        self._seq = 0
        self._children = 0
        self._transcript: Transcript | None = None
        self._cancel_reason: str | None = None
        #: What came while the execution was suspended.
        self._held: list[list[tuple[Event, Any]]] = []
        self._main: asyncio.Task[Any] | None = None
        self._leftovers: list[NumberedTask[Any]] | None = None
        self._abandoned: list[Event] | None = None

    @cached_property
    def random(self) -> Random:
        """What the code draws from."""
        return Random(f"{self.started.seed}:{self.execution_id}")

    @cached_property
    def jitter(self) -> Random:
        """What delays between attempts are drawn from: more of them must not change what the code draws."""
        return Random(f"{self.started.seed}:{self.execution_id}:jitter")

    @property
    def execution_id(self) -> int:
        return self.started.execution_id

    @property
    def replaying(self) -> bool:
        return self._transcript is not None

    @property
    def last_seq(self) -> int:
        return self._seq

    @property
    def next_moment(self) -> float | None:
        """When its next timer fires."""
        return None if self.suspended or self.ended else self.commands.timers.next_moment()

    def next_child(self) -> int:
        self._children += 1
        return self._children

    # Events in

    def begin(self) -> None:
        """The first step of a new execution."""
        self.events.append(self.started)
        self._occur([self.started])

    def refuse(self, error: Exception, kind: Kind) -> None:
        """Ends a new execution before it has begun."""
        self.events.append(self.started)
        self._seq = self.started.seq
        self.fail(self.started.timestamp, error, kind)

    def replay(self, events: Sequence[Event]) -> None:
        """Brings fresh code to where it was. Raises NonDeterminism when it does something else than it did."""
        try:
            self.loop.silent = True
            self._transcript = Transcript(events)
            with self.commands.traced():
                for group in self._transcript.occurrences(self.commands.timers.moment_of):
                    if self.ended is not None or isinstance(group[0], history.DECISIONS + history.ENDINGS):
                        raise departure(group[0], None if self.ended is None else "nothing: it has ended", self._line())
                    self._occur(group)
        except BaseException:
            # What there is to be said of it now comes after all of its history, which tells what it left open.
            self._seq = events[-1].seq
            self._abandoned = unanswered(events)
            raise
        finally:
            self.loop.silent = False
            self._transcript = None

    def happen(self, now: float, kind: type[Event], **fields: Any) -> None:
        """Something happened outside: it is recorded, and the code runs as far as that takes it."""
        self._occur([self._record(kind, now, fields)])

    def fire_timers(self, now: float) -> None:
        """All that are due, moment by moment."""
        while not self.suspended and self.ended is None and (due := self.commands.timers.pop_due(now)):
            self._occur([self._record(history.TimerFired, now, {"scheduled_seq": seq}) for seq in due])

    def fail(self, now: float, error: Exception, kind: Kind) -> None:
        """The code cannot go on."""
        self._end(history.OrchestrationFailed, {"error": Failure.of(error, kind)}, now)

    def close(self) -> None:
        self.loop.close()

    # A step

    def _occur(self, group: list[Event]) -> None:
        self._seq = group[-1].seq
        self.loop.advance(group[-1].timestamp)
        # What it answers is no longer open from now on, even if the code hears of it later.
        answers = [(event, self._answered(event)) for event in group]
        try:
            with self.loop.running():
                if isinstance(group[0], history.OrchestrationSuspended):
                    self.suspended = True
                elif self.suspended and not isinstance(
                    group[0], history.OrchestrationResumed | history.CancelRequested
                ):
                    self._held.append(answers)
                else:
                    # Who is to be cancelled has to be let go on, to clean up.
                    self.suspended = False
                    held, self._held = self._held, []
                    for earlier in (*held, answers):
                        if self.ended is None:
                            self._step(earlier)
        except NeverYields as error:
            if self.replaying:
                raise
            self.fail(group[-1].timestamp, error, "never_yields")
        except (SystemExit, KeyboardInterrupt) as error:
            # Of the code's own; asyncio passes it on to whoever runs the loop.
            self.fail(group[-1].timestamp, RuntimeError(f"{type(error).__name__}({error})"), "error")

    def _answered(self, event: Event) -> Any:
        if isinstance(event, history.EventRaised):
            if event.event_id is not None:
                self.event_ids.append(event.event_id)
            return None if event.scheduled_seq is None else self.commands.answered(event)
        return self.commands.answered(event) if hasattr(event, "scheduled_seq") else None

    def _step(self, answers: list[tuple[Event, Any]]) -> None:
        for event, answered in answers:
            self._apply(event, answered)
        self.loop.run_ready()
        main = self._main
        if main is not None and main.done() and self._leftovers is None:
            # As asyncio.run does.
            self._leftovers = self.loop.live_tasks()
            for task in self._leftovers:
                task.cancel()
            self.loop.run_ready()
        self.commands.settle(self._decide)
        self._release(self.commands.take_given_up())
        if main is None or not main.done() or not all(task.done() for task in self._leftovers or ()):
            return
        kind, fields = ending_of(main, self.definition, self._cancel_reason)
        self._end(kind, fields, self.loop.time())

    def _apply(self, event: Event, answered: Any) -> None:
        if isinstance(event, history.OrchestrationStarted):
            self.mailboxes.fill(event.unread or ())
            # Nothing of the context of whoever runs it: it would not be there on a replay.
            self._main = Variables().run(self.loop.create_task, self._run())
        elif isinstance(event, history.CancelRequested):
            self.cancelling = True
            self._cancel_reason = event.reason
            # Once the code itself has ended, it is the clean-up of its tasks that takes too long.
            for task in self._leftovers or filter(None, [self._main]):
                task.cancel(event.reason)
        elif isinstance(event, history.TimerFired):
            self.loop.fire(answered)
        elif isinstance(event, history.EventRaised) and answered is None:
            self.mailboxes.put(event.name, event.data)
        elif answered is not None and not answered.promise.done():
            answered.promise.set_result(event)

    async def _run(self) -> Any:
        # In here a wrong input, of a run that continues as new, is a failure like any other.
        arguments = self.definition.arguments(self.started.input)
        return await self.definition.function(Context(self), *arguments)

    def _decide(self, command: Command) -> Event:
        if self._transcript is not None:
            event = self._transcript.expect(command.kind, command.fields, command.line)
            self._seq = event.seq
            return event
        event = self._record(command.kind, self.loop.time(), command.fields)
        if isinstance(event, history.ActivityScheduled):
            self.effects.append(RunActivity.of(event))
        elif isinstance(event, history.SubOrchestrationScheduled):
            self.effects.append(StartSubOrchestration.of(event, self.instance_id))
        return event

    def _end(self, kind: type[Event], fields: dict[str, Any], now: float) -> None:
        if self._transcript is not None:
            self.ended = self._transcript.expect(kind, fields, self._line())
            self._seq = self.ended.seq
        else:
            self.ended = self._record(kind, now, fields)
            self._release(self.commands.unanswered() if self._abandoned is None else self._abandoned)
            parent = self.started.parent
            if parent is not None:
                self._tell(parent)
        self.close()

    def _release(self, scheduled: Sequence[Event]) -> None:
        """What nobody waits for any more need not go on."""
        if self._transcript is not None:
            return
        for event in scheduled:
            if isinstance(event, history.ActivityScheduled):
                self.effects.append(
                    CancelActivity(
                        execution_id=event.execution_id, scheduled_seq=event.seq, name=event.name, queue=event.queue
                    )
                )
            elif isinstance(event, history.SubOrchestrationScheduled):
                self.effects.append(CancelSubOrchestration(instance_id=event.instance_id, reason=self._cancel_reason))

    def _tell(self, parent: Parent) -> None:
        ended = self.ended
        if isinstance(ended, history.OrchestrationCompleted):
            self.effects.append(TellParent(parent=parent, result=ended.output))
        elif isinstance(ended, history.OrchestrationFailed):
            self.effects.append(TellParent(parent=parent, error=ended.error))
        elif isinstance(ended, history.OrchestrationCancelled):
            cancelled = Failure(type="CancelledError", message=ended.reason or "", kind="cancelled")
            self.effects.append(TellParent(parent=parent, error=cancelled))

    def _record(self, kind: type[Event], now: float, fields: dict[str, Any]) -> Event:
        self._seq += 1
        event = kind(seq=self._seq, execution_id=self.execution_id, timestamp=now, **fields)
        self.events.append(event)
        return event

    def _line(self) -> str | None:
        """Where the code waits, or what ended it."""
        main = self._main
        if main is None or main.cancelled():
            return None
        if not main.done():
            return line_of_waiting(main)
        error = main.exception()
        return None if error is None else line_of_error(error)
