"""One execution of an orchestration: events in, decisions out.

Each step applies one external event, or the timers that fire at the same time, and runs the code until every task
waits. The decisions of the step follow in the history. The history therefore shows what the code knew at each
decision, independent of how messages were batched, and code that replays the same events makes the same decisions.
"""

from __future__ import annotations

from contextvars import Context as Variables
from dataclasses import replace
from functools import cached_property, partial
from random import Random
from typing import TYPE_CHECKING, Any, NoReturn

from holdfast.errors import NeverYields, NonDeterminism
from holdfast.orchestration.core import history
from holdfast.orchestration.core.blocking_errors import missing_definition, unfit_value
from holdfast.orchestration.core.box_keys import boxes_of, request_box
from holdfast.orchestration.core.child_ids import restarted_child
from holdfast.orchestration.core.commands import Command, Commands
from holdfast.orchestration.core.context import Context
from holdfast.orchestration.core.effects import Effect, RunActivity, StartSubOrchestration
from holdfast.orchestration.core.event_ids import EventIds
from holdfast.orchestration.core.failures import Failure, Kind
from holdfast.orchestration.core.limits import DEFAULT_LIMITS, TURN_BYTES, Limits
from holdfast.orchestration.core.mailboxes import Mail, Mailboxes
from holdfast.orchestration.core.matching import Differences, in_words
from holdfast.orchestration.core.outcome import CleanUp, parent_notification, released, terminal_event
from holdfast.orchestration.core.payloads import in_words as in_words_of_value
from holdfast.orchestration.core.replay import ReplayCursor, nondeterminism
from holdfast.orchestration.core.requests import INVALID, MAX_REJECTION, Requests
from holdfast.orchestration.core.tagging import Tagging
from holdfast.orchestration.core.time_limit import timed_out
from holdfast.orchestration.core.waiting import earliest
from holdfast.orchestration.loop.loop import ReplayLoop
from holdfast.orchestration.loop.source_lines import line_of_caller, line_of_error, line_of_function, line_of_waiting

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from holdfast.orchestration.core.copies import Copy
    from holdfast.orchestration.core.history import Event
    from holdfast.orchestration.core.waiting import Waiting
    from holdfast.orchestration.definitions import Orchestration
    from holdfast.orchestration.registry import Registry


class Execution:
    """Runs the code of one execution and keeps it in memory while it waits."""

    def __init__(
        self,
        registry: Registry,
        definition: Orchestration,
        instance_id: str,
        started: history.OrchestrationStarted,
        limits: Limits = DEFAULT_LIMITS,
        *,
        mailboxes: Mailboxes | None = None,
        requests: Requests | None = None,
        event_ids: EventIds | None = None,
    ) -> None:
        self.registry = registry
        self.definition = definition
        self.instance_id = instance_id
        self.started = started
        self.commands = Commands(limits)
        # ReplayLoop rejects the methods that typeshed declares abstract with one generic implementation.
        self.loop = ReplayLoop(instance_id, self.commands.keep_timer, limits)  # type: ignore[abstract]
        #: Both are taken over from the previous execution, if that is in memory.
        self.mailboxes = mailboxes or Mailboxes.of(boxes_of(definition), started)
        self.requests = requests or Requests(self.mailboxes)
        self.event_ids = event_ids or EventIds()
        self.custom_status: str | None = None
        self.tags = Tagging(started.tags or {})
        #: The host's clock. Timestamps of the history never decrease, so they are ahead of a clock that was set back.
        self.wall = started.timestamp
        self.suspended = False
        self.cancelling = False
        #: When the code was cancelled, if it was, and whether at the time limit of the instance.
        self.cancelled_at: float | None = None
        self.timed_out = False
        #: Whether the code has yet to begin, at ``start_at``.
        self.pending = started.start_at is not None
        self.ended: Event | None = None
        #: The fields of the event that ended the execution, as the code made them, also in a replay.
        self.end_fields: dict[str, Any] = {}
        #: Events and effects the instance has not collected yet.
        self.events: list[Event] = []
        self.effects: list[Effect] = []

        self._seq = 0
        #: The number of the external event of the current step.
        self._step_seq = 0
        #: The number of the last event that was recorded before this process ran the code.
        self._restored_until = 0
        self._children = 0
        self._transcript: ReplayCursor | None = None
        #: The patches whose marks are in the history up to here.
        self._marked: set[str] = set()
        #: True once the code has called ``continue_as_new``.
        self.continuing = False
        #: Recorded calls whose content differed on replay and which were accepted nevertheless.
        self.accepted: list[Event] = []
        self._differences = Differences()
        #: Why the code cannot continue: set while the code runs, raised at the end of the step.
        self._obstacle: NonDeterminism | None = None
        #: In a replay, the likely cause if the code diverges from its history in the current step.
        self._suspicion: Callable[..., NonDeterminism] | None = None
        self._cancel_reason: str | None = None
        #: Events recorded while the execution was suspended, not applied yet.
        self._held: list[list[tuple[Event, Any]]] = []
        #: Recorded events that were not applied because the code continued as new.
        self._unseen: list[Event] = []
        self._main: asyncio.Task[Any] | None = None
        self._clean_up: CleanUp | None = None

    @property
    def maker(self) -> tuple[str, str]:
        """The id and the seed of the instance that ran the current step first: of a copied step, its source."""
        return self.started.maker(self.instance_id, self._step_seq)

    @cached_property
    def random(self) -> Random:
        """The random number generator of the orchestration's code."""
        return Random(f"{self.started.first_seed}:{self.execution_id}")

    @cached_property
    def jitter(self) -> Random:
        """The random number generator of retry delays: retries must not change the numbers the code gets."""
        return Random(f"{self.started.first_seed}:{self.execution_id}:jitter")

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
        """The time at which the next timer fires."""
        return None if self.suspended or self.ended else self.commands.timers.next_moment()

    def waiting_for(self) -> list[Waiting]:
        """Returns what the code awaits, the oldest first, up to the number that is shown."""
        return earliest([] if self.ended else [*self.commands.waiting(), *self.mailboxes.awaited()])

    def next_child(self) -> int:
        self._children += 1
        return self._children

    @property
    def left_mail(self) -> list[tuple[str, history.Json, str | None]]:
        """The mail for the next execution: requests without an answer, and recorded mail that was not applied.

        Each has its box, its data and, if it is a request, its id. Mail is not applied when the code has continued as
        new.
        """
        left = self.requests.returned()
        for event in self._unseen:
            if isinstance(event, history.RequestReceived):
                left.append((request_box(event.name), event.data, event.request_id))
            elif isinstance(event, history.EventRaised) and event.scheduled_seq is None:
                left.append((event.name, event.data, None))
        return left

    @property
    def unseen_cancel(self) -> history.CancelRequested | None:
        """The recorded cancel request that was not applied because the code continued as new."""
        return next((event for event in self._unseen if isinstance(event, history.CancelRequested)), None)

    def recorded_child(self, name: str, given: history.Json, like: Callable[[str], bool]) -> str | None:
        """Returns, on a replay, the recorded id of a child that the code starts without an id."""
        return None if self._transcript is None else self._transcript.child_id(name, given, like)

    def patched(self, name: str) -> bool:
        """Returns whether the code takes the patched path, and marks it in the history.

        Only a replay of a step whose history has no mark up to that step takes the old path.
        """
        if name in self._marked:
            return True
        if self._transcript is not None:
            mark = self._transcript.mark(name)
            if mark is None:
                return False
            self._marked.add(name)
            if mark <= self._transcript.position:
                return True
        self._marked.add(name)
        self.commands.ask(None, history.PatchMarked, name=name)
        return True

    def has_lost_mailbox(self, name: str) -> bool:
        """Returns whether the instance had this mailbox when it started, but the code no longer declares it."""
        if name in self.mailboxes:
            return False
        recorded = self.started.mailboxes
        return self.replaying if recorded is None else name in recorded

    def has_lost_request(self, name: str) -> bool:
        """Returns whether the instance had this request when it started, but the code no longer declares it."""
        return not self.requests.declares(name) and name in (self.started.requests or ())

    def obstruct(self, obstacle: NonDeterminism) -> None:
        """Records why the code cannot continue. The end of the step raises it, whatever the code does until then."""
        self._obstacle = self._obstacle or obstacle

    def misses_definition(self, kind: type[Event], name: str, found: str) -> bool:
        """Returns whether the current step recorded this call: then the code cannot continue without its definition."""
        if self._transcript is None:
            return False
        missing = partial(missing_definition, kind, name, found=found, line=line_of_caller())
        recorded = self._transcript.scheduled(kind, name)
        if recorded is None:
            # A function that lost its decorator may have been declared under a different name.
            self._suspicion = missing
            return False
        self.obstruct(missing(expected=f"event {recorded.seq}, {in_words(recorded)}"))
        return True

    async def refuse_value(
        self, error: Exception, subject: str, holder: Event | Mail, name: str, *, as_declared: bool = False
    ) -> NoReturn:
        """Raises ``error`` for a value that does not fit its type, or blocks the instance when it fitted at first.

        Mail is not validated before the code reads it, so a rejected value is recorded as an event of its own. With
        ``as_declared`` it is mail of a typed mailbox, which was validated on arrival, so that the instance is blocked.
        """
        if isinstance(holder, Mail):
            place, is_restored = f"mail {holder.number}, in the mailbox {name}", False
        else:
            place, is_restored = f"event {holder.seq}, {holder.type} ({name})", holder.seq <= self._restored_until
        if self._transcript is None:
            fitted = as_declared or is_restored
        else:
            fitted = self._transcript.scheduled(history.ValueRefused, place) is None
        if fitted:
            is_input = isinstance(holder, history.OrchestrationStarted)
            line = line_of_function(self.definition.function) if is_input else line_of_caller()
            problem = " ".join(in_words_of_value(error).split())
            self.obstruct(unfit_value(subject, expected=place, problem=problem, line=line))
            await self.end_of_step()
        self.commands.ask(None, history.ValueRefused, name=place)
        raise error

    async def refuse_request(self, error: Exception, request: Mail, name: str, *, as_declared: bool) -> None:
        """Answers a request whose data does not fit its type, or blocks the instance when it fitted at first.

        With ``as_declared`` the type is that of the declaration, which the data fitted when it arrived.
        """
        assert request.request_id is not None
        problem = " ".join(in_words_of_value(error).split())
        transcript = self._transcript
        if as_declared if transcript is None else not transcript.refused_request(request.request_id):
            place = f"the request {request.request_id} ({name})"
            self.obstruct(unfit_value(f"A request {name}", expected=place, problem=problem, line=line_of_caller()))
            await self.end_of_step()
        refusal = f"the request {name}: {problem}."[:MAX_REJECTION]
        self.requests.answer(self.commands, name, request.request_id, rejected=refusal, error_code=INVALID)

    async def end_of_step(self) -> None:
        """Blocks the calling task forever: code could catch an exception and continue."""
        await self.loop.create_future()

    def takes_its_input(self) -> bool:
        """Returns whether the input fits the type that the code declares."""
        try:
            self.definition.arguments(self.started.input)
        except Exception:
            # The author's validators may raise anything; the error is raised again when the code begins.
            return False
        return True

    # External events

    def begin(self, *, is_recorded: bool = False) -> None:
        """Runs the first step of a new execution. With ``is_recorded`` its start is in the history already."""
        if is_recorded:
            self._restored_until = self.started.seq
        else:
            self.events.append(self.started)
        self._occur([self.started])

    def refuse(self, error: Exception, kind: Kind, *, is_recorded: bool = False) -> None:
        """Fails a new execution before its first step. With ``is_recorded`` its start is in the history already."""
        if not is_recorded:
            self.events.append(self.started)
        self._seq = self.started.seq
        self.fail(self.started.timestamp, error, kind)

    def replay(self, events: Sequence[Event], copy: Copy | None = None) -> None:
        """Runs the code up to the end of ``events``. Raises NonDeterminism when it diverges from them.

        With ``copy`` the events are copied from another instance, and the code goes on in the last step: a step of
        which only the external event is copied runs as if it happened now.
        """
        last: list[Event] = []
        try:
            self.loop.silent = True
            transcript = self._transcript = ReplayCursor(events, None if copy is None else copy.cut_off)
            with self.commands.traced():
                for group in transcript.external_events(self.commands.timers.moment_of):
                    if self.ended is not None or isinstance(group[0], history.DECISIONS + history.ENDINGS):
                        raise nondeterminism(
                            group[0], None if self.ended is None else "nothing: it has ended", self._line()
                        )
                    if copy is not None and transcript.position == len(events):
                        last = group
                        break
                    self._occur(group)
            self._seq = max(self._seq, transcript.position - len(last))
            self._marked |= transcript.marks.keys()
            self.accepted, self._differences = transcript.accepted, transcript.differences
            self._check_held_mail()
        except NonDeterminism as error:
            if self._suspicion is None or "kind" in error.details:
                raise
            raise self._suspicion(expected=error.details.get("expected")) from error
        finally:
            self.loop.silent = False
            self._transcript = None
            self._restored_until = self._seq
        if last:
            self._seq = last[-1].seq
            self._occur([*last, *self._fired_together_with(last)])

    def repeat(self, group: Sequence[Event]) -> None:
        """Records external events of another history, as far as they answer open commands, and runs the code."""
        again: list[Event] = []
        for event in filter(self.commands.waits_for, group):
            self._seq += 1
            again.append(replace(event, seq=self._seq))
        if again:
            self.events += again
            self._occur(again)

    def happen(self, now: float, kind: type[Event], **fields: Any) -> None:
        """Records an external event and runs the code until every task waits."""
        self._occur([self._record(kind, now, fields)])

    def fire_timers(self, now: float, limit: float | None = None) -> float:
        """Fires the timers that are due by the host's clock, in order. Returns the timestamp of the history after that.

        With ``limit`` only those that are due by then. Timers are left for another turn once the commands of the code
        fill this one.
        """
        timers, until = self.commands.timers, self.commands.recorded_bytes + TURN_BYTES
        due_by = self.wall if limit is None else min(self.wall, limit)
        while (
            self.commands.recorded_bytes < until
            and not self.suspended
            and self.ended is None
            and (due := timers.pop_due(due_by))
        ):
            # Code that slept until a given time must see that time, also when timestamps are ahead of the clock.
            now = max(now, *map(timers.when, due))
            self._occur([self._record(history.TimerFired, now, {"scheduled_seq": seq}) for seq in due])
        return now

    def fail(self, now: float, error: Exception, kind: Kind) -> None:
        """Ends the execution with ``error``."""
        self._end(history.OrchestrationFailed, {"error": Failure.of(error, kind)}, now)

    def end(self, now: float, failure: Failure) -> None:
        """Ends the execution at the time limit, while its code waits."""
        self._end(history.OrchestrationFailed, {"error": failure, "forced": True}, now)

    def close(self) -> None:
        self.loop.discard()
        self.commands.release()

    def dispatched_again(self, copy: Copy) -> list[Effect]:
        """Returns the effects of copied calls that the code waits for and whose answer is not copied."""
        answered = {getattr(event, "scheduled_seq", None) for group in copy.kept for event in group}
        effects: list[Effect] = []
        for event in self.commands.unanswered():
            if event.seq > copy.copied or event.seq in answered:
                continue
            if isinstance(event, history.ActivityScheduled):
                effects.append(RunActivity.of(event))
            elif isinstance(event, history.SubOrchestrationScheduled):
                effects.append(StartSubOrchestration.of(event, self.instance_id, self.started.seed))
        return effects

    # A step

    def _fired_together_with(self, group: Sequence[Event]) -> list[Event]:
        """Records the firing of the other timers of the same moment, which belongs to the same step."""
        fired = {event.scheduled_seq for event in group if isinstance(event, history.TimerFired)}
        timers = self.commands.timers
        moments = {timers.moment_of(seq) for seq in fired}
        others = [seq for moment in moments if moment is not None for seq in timers.at(moment) if seq not in fired]
        now = group[-1].timestamp
        return [self._record(history.TimerFired, now, {"scheduled_seq": seq}) for seq in others]

    def _check_held_mail(self) -> None:
        """Raises NonDeterminism when mail that arrived during a suspension is for an undeclared mailbox or request."""
        for event in (event for answers in self._held for event, _ in answers):
            if isinstance(event, history.EventRaised) and event.scheduled_seq is None:
                self.mailboxes.check_declares(event.name)
            elif isinstance(event, history.RequestReceived):
                self.mailboxes.check_declares(request_box(event.name))

    def _occur(self, group: list[Event]) -> None:
        self._seq = self._step_seq = group[-1].seq
        self.loop.advance(group[-1].timestamp)
        # The answered commands are closed now, even if the code gets the answers later.
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
                    # A cancelled execution is resumed, so that it can clean up.
                    self.suspended = False
                    held, self._held = self._held, []
                    for earlier in (*held, answers):
                        if self.ended is None:
                            self._step(earlier)
                        else:
                            self._unseen += [event for event, _ in earlier]
        except NeverYields as error:
            if self.replaying:
                raise
            self.fail(group[-1].timestamp, error, "never_yields")
        except (SystemExit, KeyboardInterrupt) as error:
            # Raised by the orchestration's code; asyncio re-raises these two from the loop.
            self.fail(group[-1].timestamp, RuntimeError(f"{type(error).__name__}({error})"), "error")

    def _answered(self, event: Event) -> Any:
        if isinstance(event, history.EventRaised):
            if event.event_id is not None:
                self.event_ids.add(event.event_id)
            if event.scheduled_seq is not None:
                return self.commands.answered(event)
            self.mailboxes.unread.add(event.data)
            return None
        if isinstance(event, history.RequestReceived):
            self.requests.received(event.request_id)
            self.mailboxes.unread.add(event.data)
        return self.commands.answered(event) if hasattr(event, "scheduled_seq") else None

    def _step(self, answers: list[tuple[Event, Any]]) -> None:
        self._suspicion = None
        for event, answered in answers:
            self._apply(event, answered)
        self.loop.run_ready()
        main = self._main
        all_ended = False
        if main is not None and main.done() and self._obstacle is None:
            if self._clean_up is None:
                self._clean_up = CleanUp(self.loop)
            all_ended = self._clean_up.advance()
        if self._obstacle is not None:
            raise self._obstacle
        self.commands.settle(self._decide)
        if self._transcript is not None and self._transcript.is_used_up:
            self._transcript = None
        self._release(self.commands.take_given_up())
        if main is None or not all_ended:
            return
        if self.timed_out:
            self._end(history.OrchestrationFailed, {"error": timed_out(main)}, self.loop.time())
            return
        kind, fields = terminal_event(main, self.definition, self._cancel_reason)
        self._end(kind, fields, self.loop.time())

    def _apply(self, event: Event, answered: Any) -> None:
        if isinstance(event, history.OrchestrationStarted):
            self.mailboxes.check_declared()
            # An empty context: the context variables of the caller would be missing on a replay.
            self._main = Variables().run(self.loop.create_task, self._run())
        elif isinstance(event, history.CancelRequested):
            self.cancelling = True
            self.cancelled_at, self._cancel_reason = event.timestamp, event.reason
            if self.continuing:
                # It only interrupts clean-up (of a task group, of remaining tasks), which still ends as planned.
                self._unseen.append(event)
            elif event.timed_out:
                self.timed_out = True
            # After the main task has ended, the clean-up of the other tasks is cancelled.
            for task in filter(None, [self._main]) if self._clean_up is None else self._clean_up.tasks():
                task.cancel(event.reason)
        elif isinstance(event, history.TimerFired):
            self.loop.fire(answered)
        elif isinstance(event, history.EventRaised) and answered is None:
            self.mailboxes.put(event.name, event.data)
        elif isinstance(event, history.RequestReceived):
            self.mailboxes.put(request_box(event.name), event.data, event.request_id)
        elif answered is not None and not answered.promise.done():
            answered.promise.resolve(event)

    async def _run(self) -> Any:
        if self.started.start_at is not None:
            await self._wait_until(self.started.start_at)
            self.pending = False
        # Inside the main task an invalid input of continue_as_new fails the orchestration like any other error.
        try:
            arguments = self.definition.arguments(self.started.input)
        except Exception as error:
            await self.refuse_value(error, "The input", self.started, self.started.name)
        return await self.definition.function(Context(self), *arguments)

    async def _wait_until(self, moment: float) -> None:
        reached = self.loop.create_future()
        timer = self.loop.call_at(moment, reached.set_result, None)
        try:
            await reached
        finally:
            timer.cancel()

    def _decide(self, commands: list[Command]) -> list[Event]:
        if self._transcript is None:
            events = [self._schedule(command) for command in commands]
        else:
            taken = self._transcript.take(commands)
            self._seq = self._transcript.position
            decided = zip(commands, taken, strict=True)
            events = [self._decide_anew(command) if event is None else event for command, event in decided]
        self.tags.settle(events)
        return events

    def _decide_anew(self, command: Command) -> Event:
        """Records a command whose event was cut off from a copied history."""
        if command.generated_id:
            # The child with the id that the code generated, in the name of its source, is that of the source.
            child = restarted_child(self.instance_id, self.started.seed, self.execution_id, self._seq + 1)
            command.fields |= {"original_id": command.fields["instance_id"], "instance_id": child}
        return self._schedule(command)

    def _schedule(self, command: Command) -> Event:
        now = self.loop.time()
        if command.kind is history.TimerCreated and "skew" not in command.fields:
            command.fields = history.TimerCreated.at(command.fields["fire_at"], now - self.wall)
        if (answered := self._differences.answered_before(command)) is not None:
            found = f"{in_words(command, content=True)}, whose recorded result went to a call with different content"
            raise nondeterminism(answered, found, self._line(), content=True)
        event = self._record(command.kind, now, command.fields)
        if isinstance(event, history.ActivityScheduled):
            self.effects.append(RunActivity.of(event))
        elif isinstance(event, history.SubOrchestrationScheduled):
            self.effects.append(StartSubOrchestration.of(event, self.instance_id, self.started.seed))
        return event

    @property
    def error(self) -> BaseException | None:
        """The exception that ended the code, if one did."""
        main = self._main
        return None if main is None or not main.done() or main.cancelled() else main.exception()

    def _end(self, kind: type[Event], fields: dict[str, Any], now: float) -> None:
        self.end_fields = fields
        if self._transcript is not None:
            error = fields.get("error")
            self.ended = self._transcript.end(kind, self._line(), None if error is None else str(error))
            self._seq = self.ended.seq
        else:
            self.ended = self._record(kind, now, fields)
            self._release(self.commands.unanswered())
            self.effects += parent_notification(self.started.parent, self.ended)
        self.close()

    def _release(self, scheduled: Sequence[Event]) -> None:
        """Adds the effects that cancel activities and children the code no longer waits for."""
        if self._transcript is None:
            self.effects += released(scheduled, self.instance_id, self.started.seed, self._cancel_reason)

    def _record(self, kind: type[Event], now: float, fields: dict[str, Any]) -> Event:
        self._seq += 1
        event = kind(seq=self._seq, execution_id=self.execution_id, timestamp=now, **fields)
        self.events.append(event)
        return event

    def _line(self) -> str | None:
        """Returns the source line at which the code waits, or at which its error was raised."""
        main = self._main
        if main is None or main.cancelled():
            return None
        if not main.done():
            return line_of_waiting(main)
        error = main.exception()
        return None if error is None else line_of_error(error)
