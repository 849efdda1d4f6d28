"""An instance in memory: its stored record, and its code suspended where it waits."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from holdfast.errors import (
    Capacity,
    HoldfastError,
    NotFound,
    OrchestrationEnded,
    StorageBroken,
    Unavailable,
    UnknownOrchestration,
)
from holdfast.kinds import ENDING
from holdfast.logs import about, code_fields, counted
from holdfast.orchestration.actor.arrival_checks import check_arrival, is_mailbox
from holdfast.orchestration.actor.inbox_mail import InboxMail
from holdfast.orchestration.actor.instance_trace import InstanceTrace
from holdfast.orchestration.actor.open_requests import open_requests
from holdfast.orchestration.core.effects import RunActivity, StartSubOrchestration
from holdfast.orchestration.core.event_ids import EventIds, digest
from holdfast.orchestration.core.history import ActivityScheduled, EventRaised, OrchestrationFailed, RequestAnswered
from holdfast.orchestration.core.instance import Blocked, Instance, Verdict
from holdfast.orchestration.core.limits import TURN_BYTES
from holdfast.orchestration.core.messages import (
    ActivityOutcome,
    Cancel,
    MakeRequest,
    Outcome,
    RaiseEvent,
    Resume,
    Start,
    Suspend,
)
from holdfast.orchestration.core.outcome import cancelled_without_code, timed_out_without_code
from holdfast.orchestration.core.replay import unanswered
from holdfast.orchestration.storage.replies import StoredAnswer
from holdfast.runtime.metrics import UNDECLARED, outcome_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.orchestration.core.effects import Effect
    from holdfast.orchestration.core.history import Event
    from holdfast.orchestration.core.instance import Reply, TurnResult
    from holdfast.orchestration.core.messages import Message
    from holdfast.orchestration.registry import Registry
    from holdfast.orchestration.storage.record import InstanceRecord
    from holdfast.runtime.metrics import Metrics
    from holdfast.runtime.unit_of_work import Turn

log = logging.getLogger(__name__)

# Executions that received mail and continued as new, after which a turn is saved.
_EXECUTIONS_AT_ONCE = 50
# Messages of the inbox, after which a turn is saved. More than one turn adds, so that the inbox empties.
_MESSAGES_AT_ONCE = 400


class TurnFull(Exception):
    """Raised when a message has to wait for the next turn, because this one has enough to save."""


class LoadedInstance:
    """The stored record of an instance, and its code suspended where it waits."""

    def __init__(
        self,
        record: InstanceRecord,
        registry: Registry,
        metrics: Metrics,
        now: Callable[[], float],
        *,
        tenant: str,
        restored: bool,
    ) -> None:
        self.record = record
        self._tenant = tenant
        #: The fields of log lines that are about it.
        self.about = {"instance_id": record.instance_id, "tenant": tenant}
        #: Whether the instance was loaded from the store, as opposed to new.
        self.restored = restored
        #: For an instance loaded after its end: the index entry that was written before, or that recovery writes.
        self.left_to_recovery = (record.listing,) if restored and record.ended else None
        self._registry = registry
        self._metrics = metrics
        self._now = now
        self._instance: Instance | None = None
        #: Whether a replay since it was loaded has found that its code does not fit.
        self._does_not_fit = False
        #: While its code is not in memory: its calls without a recorded result, and the results in its inbox.
        self._unanswered: set[int] | None = None
        self._answered: set[tuple[int, int]] | None = None
        #: The requests in its inbox, and if it is BLOCKED those that its history leaves open.
        self._requested: set[str] | None = None
        #: The events and requests in its inbox.
        self._inbox_mail: InboxMail | None = None
        #: Requests that were answered in this turn.
        self.answered: list[str] = []
        #: The incarnation whose start was counted, and whether its end was.
        self._counted = (record.seed, record.ended)
        #: The name, outcome and duration of activities whose outcome is not saved yet, and the names of retried ones.
        self._latencies: list[tuple[str, str, float]] = []
        self._retried: list[str] = []
        #: Log records to write when this turn is saved.
        self._to_be_logged: list[tuple[int, str, tuple[object, ...], str | None]] = []
        #: The spans to make when this turn is saved.
        self._trace = InstanceTrace(record, tenant)

    @property
    def needs_indexing(self) -> bool:
        return self.record.needs_indexing and self.left_to_recovery != (self.record.listing,)

    @property
    def owes(self) -> bool:
        """Whether the outbox is not empty or the index entry is outdated."""
        return bool(self.record.outbox) or self.needs_indexing

    @property
    def payload_size(self) -> int:
        """The size of the input and of the unread mail in memory."""
        if self._instance is None or self._instance.started is None:
            return 0
        return len(self._instance.started.input or "") + self._instance.unread_bytes

    @property
    def settled(self) -> bool:
        return self.record.settled and not self.goes_on and not self.needs_indexing

    @property
    def goes_on(self) -> bool:
        """Whether the next turn is due now: an execution has yet to begin, or the inbox has to be delivered."""
        record = self.record
        if not record.exists or record.ended or record.blocking.reason is not None:
            return False
        return not record.begun or record.blocking.delivering

    @property
    def options(self) -> dict[str, Any]:
        """The options of :class:`Instance` for an instance whose mail and replies are stored."""
        return {
            "answered": self.record.replies,
            "mail_is_stored": True,
            "executions_at_once": _EXECUTIONS_AT_ONCE,
        }

    def is_another(self, incarnation: str | None) -> bool:
        """Returns whether a message with this incarnation is meant for an earlier instance with the same id."""
        return incarnation is not None and self.record.exists and incarnation != self.record.seed

    # Code

    async def bring_back(self, turn: Turn, *, again: bool = False, deliver: bool = True) -> Instance | None:
        """Returns the instance with its code, replayed if necessary; None when it is BLOCKED.

        With ``again`` code that did not fit is tried once more. Without ``deliver`` messages that arrived while the
        instance was BLOCKED stay in the inbox.
        """
        if self._instance is not None or (self._does_not_fit and not again):
            return self._instance
        record = self.record
        events = await turn.drive(record.history())
        if events:
            self._metrics.replays.labels(record.name).inc()
        event_ids = EventIds(await turn.drive(record.event_ids()))
        await turn.drive(record.replies.load())
        was_blocked = record.blocking.reason is not None
        # Read before anything changes: a read error leaves the instance BLOCKED, and is retried.
        kept = await turn.drive(record.blocking.inbox.first()) if was_blocked else []
        try:
            with code_fields(self.about):
                self._instance = Instance.restore(
                    self._registry, record.instance_id, events, begun=record.begun, event_ids=event_ids, **self.options
                )
        except Blocked as blocked:
            self._block(blocked)
            return None
        if accepted := record.blocking.accept(self._instance.accepted):
            self._log(
                logging.WARNING,
                "orchestration %s: input or due time differs from the history in %s, the first at event %d (%s); "
                "the recorded results are used",
                *(record.instance_id, counted(len(accepted), "call")),
                *(accepted[0].seq, getattr(accepted[0], "name", "a timer")),
            )
        self._unanswered = None
        if was_blocked:
            if not deliver:
                record.blocking.go_on()
            elif kept:
                await self._deliver_kept(turn, kept)
            else:
                self._deliver([])
            if self._instance is not None:
                self._does_not_fit = False
                self._requested = None
        return self._instance

    def _block(self, blocked: Blocked) -> None:
        record = self.record
        if not record.exists:
            # Nothing is stored that could be marked as BLOCKED.
            raise Unavailable(str(blocked))
        self.forget_instance()
        self._does_not_fit = True
        self._unanswered = self._answered = self._requested = None
        if record.block(blocked.reason, self._now()):
            # Without the message of the reason, which may contain inputs.
            self._log(
                logging.WARNING,
                "orchestration %s is BLOCKED (%s): the deployed code cannot continue it; its status has the reason. "
                "It continues when code that fits is deployed",
                *(record.instance_id, blocked.reason["kind"]),
            )

    async def _deliver_kept(self, turn: Turn, messages: Sequence[Message]) -> None:
        """Delivers ``messages``, the first of the inbox, and further messages up to the limit of a turn.

        Timers that became due meanwhile fire after all of them, as after a suspension: an approval that arrived and
        was acknowledged in time must not be too late because the code was not deployed.
        """
        inbox = self.record.blocking.inbox
        left = _MESSAGES_AT_ONCE
        with suppress(TurnFull):
            suspension = self.record.blocking.suspension
            if suspension is not None and await self._begun():
                self._deliver([suspension], fire_timers=False)
        while messages and left > 0:
            taken = await self._deliver_in_order(messages[:left])
            inbox.taken(taken)
            left -= taken
            if taken < len(messages):
                return
            messages = await turn.drive(inbox.first())

    async def _deliver_in_order(self, messages: Sequence[Message]) -> int:
        """Delivers messages. Returns how many were delivered before the turn was full or the instance was BLOCKED."""
        taken = 0
        with suppress(TurnFull):
            while taken < len(messages) and self.record.unsaved_bytes < TURN_BYTES and await self._begun():
                message, blocking = messages[taken], self.record.blocking
                overruled = blocking.is_overruled(message)
                replies = [] if overruled else self._deliver([message], fire_timers=False, acknowledged=True)
                if replies is None:
                    break
                blocking.delivered(message)
                self._refuse_requests(message, replies)
                # A suspend without effect was cancelled by a resume, which is no reason to warn.
                if any(isinstance(reply, HoldfastError) for reply in replies) and not isinstance(
                    message, Suspend | Resume
                ):
                    # The sender has received its reply already, so the message is only logged.
                    log.warning(
                        "orchestration %s rejects a message that arrived while it was BLOCKED (%s); dropped",
                        *(self.record.instance_id, type(message).__name__),
                    )
                taken += 1
        return taken

    def _refuse_requests(self, message: Message, replies: Sequence[Reply]) -> None:
        """Answers an acknowledged request that is refused, because its sender is still waiting for a reply."""
        for reply in replies:
            if isinstance(message, MakeRequest) and isinstance(reply, HoldfastError) and not self.record.ended:
                refusal = StoredAnswer(rejected=reply.message, error_code=reply.code)
                self.record.unsaved_bytes += self.record.replies.add(message.request_id, refusal)
                self.answered.append(message.request_id)

    def _deliver(
        self, messages: Sequence[Message], *, fire_timers: bool = True, acknowledged: bool = False
    ) -> list[Reply] | None:
        """Delivers messages and returns the replies; None when the code does not fit and the instance is BLOCKED."""
        instance = self._instance
        assert instance is not None
        now = self._now()
        called = {
            place: instance.activity_called(message.execution_id, message.scheduled_seq)
            for place, message in enumerate(messages)
            if isinstance(message, ActivityOutcome)
        }
        try:
            with code_fields(self.about):
                delivery = instance.deliver(messages, now, fire_timers=fire_timers, acknowledged=acknowledged)
        except Blocked as blocked:
            self._block(blocked)
            return None
        self._retried += [
            event.name for event in delivery.events if isinstance(event, ActivityScheduled) and event.attempt > 1
        ]
        if self.record.blocking.reason is not None:
            self.record.blocking.go_on()
            self._log(logging.INFO, "orchestration %s is no longer BLOCKED and continues", instance.instance_id)
        self._add(instance, delivery, now)
        for place, (message, reply) in enumerate(zip(messages, delivery.replies, strict=True)):
            call = called.get(place)
            if reply is Verdict.NEVER_SCHEDULED:
                self._metrics.unscheduled.inc()
                log.warning("orchestration %s: completion of a call it never made; ignored", instance.instance_id)
            elif call is not None and isinstance(message, ActivityOutcome) and reply is Verdict.RECORDED:
                outcome = outcome_of(None if message.error is None else message.error.kind)
                self._latencies.append((call.name, outcome, max(0.0, now - call.timestamp)))
        return delivery.replies

    def adopt(self, instance: Instance, delivery: TurnResult) -> None:
        """Takes over a new instance with its first events and effects."""
        self.forget_instance()
        self._instance = instance
        self._add(instance, delivery, self._now())

    def _add(self, instance: Instance, delivery: TurnResult, now: float) -> None:
        self._note_overrun(instance, now)
        self._note_failure(delivery.events)
        self.record.add_turn(instance, delivery.events, delivery.effects, now)
        self._trace.note(delivery.events)
        self.answered += [event.request_id for event in delivery.events if isinstance(event, RequestAnswered)]
        self._note_retention(delivery.effects)

    def _note_retention(self, effects: Sequence[Effect]) -> None:
        retention = self.record.retention
        with suppress(UnknownOrchestration):  # a start that was refused
            retention.seconds = self._registry.orchestration(self.record.name, self.record.version).retention_seconds
        retention.has_records = retention.has_records or any(
            isinstance(effect, RunActivity) and self._registry.may_have_record(effect.name) for effect in effects
        )

    def _note_failure(self, events: Sequence[Event]) -> None:
        if events and isinstance(failed := events[-1], OrchestrationFailed):
            failure = failed.error
            # Without the message, which may contain payloads.
            self._log(
                logging.WARNING,
                "orchestration %s failed with %s (%s); its status has the message",
                *(self.record.instance_id, failure.type, failure.kind),
                trace=failure.trace(),
            )

    def _note_overrun(self, instance: Instance, now: float) -> None:
        if instance.started is not None:
            runaways = self._registry.runaways
            note = runaways.overran if instance.overran else runaways.yielded
            note(self._tenant, instance.started.name, instance.started.version, now)

    def check_start(self, name: str, version: str | None) -> None:
        """Raises StartsRefused for a new instance of an orchestration whose last instances did not yield."""
        if not self.record.exists:
            with suppress(UnknownOrchestration):  # rejected when the start is delivered
                definition = self._registry.orchestration(name, version)
                self._registry.runaways.check_start(self._tenant, definition, self._now())

    def note_waiting(self) -> None:
        """Records what the code awaits. While it is BLOCKED, what it awaited before stays recorded."""
        if self._instance is not None:
            self.record.waiting_for = [one.dump() for one in self._instance.waiting_for]

    # Messages

    async def deliver(self, turn: Turn, message: Message) -> Reply:
        if self.record.ended:
            # Handled without its code, which may no longer be deployed.
            if isinstance(message, Start) and message.parent is not None and message.parent == self.record.parent:
                # The parent starts it again, so it may have missed the notification: send it once more.
                [ending] = await turn.drive(self.record.values(ENDING))
                self.record.notify_parent(ending, self._now())
            if isinstance(message, Start | Outcome):
                return Verdict.DUPLICATE
            if isinstance(message, RaiseEvent) and await self._was_raised(turn, message.event_id):
                return Verdict.DUPLICATE
            raise OrchestrationEnded(f"The orchestration {self.record.instance_id} has ended.")
        if not self.record.exists and not isinstance(message, Start):
            raise NotFound(f"There is no orchestration {self.record.instance_id}.")
        instance = await self.bring_back(turn)
        if instance is not None and self.record.blocking.inbox.empty and await self._begun():
            replies = self._deliver([message])
            if replies is not None:
                return replies[0]
        if isinstance(message, Start):
            return Verdict.DUPLICATE
        if isinstance(message, Cancel) and self._instance is None:
            await self._end_without_code(turn, message)
        else:
            if isinstance(message, MakeRequest):
                if await self.has_request(turn, message.request_id):
                    return Verdict.DUPLICATE
                message = replace(message, acknowledged=True)
            await check_arrival(turn, self.record, self._registry, message)
            if not await self._has_room(turn, message):
                return Verdict.DUPLICATE
            self._keep(message)
        return Verdict.RECORDED

    async def _has_room(self, turn: Turn, message: Message) -> bool:
        """Returns False for an event without room that repeats an earlier one. Raises Capacity for any other."""
        if not isinstance(message, RaiseEvent | MakeRequest):
            return True
        inbox = self.record.blocking.inbox
        if self._inbox_mail is None or inbox.empty:
            self._inbox_mail = InboxMail(await turn.drive(inbox.all()))
        try:
            self._inbox_mail.check_room(self.record.instance_id, message)
        except Capacity:
            event_id = message.event_id if isinstance(message, RaiseEvent) else None
            if self._inbox_mail.has_event(event_id) or await self._was_raised(turn, event_id):
                return False
            raise
        return True

    async def has_request(self, turn: Turn, request_id: str) -> bool:
        """Returns whether a request was received and has no reply yet."""
        instance = await self.bring_back(turn)
        if instance is not None and (self.record.blocking.inbox.empty or instance.has_request(request_id)):
            return instance.has_request(request_id)
        if self._requested is None:
            self._requested = await open_requests(turn, self.record, with_history=instance is None)
        return request_id in self._requested

    async def is_delivered(self, turn: Turn, event: RaiseEvent, reply: Reply) -> bool:
        """Returns whether an event with this reply reached a mailbox, or code that waits for it."""
        if isinstance(reply, HoldfastError) or reply is Verdict.NO_SUBSCRIBER:
            return False
        if not self.record.ended and not self.record.blocking.inbox.empty:
            # It is in the inbox. Whether code will wait for it when it is delivered is not known yet.
            return await is_mailbox(turn, self.record, self._registry, event.name)
        return True

    async def _begun(self) -> bool:
        """Runs the first steps of executions that have yet to begin. Returns False when the instance is BLOCKED."""
        while self._instance is not None and not self._instance.begun:
            # Messages are delivered after that, to the execution that waits for them.
            if self.record.unsaved_bytes >= TURN_BYTES:
                raise TurnFull
            self._deliver([])
            await asyncio.sleep(0)
        return self._instance is not None

    def _keep(self, message: Message) -> None:
        """Adds a message to the inbox, to be delivered after the earlier ones when the code fits."""
        self.record.unsaved_bytes += self.record.blocking.keep(message)
        if self._inbox_mail is not None:
            self._inbox_mail.add(message)
        if self._answered is not None and isinstance(message, Outcome):
            self._answered.add((message.execution_id, message.scheduled_seq))
        if self._requested is not None and isinstance(message, MakeRequest):
            self._requested.add(message.request_id)
        if isinstance(message, Suspend | Resume):
            self.record.blocking.suspend(isinstance(message, Suspend))

    async def _end_without_code(self, turn: Turn, cancel: Cancel | None) -> None:
        """Ends a BLOCKED instance: it was cancelled, or without ``cancel`` its time is over."""
        events = await turn.drive(self.record.history())
        await turn.drive(self.record.replies.load())
        now = max(self._now(), events[-1].timestamp)
        instance_id = self.record.instance_id
        ended = (
            timed_out_without_code(instance_id, events, now)
            if cancel is None
            else cancelled_without_code(instance_id, events, cancel.reason, now)
        )
        self._note_failure(ended[0])
        self.record.end(*ended, now)
        self._trace.note(ended[0])

    async def _was_raised(self, turn: Turn, event_id: str | None) -> bool:
        """Returns whether an event with this id was received before, so that raising it again is a repeat."""
        if event_id is None:
            return False
        events = await turn.drive(self.record.history())
        if any(isinstance(event, EventRaised) and event.event_id == event_id for event in events):
            return True
        return digest(event_id) in await turn.drive(self.record.event_ids())

    async def awaits(self, turn: Turn, execution_id: int, scheduled_seq: int) -> bool:
        """Returns whether the result of an activity is still needed; for a BLOCKED instance, according to history."""
        instance = await self.bring_back(turn)
        if instance is not None:
            waits = instance.waits_for_activity(execution_id, scheduled_seq)
        else:
            await self._read_unanswered(turn)
            waits = self._is_unanswered(execution_id, scheduled_seq)
        if not waits or self.record.blocking.inbox.empty:
            return waits
        await self._read_answered(turn)
        return not self._is_answered(execution_id, scheduled_seq)

    async def prepare_outbox(self, turn: Turn) -> None:
        """Reads which children of a stored outbox have ended. They may be deleted, and would be started once more."""
        if self.record.outbox.starts_children and not self.record.ended:
            with suppress(StorageBroken):  # raised again where the code is needed
                await self._read_unanswered(turn)
                await self._read_answered(turn)

    async def _read_unanswered(self, turn: Turn) -> None:
        if self._unanswered is None:
            self._unanswered = {event.seq for event in unanswered(await turn.drive(self.record.history()))}

    async def _read_answered(self, turn: Turn) -> None:
        if self._answered is None:
            kept = await turn.drive(self.record.blocking.inbox.all())
            outcomes = [message for message in kept if isinstance(message, Outcome)]
            self._answered = {(outcome.execution_id, outcome.scheduled_seq) for outcome in outcomes}

    def _is_unanswered(self, execution_id: int, scheduled_seq: int) -> bool:
        """Returns whether a call has no recorded result; True if that is not known."""
        if self._unanswered is None:
            return True
        return execution_id == self.record.execution_id and scheduled_seq in self._unanswered

    def _is_answered(self, execution_id: int, scheduled_seq: int) -> bool:
        """Returns whether the result of a call is in the inbox; False if that is not known."""
        return self._answered is not None and (execution_id, scheduled_seq) in self._answered

    # Timers and recovery

    async def go_on(self, turn: Turn) -> None:
        """Fires due timers, retries BLOCKED code, and delivers the inbox."""
        moment, now = self.record.next_moment, self._now()
        is_due = moment is not None and moment <= now
        if not (is_due or self.record.blocking.delivering):
            return
        was_blocked = self.record.blocking.reason is not None
        if await self.bring_back(turn, again=True) is None:
            if self.record.deadline is not None and self.record.deadline <= now:
                await self._end_without_code(turn, None)
            return
        if was_blocked:
            return
        if self.record.blocking.delivering:
            await self._deliver_kept(turn, await turn.drive(self.record.blocking.inbox.first()))
        else:
            self._deliver([])

    def saved(self) -> None:
        """Records metrics and writes the log records of the saved turn."""
        self.answered = []
        latencies, self._latencies = self._latencies, []
        for called, outcome, seconds in latencies:
            name = self._label(called)
            self._metrics.activity_outcomes.labels(name, outcome).inc()
            self._metrics.activities.labels(name, "completed" if outcome == "completed" else "failed").observe(seconds)
        retried, self._retried = self._retried, []
        for called in retried:
            self._metrics.activity_retries.labels(self._label(called)).inc()
        self._count_start_and_end()
        self._trace.saved()
        lines, self._to_be_logged = self._to_be_logged, []
        for level, message, arguments, trace in lines:
            log.log(level, message, *arguments, extra=about(trace, **self.about))

    def _label(self, activity: str) -> str:
        return UNDECLARED if self._registry.activity(activity) is None else activity

    def _count_start_and_end(self) -> None:
        record = self.record
        counted, self._counted = self._counted, (record.seed, record.ended)
        if counted == self._counted or not record.exists:
            return
        name = record.name if self._registry.has_orchestration(record.name) else UNDECLARED
        if counted[0] != record.seed:
            self._metrics.started.labels(name).inc()
        if record.ended:
            self._metrics.ended.labels(name, record.status.lower()).inc()

    def _log(self, level: int, message: str, *arguments: object, trace: str | None = None) -> None:
        self._to_be_logged.append((level, message, arguments, trace))

    async def fail(self, turn: Turn, error: Exception) -> None:
        """Ends the instance, unless it has ended, does not exist, or its code does not fit."""
        if self.record.exists and not self.record.ended:
            now = self._now()
            # Without delivering the inbox: its messages may have caused the step that failed.
            instance = await self.bring_back(turn, again=True, deliver=False)
            if instance is None:
                return  # BLOCKED: its code took no step
            with code_fields(self.about):
                delivery = instance.fail(error, now)
            self._note_failure(delivery.events)
            self.record.add_turn(instance, delivery.events, delivery.effects, now)
            self._trace.note(delivery.events)

    def wanted(self, effect: Effect) -> bool:
        """Returns whether an effect still has to be sent: not if its call has a result or was withdrawn."""
        if not isinstance(effect, RunActivity | StartSubOrchestration):
            return True
        if isinstance(effect, StartSubOrchestration) and effect.is_for_good:
            return True
        if self.record.ended:
            return False
        call = effect.execution_id, effect.scheduled_seq
        if self._instance is None:
            return self._is_unanswered(*call) and not self._is_answered(*call)
        return self._instance.waits_for_activity(*call)

    def replace(self, record: InstanceRecord) -> None:
        self.forget_instance()
        self._does_not_fit = False
        self._unanswered = self._answered = self._requested = None
        self.record = record
        self._trace.replace(record)

    def forget_instance(self) -> None:
        if self._instance is not None:
            self._instance.close()
            self._instance = None

    def close(self) -> None:
        self.forget_instance()
