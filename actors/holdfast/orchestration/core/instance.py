"""An orchestration instance: takes messages and the current time, returns new history events and effects."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias

from holdfast.errors import (
    Capacity,
    HoldfastError,
    InvalidRequest,
    NeverYields,
    NonDeterminism,
    NotFound,
    OrchestrationEnded,
    UnknownOrchestration,
)
from holdfast.orchestration.core import history
from holdfast.orchestration.core.blocking_errors import undeclared_box
from holdfast.orchestration.core.box_keys import boxes_of, request_box
from holdfast.orchestration.core.event_ids import EventIds
from holdfast.orchestration.core.execution import Execution
from holdfast.orchestration.core.limits import DEFAULT_LIMITS, TURN_BYTES, Limits
from holdfast.orchestration.core.mailboxes import Mail
from holdfast.orchestration.core.messages import (
    ActivityOutcome,
    Cancel,
    MakeRequest,
    Message,
    Outcome,
    RaiseEvent,
    Resume,
    Start,
    SubOrchestrationOutcome,
    Suspend,
)
from holdfast.orchestration.core.payloads import NULL, stored_size
from holdfast.orchestration.core.requests import AnsweredIds
from holdfast.orchestration.core.time_limit import TIME_IS_OVER, ended_at_limit, next_limit
from holdfast.orchestration.status import Status

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from holdfast.orchestration.core.copies import Copy
    from holdfast.orchestration.core.effects import Effect
    from holdfast.orchestration.core.history import Event
    from holdfast.orchestration.core.mailboxes import Mailboxes
    from holdfast.orchestration.core.requests import Requests
    from holdfast.orchestration.core.waiting import Waiting
    from holdfast.orchestration.registry import Registry

# After so many executions in a row that continued as new without receiving mail, the instance fails: it never waits.
_MAX_IDLE_EXECUTIONS = 100
# Bytes of unread mail that may be stored only in the execution's history; beyond that mail is stored on its own.
_FRESH_MAIL_BYTES = 16 * 1024


class Verdict(StrEnum):
    """How a message was processed. Only a recorded message changes the instance."""

    RECORDED = "recorded"
    DUPLICATE = "duplicate"
    OTHER_EXECUTION = "other execution"
    NO_SUBSCRIBER = "no subscriber"
    NEVER_SCHEDULED = "never scheduled"
    NOT_A_CHILD = "not a child"


Reply: TypeAlias = Verdict | HoldfastError


class Blocked(Exception):
    """Raised when the deployed code cannot continue from the history of an instance. Its stored state is intact."""

    def __init__(self, error: UnknownOrchestration | NonDeterminism | NeverYields) -> None:
        super().__init__(str(error))
        details = error.details
        self.reason: dict[str, Any] = {
            "kind": details.get("kind", _BLOCKED_BY[type(error)]),
            "message": error.message,
            **{name: details.get(name) for name in ("expected", "found", "line")},
        }


@dataclass(slots=True)
class TurnResult:
    """The changes of one delivery. They are saved in one transaction before any effect or reply is sent."""

    events: list[Event] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    #: One for each message, in the order of the messages.
    replies: list[Reply] = field(default_factory=list)


class Instance:
    """One instance in memory, with its code suspended at the point where it waits.

    When a delivery raised, or its changes could not be saved, drop the instance with :meth:`close` and restore it
    from the saved history.
    """

    def __init__(
        self,
        registry: Registry,
        instance_id: str,
        limits: Limits = DEFAULT_LIMITS,
        *,
        event_ids: EventIds | None = None,
        answered: Container[str] | None = None,
        mail_is_stored: bool = False,
        executions_at_once: int | None = None,
    ) -> None:
        """Creates an instance that has not started.

        With ``mail_is_stored`` the history only refers to unread mail; the caller stores what :meth:`take_mail`
        returns. ``answered`` has the ids of answered requests; without it the instance remembers the last ones that
        are in its histories. With ``executions_at_once`` a delivery ends after that many executions that received mail
        and continued as new; the next delivery continues.
        """
        self.instance_id = instance_id
        #: The first event of the current execution: name, version, input, parent.
        self.started: history.OrchestrationStarted | None = None
        #: The event that ended the instance, with output, error or reason.
        self.ending: Event | None = None
        self._registry = registry
        self._limits = limits
        self._mail_is_stored = mail_is_stored
        self._executions_at_once = executions_at_once
        self._event_ids = event_ids or EventIds()
        self._answered: Container[str] = AnsweredIds() if answered is None else answered
        self._mail: list[Mail] = []
        self._old_event_ids: list[str] = []
        self._execution: Execution | None = None
        #: Whether the current execution has run its first step, which may be left to the next delivery.
        self.begun = True
        #: The timestamp of the last event, and the host's clock at the last delivery.
        self._latest = 0.0
        self._wall = 0.0

    @classmethod
    def restore(
        cls,
        registry: Registry,
        instance_id: str,
        events: Sequence[Event],
        limits: Limits = DEFAULT_LIMITS,
        *,
        begun: bool = True,
        **options: Any,
    ) -> Instance:
        """Restores an instance from the full history of its current execution, with unread mail in its first event.

        Raises Blocked when its code is not deployed, or does not do what the history says it did.
        """
        instance = cls(registry, instance_id, limits, **options)
        started = events[0] if events else None
        if not isinstance(started, history.OrchestrationStarted):
            return instance
        instance.started = started
        instance._latest = events[-1].timestamp
        if type(events[-1]) in _ENDINGS:
            # An ended instance does not need its code, which may no longer be deployed.
            instance.ending = events[-1]
            return instance
        instance.begun = begun
        if isinstance(instance._answered, AnsweredIds):
            instance._answered.note(events)
        try:
            execution = instance._new_execution(started)
            if begun:
                execution.replay(events)
        except (UnknownOrchestration, NonDeterminism, NeverYields) as error:
            instance.close()
            raise Blocked(error) from error
        return instance

    @classmethod
    def rerun(
        cls,
        registry: Registry,
        instance_id: str,
        copy: Copy,
        now: float,
        limits: Limits = DEFAULT_LIMITS,
        *,
        seed: str,
        version: str | None = None,
        traceparent: str | None = None,
        **options: Any,
    ) -> tuple[Instance, TurnResult]:
        """Makes a new instance from a copied history: its events, and the effects that begin what has no answer yet.

        Raises UnknownOrchestration, InvalidRequest when the input does not fit the version, and Blocked when the code
        does not do what the copied events say.
        """
        source = copy.started
        definition = registry.orchestration(source.name, version or source.version)
        if not copy.copied:
            definition.input.check(source.input, "input")
        instance = cls(registry, instance_id, limits, **options)
        events = copy.events_for(instance_id, seed, definition, now, traceparent)
        started = events[0]
        assert isinstance(started, history.OrchestrationStarted)
        # Not below the times of the copied events, so that their timers are due when they were.
        instance._wall = instance._latest = max([now, *(event.timestamp for event in events[-1:])])
        delivery = TurnResult()
        try:
            execution = instance._new_execution(started)
            if copy.copied:
                delivery.events += events
                if isinstance(instance._answered, AnsweredIds):
                    instance._answered.note(events)
                execution.replay(events, copy)
                if execution.ended is None:
                    delivery.effects += execution.dispatched_again(copy)
            else:
                execution.begin()
            instance._collect(delivery, instance._latest)
            for group in copy.kept:
                if instance._execution is execution and instance.ending is None:
                    execution.repeat(group)
                    instance._collect(delivery, instance._latest)
        except (UnknownOrchestration, NonDeterminism, NeverYields) as error:
            instance.close()
            raise Blocked(error) from error
        if instance._mail_is_stored:
            first = next(place for place, event in enumerate(delivery.events) if event.seq == 1)
            delivery.events[first] = replace(started, unread=None)
            instance._mail = [*(Mail(**mail) for mail in started.unread or ()), *instance._mail]
        return instance, delivery

    @property
    def status(self) -> Status:
        if self.started is None:
            return Status.PENDING
        if self.ending is not None:
            return _ENDINGS[type(self.ending)]
        execution = self._execution
        if execution is not None and execution.suspended:
            return Status.SUSPENDED
        return Status.PENDING if execution is not None and execution.pending else Status.RUNNING

    @property
    def execution_id(self) -> int:
        return 0 if self.started is None else self.started.execution_id

    @property
    def custom_status(self) -> history.Json | None:
        """The value the code set last, as JSON text; None for an instance that had ended when it was restored."""
        return None if self._execution is None else self._execution.custom_status

    @property
    def next_moment(self) -> float | None:
        """The time at which the instance needs a delivery even if no message arrives."""
        execution = self._execution
        if execution is None or self.ending is not None:
            return None
        if execution.ended:
            return self._latest
        if not self.begun:
            return self._wall
        limit = next_limit(execution.started.deadline, execution.cancelled_at)
        moments = (execution.next_moment, None if limit is None else limit.moment)
        return min((moment for moment in moments if moment is not None), default=None)

    @property
    def waiting_for(self) -> list[Waiting]:
        """The calls, events and timers that the code awaits, the oldest first, up to the number that is shown."""
        if self._execution is None or self.ending is not None or not self.begun:
            return []
        return self._execution.waiting_for()

    @property
    def accepted(self) -> Sequence[Event]:
        """The recorded calls whose content differed on replay and which were accepted nevertheless."""
        return () if self._execution is None else self._execution.accepted

    @property
    def error(self) -> BaseException | None:
        """The exception that ended the code, while the instance is in memory."""
        return None if self._execution is None else self._execution.error

    @property
    def overran(self) -> bool:
        """Whether the instance failed because its code did not yield."""
        return isinstance(self.ending, history.OrchestrationFailed) and self.ending.error.kind == "never_yields"

    def has_request(self, request_id: str) -> bool:
        """Returns whether a request was received and the code can still answer it."""
        execution = self._execution
        return execution is not None and execution.ended is None and request_id in execution.requests

    def waits_for_activity(self, execution_id: int, scheduled_seq: int) -> bool:
        """Returns whether the code still waits for an activity; if not, its worker may stop it."""
        execution = self._execution
        if execution is None or execution.ended is not None or execution.execution_id != execution_id:
            return False
        return execution.commands.is_awaited(scheduled_seq)

    def activity_called(self, execution_id: int, scheduled_seq: int) -> history.ActivityScheduled | None:
        """Returns the call that an outcome belongs to, or None when it has an outcome already or does not exist."""
        if self._execution is None or self._execution.execution_id != execution_id:
            return None
        event = self._execution.commands.scheduled(scheduled_seq)
        return event if isinstance(event, history.ActivityScheduled) else None

    def fail(self, error: Exception, now: float) -> TurnResult:
        """Ends the instance with ``error``, even while its code waits."""
        delivery = TurnResult()
        if self._execution is not None and self.ending is None:
            self._latest = max(now, self._latest)
            if self.begun:
                self._execution.fail(self._latest, error, "error")
            else:
                self.begun = True
                self._execution.refuse(error, "error", is_recorded=True)
            self._collect(delivery, self._latest)
        return delivery

    def close(self) -> None:
        """Closes the event loop of the instance and releases its memory."""
        if self._execution is not None:
            self._execution.close()

    def __del__(self) -> None:
        # Otherwise the garbage collector would run the clean-up of the coroutines outside their loop.
        self.close()

    @property
    def unread_bytes(self) -> int:
        """The bytes of the unread mail in memory."""
        return 0 if self._execution is None else self._execution.mailboxes.unread.bytes

    def deliver(
        self, messages: Iterable[Message], now: float, *, fire_timers: bool = True, acknowledged: bool = False
    ) -> TurnResult:
        """Fires the timers that are due, then processes the messages in order.

        Without ``fire_timers`` timers wait for a later delivery, because the messages arrived before they were due.
        With ``acknowledged`` mail is not refused for lack of room, because its senders were told that it is saved.
        Raises Blocked when the code cannot continue; then no change of the delivery may be saved.
        """
        # Timestamps of the history never decrease, even when the clock is set back. Timers follow the clock.
        self._wall = now
        now = self._latest = max(now, self._latest)
        delivery = TurnResult()
        try:
            if self._execution is not None and self.ending is None:
                self._execution.wall = self._wall
                if not self.begun:
                    self.begun = True
                    self._execution.begin(is_recorded=True)
                elif fire_timers:
                    self._pass_time(delivery)
                self._collect(delivery, self._latest)
            for message in messages:
                assert self.begun, "messages wait until all executions that can go on have done so"
                reply = self._take(message, self._latest, acknowledged=acknowledged)
                self._collect(delivery, self._latest)
                if isinstance(message, Start) and message.event is not None and reply is Verdict.RECORDED:
                    reply = self._raise_at_start(delivery, message.event)
                delivery.replies.append(reply)
        except (NonDeterminism, UnknownOrchestration) as error:
            raise Blocked(error) from error
        if self._execution is not None and self._mail_is_stored:
            self._mail += self._execution.mailboxes.take_fresh(_FRESH_MAIL_BYTES)
        return delivery

    def take_mail(self) -> list[Mail]:
        """Returns, once, the unread mail that has to be stored outside the history of the current execution.

        That is mail from an execution that has ended, and mail that takes too much room in the history.
        """
        mail, self._mail = self._mail, []
        return mail

    def take_event_ids(self) -> list[str]:
        """Returns, once, the digests of the event ids that ended executions received."""
        ids, self._old_event_ids = self._old_event_ids, []
        return ids

    def _take(self, message: Message, now: float, *, acknowledged: bool = False) -> Reply:
        try:
            if isinstance(message, Start):
                return self._start(message, now)
            if self.started is None:
                raise NotFound(f"There is no orchestration {self.instance_id}.")
            if isinstance(message, Outcome):
                return self._outcome(message, now)
            if self._execution is None or self.ending is not None:
                raise OrchestrationEnded(f"The orchestration {self.instance_id} has ended.")
            if isinstance(message, RaiseEvent):
                return self._raise_event(self._execution, message, now, acknowledged)
            if isinstance(message, MakeRequest):
                return self._request(self._execution, message, now, acknowledged)
            return self._control(self._execution, message, now)
        except (Capacity, InvalidRequest, NotFound, OrchestrationEnded) as refusal:
            return refusal

    def _start(self, message: Start, now: float) -> Reply:
        if self.started is not None:
            return Verdict.DUPLICATE
        definition = self._registry.check_start(message.name, message.version, message.input)
        started = history.OrchestrationStarted(
            seq=1,
            execution_id=1,
            timestamp=now,
            name=definition.name,
            version=definition.version,
            input=message.input,
            seed=message.seed,
            parent=message.parent,
            mailboxes=sorted(definition.mailboxes),
            requests=sorted(definition.requests) or None,
            tags=message.tags or None,
            priority=message.priority or None,
            start_at=message.start_at if message.start_at is not None and message.start_at > now else None,
            deadline=definition.deadline(max(now, message.start_at or now)),
            traceparent=message.traceparent,
        )
        self._new_execution(started).begin()
        return Verdict.RECORDED

    def _raise_at_start(self, delivery: TurnResult, event: RaiseEvent) -> Reply:
        """Raises the event of the start that began this instance. An invalid event undoes the start."""
        reply = self._take(event, self._latest)
        self._collect(delivery, self._latest)
        if isinstance(reply, OrchestrationEnded):
            return Verdict.NO_SUBSCRIBER  # it has ended in its first step
        if isinstance(reply, HoldfastError):
            self.close()
            self._execution = self.started = self.ending = None
            delivery.events, delivery.effects = [], []
            self._mail, self._old_event_ids = [], []
        return reply

    def _outcome(self, message: Outcome, now: float) -> Reply:
        if message.execution_id != self.execution_id:
            return Verdict.OTHER_EXECUTION
        execution = self._execution
        if execution is None or self.ending is not None:
            return Verdict.DUPLICATE
        scheduled, completed, failed = _OUTCOMES[type(message)]
        if not execution.commands.is_open(message.scheduled_seq, scheduled):
            return Verdict.DUPLICATE if 1 <= message.scheduled_seq <= execution.last_seq else Verdict.NEVER_SCHEDULED
        if message.error is not None:
            reported = {} if (details := _details_of(message)) is None else {"heartbeat_details": details}
            execution.happen(now, failed, scheduled_seq=message.scheduled_seq, error=message.error, **reported)
        else:
            result = NULL if message.result is None else message.result
            execution.happen(now, completed, scheduled_seq=message.scheduled_seq, result=result)
        return Verdict.RECORDED

    def _raise_event(self, execution: Execution, message: RaiseEvent, now: float, acknowledged: bool) -> Reply:
        if message.event_id is not None and message.event_id in execution.event_ids:
            return Verdict.DUPLICATE
        scheduled_seq = None
        if message.name not in execution.mailboxes:
            subscription = execution.commands.subscription(message.name)
            if subscription is None or subscription.event is None:
                if execution.has_lost_mailbox(message.name):
                    raise undeclared_box(message.name)
                return Verdict.NO_SUBSCRIBER
            if subscription.codec is not None:
                # Rejected here, not raised where the code waits: one invalid event must not end an orchestration.
                subscription.codec.check(message.data, f"the event {message.name}")
            scheduled_seq = subscription.event.seq
        else:
            execution.definition.mailboxes.check(message.name, message.data)
            if not acknowledged:
                execution.mailboxes.unread.check_room(self.instance_id, message.data, self._limits)
        execution.happen(
            now,
            history.EventRaised,
            name=message.name,
            data=message.data,
            event_id=message.event_id,
            scheduled_seq=scheduled_seq,
            traceparent=message.traceparent,
        )
        return Verdict.RECORDED

    def _request(self, execution: Execution, message: MakeRequest, now: float, acknowledged: bool) -> Reply:
        if message.request_id in execution.requests or message.request_id in self._answered:
            return Verdict.DUPLICATE
        if not execution.requests.declares(message.name):
            if message.acknowledged and execution.has_lost_request(message.name):
                raise undeclared_box(request_box(message.name))
            raise NotFound(f"The orchestration {execution.definition.name} has no request {message.name}.")
        execution.definition.requests.check(message.name, message.data)
        if not acknowledged:
            execution.mailboxes.unread.check_room(self.instance_id, message.data, self._limits)
        execution.happen(
            now,
            history.RequestReceived,
            name=message.name,
            request_id=message.request_id,
            data=message.data,
            traceparent=message.traceparent,
        )
        return Verdict.RECORDED

    def _control(self, execution: Execution, message: Message, now: float) -> Reply:
        if isinstance(message, Cancel) and not execution.cancelling:
            execution.happen(now, history.CancelRequested, reason=message.reason)
        elif isinstance(message, Suspend) and not execution.suspended:
            execution.happen(now, history.OrchestrationSuspended, reason=message.reason)
        elif isinstance(message, Resume) and execution.suspended:
            execution.happen(now, history.OrchestrationResumed)
            # Timers that became due during the suspension.
            self._latest = execution.fire_timers(now)
        else:
            return Verdict.DUPLICATE
        return Verdict.RECORDED

    def _pass_time(self, delivery: TurnResult) -> None:
        """Fires the timers that are due. At its time limit the code is cancelled, or ended, in the order of time."""
        execution = self._execution
        assert execution is not None
        limit = next_limit(execution.started.deadline, execution.cancelled_at)
        if limit is None or limit.moment > self._wall:
            self._latest = execution.fire_timers(self._latest)
            return
        self._latest = execution.fire_timers(self._latest, limit.moment)
        self._collect(delivery, self._latest)
        # Other timers of before wait for the next turn, if this one is full, and the code may have ended.
        if self._execution is not execution or self.ending is not None or _is_due(execution.next_moment, limit.moment):
            return
        if limit.is_final:
            execution.end(self._latest, ended_at_limit())
        else:
            execution.happen(self._latest, history.CancelRequested, reason=TIME_IS_OVER, timed_out=True)
            self._latest = execution.fire_timers(self._latest)

    def _collect(self, delivery: TurnResult, now: float) -> None:
        """Moves the new events and effects of the execution into ``delivery``, and starts the next if it asked to."""
        idle = executions = inputs = 0
        cancel: history.CancelRequested | None = None
        while True:
            execution = self._execution
            if execution is None:
                return
            delivery.events += execution.events
            if isinstance(self._answered, AnsweredIds):
                self._answered.note(execution.events)
            delivery.effects += execution.effects
            execution.events, execution.effects = [], []
            if not isinstance(execution.ended, history.ContinuedAsNew):
                self.ending = execution.ended
                return
            idle = 0 if execution.mailboxes.has_received else idle + 1
            executions += 1
            # The input is stored twice: in the event that ends one execution and in the one that starts the next.
            inputs += 2 * stored_size(execution.ended.input)
            is_enough = executions == self._executions_at_once or inputs >= TURN_BYTES
            cancel = execution.unseen_cancel or cancel
            following = self._follow(execution, execution.ended, now)
            if idle > _MAX_IDLE_EXECUTIONS:
                following.refuse(
                    NeverYields("It continues as new again and again without waiting for anything."), "never_yields"
                )
            elif (
                idle == 0
                and cancel is None
                and self._executions_at_once is not None
                and is_enough
                # An invalid input fails the instance now. In a later turn it would be taken for changed code.
                and following.takes_its_input()
            ):
                self.begun = False
                delivery.events.append(following.started)
                return
            else:
                following.begin()
                if cancel is not None and following.ended is None:
                    following.happen(now, history.CancelRequested, reason=cancel.reason, timed_out=cancel.timed_out)
                    cancel = None

    def _follow(self, execution: Execution, ended: history.ContinuedAsNew, now: float) -> Execution:
        """Returns the next execution, which takes over the mailboxes of the ended one."""
        version = ended.version or execution.started.version
        definition = self._registry.orchestration(execution.started.name, version)
        mailboxes, fresh = execution.mailboxes.hand_on(boxes_of(definition), execution.left_mail)
        unread = None
        if self._mail_is_stored:
            self._mail += fresh
        else:
            unread = [mail.dump() for mail in mailboxes.waiting()] or None
        self._old_event_ids += self._event_ids.take_new()
        started = replace(
            execution.started,
            execution_id=execution.execution_id + 1,
            timestamp=now,
            input=ended.input,
            version=version,
            mail=mailboxes.mark(),
            unread=unread,
            mailboxes=sorted({*definition.mailboxes, *(execution.started.mailboxes or ())}),
            requests=sorted({*definition.requests, *(execution.started.requests or ())}) or None,
            tags=execution.tags.recorded or None,
            start_at=None,
            # Only for the seed of its random numbers.
            origins=[[*execution.started.origins[0][:2], 0]] if execution.started.origins else None,
        )
        return self._new_execution(started, mailboxes, execution.requests.hand_on(mailboxes))

    def _new_execution(
        self,
        started: history.OrchestrationStarted,
        mailboxes: Mailboxes | None = None,
        requests: Requests | None = None,
    ) -> Execution:
        definition = self._registry.orchestration(started.name, started.version)
        self.started = started
        self._execution = Execution(
            self._registry,
            definition,
            self.instance_id,
            started,
            self._limits,
            mailboxes=mailboxes,
            requests=requests,
            event_ids=self._event_ids,
        )
        self._execution.wall = self._wall
        return self._execution


def _details_of(message: Outcome) -> history.Json | None:
    return message.heartbeat_details if isinstance(message, ActivityOutcome) else None


def _is_due(moment: float | None, by: float) -> bool:
    return moment is not None and moment <= by


_ENDINGS: dict[type[Event], Status] = {
    history.OrchestrationCompleted: Status.COMPLETED,
    history.OrchestrationFailed: Status.FAILED,
    history.OrchestrationCancelled: Status.CANCELLED,
}
_BLOCKED_BY: dict[type[HoldfastError], str] = {
    UnknownOrchestration: "missing_orchestration",
    NonDeterminism: "non_determinism",
    NeverYields: "never_yields",
}
_OUTCOMES: dict[type[Message], tuple[type[Event], type[Event], type[Event]]] = {
    ActivityOutcome: (history.ActivityScheduled, history.ActivityCompleted, history.ActivityFailed),
    SubOrchestrationOutcome: (
        history.SubOrchestrationScheduled,
        history.SubOrchestrationCompleted,
        history.SubOrchestrationFailed,
    ),
}
