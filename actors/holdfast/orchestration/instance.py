"""An instance: its executions one after the other. Messages and the present moment in, new history and effects out."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias

from holdfast.errors import HoldfastError, InvalidRequest, NeverYields, NonDeterminism, NotFound, OrchestrationEnded
from holdfast.orchestration import history
from holdfast.orchestration.execution import Execution
from holdfast.orchestration.limits import DEFAULT_LIMITS, Limits
from holdfast.orchestration.messages import (
    ActivityOutcome,
    Cancel,
    Message,
    Outcome,
    RaiseEvent,
    Resume,
    Start,
    SubOrchestrationOutcome,
    Suspend,
)
from holdfast.orchestration.payloads import NULL

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.orchestration.effects import Effect
    from holdfast.orchestration.failures import Kind
    from holdfast.orchestration.history import Event
    from holdfast.orchestration.registry import Registry

# An orchestration that continues as new at once, again and again, is one that never waits.
_MAX_IDLE_EXECUTIONS = 100
# Of the ids of events that are taken from one execution to the next.
_EVENT_IDS_KEPT = 100


class Status(StrEnum):
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUSPENDED = "SUSPENDED"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


class Verdict(StrEnum):
    """What became of a message. Only what was recorded changed anything."""

    RECORDED = "recorded"
    DUPLICATE = "duplicate"
    OTHER_EXECUTION = "other execution"
    NOBODY_WAITS = "nobody waits"
    NEVER_SCHEDULED = "never scheduled"


Reply: TypeAlias = Verdict | HoldfastError


@dataclass(slots=True)
class Delivery:
    """What a delivery changed: to be saved in one transaction, before anything of it is told to anybody."""

    events: list[Event] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    #: One for each message, in their order.
    replies: list[Reply] = field(default_factory=list)


class Instance:
    """One instance in memory, its code kept where it waits.

    When what a delivery changed could not be saved, or when a delivery raised, it is dropped with :meth:`close`, and
    built again from the history that was saved.
    """

    def __init__(self, registry: Registry, instance_id: str, limits: Limits = DEFAULT_LIMITS) -> None:
        self.instance_id = instance_id
        #: How its present execution began: name, version, input, parent.
        self.started: history.OrchestrationStarted | None = None
        #: How it ended: with output, error or reason.
        self.ending: Event | None = None
        self._registry = registry
        self._limits = limits
        self._execution: Execution | None = None
        self._broken: NonDeterminism | NeverYields | None = None
        self._latest = 0.0

    @classmethod
    def restore(
        cls, registry: Registry, instance_id: str, events: Sequence[Event], limits: Limits = DEFAULT_LIMITS
    ) -> Instance:
        """From the whole history of its present execution.

        Raises UnknownOrchestration when its code is not here. Code that no longer fits its history fails the instance
        at the next delivery.
        """
        instance = cls(registry, instance_id, limits)
        started = events[0] if events else None
        if not isinstance(started, history.OrchestrationStarted):
            return instance
        instance.started = started
        instance._latest = events[-1].timestamp
        if type(events[-1]) in _ENDINGS:
            # Nobody needs its code any more, which may be gone.
            instance.ending = events[-1]
            return instance
        execution = instance._new_execution(started)
        try:
            execution.replay(events)
        except (NonDeterminism, NeverYields) as error:
            instance._broken = error
        return instance

    @property
    def status(self) -> Status:
        if self.started is None:
            return Status.PENDING
        if self.ending is not None:
            return _ENDINGS[type(self.ending)]
        return Status.SUSPENDED if self._execution is not None and self._execution.suspended else Status.RUNNING

    @property
    def execution_id(self) -> int:
        return 0 if self.started is None else self.started.execution_id

    @property
    def custom_status(self) -> history.Json | None:
        """What the code set last; not known of one that had ended when it was restored."""
        return None if self._execution is None else self._execution.custom_status

    @property
    def next_moment(self) -> float | None:
        """When it wants a delivery even if there is no message."""
        if self._execution is None or self.ending is not None:
            return None
        if self._broken or self._execution.ended:
            return self._latest
        return self._execution.next_moment

    def waits_for_activity(self, execution_id: int, scheduled_seq: int) -> bool:
        """Whether somebody still wants the result; if not, whoever runs the activity may stop."""
        execution = self._execution
        if execution is None or execution.ended is not None or execution.execution_id != execution_id:
            return False
        return execution.commands.is_awaited(scheduled_seq)

    def activity_called(self, execution_id: int, scheduled_seq: int) -> history.ActivityScheduled | None:
        """The call that an outcome is for, when there is none yet."""
        if self._execution is None or self._execution.execution_id != execution_id:
            return None
        event = self._execution.commands.scheduled(scheduled_seq)
        return event if isinstance(event, history.ActivityScheduled) else None

    def close(self) -> None:
        """Takes it out of memory."""
        if self._execution is not None:
            self._execution.close()

    def __del__(self) -> None:
        # Coroutines that are left to the garbage collector would run their clean-up there, outside of their loop.
        self.close()

    def deliver(self, messages: Iterable[Message], now: float) -> Delivery:
        """Timers that are due fire first, then the messages are taken in their order."""
        # A clock that was put back must not put back the history.
        now = self._latest = max(now, self._latest)
        delivery = Delivery()
        if self._execution is not None and self.ending is None:
            if self._broken is not None:
                kind: Kind = "never_yields" if isinstance(self._broken, NeverYields) else "non_determinism"
                self._execution.fail(now, self._broken, kind)
                self._broken = None
            else:
                self._execution.fire_timers(now)
            self._collect(delivery, now)
        for message in messages:
            delivery.replies.append(self._take(message, now))
            self._collect(delivery, now)
        return delivery

    def _take(self, message: Message, now: float) -> Reply:
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
                return self._raise_event(self._execution, message, now)
            return self._control(self._execution, message, now)
        except (InvalidRequest, NotFound, OrchestrationEnded) as refusal:
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
        )
        self._new_execution(started).begin()
        return Verdict.RECORDED

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
            execution.happen(now, failed, scheduled_seq=message.scheduled_seq, error=message.error)
        else:
            result = NULL if message.result is None else message.result
            execution.happen(now, completed, scheduled_seq=message.scheduled_seq, result=result)
        return Verdict.RECORDED

    def _raise_event(self, execution: Execution, message: RaiseEvent, now: float) -> Reply:
        if message.event_id is not None and message.event_id in execution.event_ids:
            return Verdict.DUPLICATE
        scheduled_seq = None
        if message.name not in execution.mailboxes:
            subscription = execution.commands.subscription(message.name)
            if subscription is None or subscription.event is None:
                return Verdict.NOBODY_WAITS
            if subscription.codec is not None:
                # Refused, not raised where it is awaited: one wrong event must not be the end of an orchestration.
                subscription.codec.check(message.data, f"the event {message.name}")
            scheduled_seq = subscription.event.seq
        execution.happen(
            now,
            history.EventRaised,
            name=message.name,
            data=message.data,
            event_id=message.event_id,
            scheduled_seq=scheduled_seq,
        )
        return Verdict.RECORDED

    def _control(self, execution: Execution, message: Message, now: float) -> Reply:
        if isinstance(message, Cancel) and not execution.cancelling:
            execution.happen(now, history.CancelRequested, reason=message.reason)
        elif isinstance(message, Suspend) and not execution.suspended:
            execution.happen(now, history.OrchestrationSuspended, reason=message.reason)
        elif isinstance(message, Resume) and execution.suspended:
            execution.happen(now, history.OrchestrationResumed)
            # What fell due meanwhile.
            execution.fire_timers(now)
        else:
            return Verdict.DUPLICATE
        return Verdict.RECORDED

    def _collect(self, delivery: Delivery, now: float) -> None:
        """Takes what is new from the execution, and begins the next when it asked for that."""
        idle = 0
        while True:
            execution = self._execution
            if execution is None:
                return
            delivery.events += execution.events
            delivery.effects += execution.effects
            execution.events, execution.effects = [], []
            if not isinstance(execution.ended, history.ContinuedAsNew):
                self.ending = execution.ended
                return
            before = execution.started
            unread = execution.mailboxes.empty()
            idle = 0 if len(unread) < len(before.unread or ()) else idle + 1
            following = self._new_execution(_following(execution, execution.ended, unread, now))
            if idle <= _MAX_IDLE_EXECUTIONS:
                following.begin()
            else:
                following.refuse(
                    NeverYields("It continues as new again and again without waiting for anything."), "never_yields"
                )

    def _new_execution(self, started: history.OrchestrationStarted) -> Execution:
        definition = self._registry.orchestration(started.name, started.version)
        self.started = started
        self._execution = Execution(self._registry, definition, self.instance_id, started, self._limits)
        return self._execution


def _following(
    execution: Execution, ended: history.ContinuedAsNew, unread: list[dict[str, Any]], now: float
) -> history.OrchestrationStarted:
    return replace(
        execution.started,
        execution_id=execution.execution_id + 1,
        timestamp=now,
        input=ended.input,
        unread=unread or None,
        event_ids=list(execution.event_ids)[-_EVENT_IDS_KEPT:] or None,
    )


_ENDINGS: dict[type[Event], Status] = {
    history.OrchestrationCompleted: Status.COMPLETED,
    history.OrchestrationFailed: Status.FAILED,
    history.OrchestrationCancelled: Status.CANCELLED,
}
_OUTCOMES: dict[type[Message], tuple[type[Event], type[Event], type[Event]]] = {
    ActivityOutcome: (history.ActivityScheduled, history.ActivityCompleted, history.ActivityFailed),
    SubOrchestrationOutcome: (
        history.SubOrchestrationScheduled,
        history.SubOrchestrationCompleted,
        history.SubOrchestrationFailed,
    ),
}
