"""The actor of an instance: a thin shell that loads, runs the engine, saves, and only then replies or dispatches."""

from __future__ import annotations

import logging
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from dapr.actor import Remindable

from holdfast.errors import (
    Conflict,
    HoldfastError,
    InvalidRequest,
    NotFound,
    TooLarge,
)
from holdfast.kinds import ENDING, HEAD, INPUT, ORCHESTRATION_TYPE
from holdfast.logs import counted, log_fields, set_log_fields
from holdfast.names import is_of_default_tenant, split_instance_actor
from holdfast.orchestration.actor import deletion, reruns
from holdfast.orchestration.actor.cache import InstanceCache
from holdfast.orchestration.actor.dispatcher import EffectDispatcher
from holdfast.orchestration.actor.loaded_instance import LoadedInstance, TurnFull
from holdfast.orchestration.actor.request_replies import ReplySubscribers, make_request, read_reply
from holdfast.orchestration.api import replies as answers
from holdfast.orchestration.api import requests
from holdfast.orchestration.api.interface import OrchestrationActorInterface, OrchestrationServiceInterface
from holdfast.orchestration.core import messages
from holdfast.orchestration.core.instance import Verdict
from holdfast.orchestration.core.limits import TURN_BYTES
from holdfast.orchestration.index.tenant_index import TenantDirectory
from holdfast.orchestration.index.writer import IndexWriter, confirm
from holdfast.orchestration.recovery.fresh_ids import FreshIds
from holdfast.orchestration.recovery.rescuer import SCAN_SECONDS, RescueList
from holdfast.orchestration.storage.record import PAGE_BYTES, InstanceRecord, indexed_as
from holdfast.pushpop.api.replies import refused
from holdfast.runtime.background import BackgroundTasks
from holdfast.runtime.batching import CallBatcher, serve_session
from holdfast.runtime.isolation import isolated
from holdfast.runtime.notifier import has_waiting, notify
from holdfast.runtime.serialization import dump
from holdfast.runtime.unit_of_work import DurableActor, methods_of
from holdfast.tracing.turns import traced_turn, with_incoming
from holdfast.wire.deferred import DEFERRED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.orchestration.registry import Registry
    from holdfast.orchestration.storage.outbox import Entry, Part
    from holdfast.runtime.unit_of_work import Turn

log = logging.getLogger(__name__)

Answer = dict[str, Any]

_PUBLIC = methods_of(OrchestrationActorInterface)

# Where the host saves reminders together with state: how long after a save the instance is woken if it has not settled.
RESCUE_SECONDS = SCAN_SECONDS


class OrchestrationActor(DurableActor, OrchestrationActorInterface, OrchestrationServiceInterface, Remindable):
    """One instance. :func:`orchestration_actor` makes the class that is registered with a host."""

    exact_numbers = False

    registry: ClassVar[Registry]
    #: How long ended instances are kept whose orchestration does not say; None for good.
    retention_seconds: ClassVar[float | None] = None
    #: For tests: every turn replays the history.
    always_replay: ClassVar[bool] = False

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        # The instance names queues and instances of its own tenant only; outgoing calls qualify the names.
        self._tenant, self._instance_id = split_instance_actor(self.id.id)
        self._about = {"instance_id": self._instance_id, "tenant": self._tenant}
        # Notifiers to call at the end. Not saved: waiting callers ask again from time to time.
        self._subscribers: set[str] = set()
        # Weak: a deactivated actor leaves memory at once.
        self._background = BackgroundTasks(f"orchestration {self.id.id}", partial(_became_idle, weakref.ref(self)))
        self._reply_subscribers = ReplySubscribers(self.host, self._background)
        self._cache = InstanceCache.of(self.host)
        #: None where the host saves reminders together with state: the instance's own reminder recovers it there.
        self._rescue_list = None if self.host.saves_reminders else RescueList.of(self.host)
        self._counted_as_blocked = False

    @classmethod
    def is_public(cls, actor_id: str, method: str) -> bool:
        """Returns whether other apps may call this method of this actor."""
        return method in _PUBLIC and is_of_default_tenant(actor_id)

    # Actor methods

    async def Start(self, data: Answer) -> Answer:
        return await self._one("Start", with_incoming(data))

    async def RaiseEvent(self, data: Answer) -> Answer:
        return await self._one("RaiseEvent", with_incoming(data))

    async def Request(self, data: Answer) -> Answer:
        return await self._one("Request", with_incoming(data))

    async def Cancel(self, data: Answer | None = None) -> Answer:
        return await self._one("Cancel", data)

    async def Suspend(self, data: Answer | None = None) -> Answer:
        return await self._one("Suspend", data)

    async def Resume(self) -> Answer:
        return await self._one("Resume", None)

    async def Status(self, data: Answer | None = None) -> Answer:
        return await self._one("Status", data)

    async def Reply(self, data: Answer) -> Answer:
        return await self._one("Reply", data)

    async def Wait(self, data: Answer) -> Answer:
        return await self._one("Wait", data)

    async def History(self, data: Answer | None = None) -> Answer:
        return await self._one("History", data)

    async def Delete(self, data: Answer | None = None) -> Answer:
        return await self._one("Delete", data)

    async def CopyHistory(self, data: Answer) -> Answer:
        return await self._one("CopyHistory", data)

    async def Rerun(self, data: Answer) -> Answer:
        return await self._one("Rerun", data)

    async def NoteRerun(self, data: Answer) -> Answer:
        return await self._one("NoteRerun", data)

    async def Complete(self, data: Answer) -> Answer:
        return await self._one("Complete", data)

    async def CancelChild(self, data: Answer) -> Answer:
        return await self._one("CancelChild", data)

    async def IsAwaited(self, data: Answer) -> Answer:
        return await self._one("IsAwaited", data)

    async def Heartbeat(self, data: Answer) -> Answer:
        return await self._one("Heartbeat", data)

    async def State(self) -> Answer:
        return await self._one("State", None)

    async def Check(self) -> Answer:
        return await self._one("Check", None)

    async def ConfirmIndexed(self, data: Answer) -> Answer:
        return await self._one("ConfirmIndexed", data)

    async def ConfirmDispatched(self, data: Answer) -> Answer:
        return await self._one("ConfirmDispatched", data)

    async def Rescue(self) -> Answer:
        return await self._one("Rescue", None)

    async def Batch(self, data: Answer) -> Answer:
        turn = isolated(self._answer_all, lambda: self.work.commits, f"orchestration {self.id.id}")
        return await serve_session(self.host, ORCHESTRATION_TYPE, self.id.id, data, turn)

    async def _answer_all(self, calls: Sequence[tuple[str, Any]]) -> Answer:
        return {"replies": await self._turn(calls)}

    async def on_wake(self) -> None:
        await self._turn([], woken=True)

    async def _on_deactivate(self) -> None:
        await self._background.close()
        self._count_blocked(False)
        self._cache.left(self)
        self._leave_rescue_list()
        self.work.forget()

    @property
    def can_leave(self) -> bool:
        state = self._in_memory()
        return not self.is_busy() and (state is None or state.settled)

    def evict(self) -> bool:
        """Evicts the instance from memory, except for its id and its subscribers. Returns False if it is busy."""
        state = self._in_memory()
        if self.work.in_turn or not (state is None or state.settled):
            return False
        self._leave_rescue_list()
        self.work.forget()
        return True

    def _leave_rescue_list(self) -> None:
        if self._rescue_list is not None and self.is_settled():
            self._rescue_list.left(self)

    @property
    def address(self) -> str:
        return self.id.id

    def is_settled(self) -> bool:
        state = self._in_memory()
        if self.is_busy() or state is None:
            return False
        return state.settled and state.left_to_recovery is None

    def is_busy(self) -> bool:
        return self.work.in_turn or self._background.busy

    def has_unsaved_arrivals(self) -> bool:
        state = self._in_memory()
        return state is not None and state.record.outbox.has_unsaved_arrivals()

    def rests_until(self) -> float:
        state = self._in_memory()
        if state is None or self.is_busy() or state.needs_indexing:
            return 0.0
        return state.record.outbox.next_attempt()

    def _count_blocked(self, blocked: bool) -> None:
        if blocked is not self._counted_as_blocked:
            self._counted_as_blocked = blocked
            self.host.metrics.blocked.inc(1 if blocked else -1)

    # One turn

    async def _one(self, method: str, data: Any) -> Answer:
        while True:
            [answer] = await self._turn([(method, data)])
            if answer != DEFERRED:
                return answer

    async def _turn(self, calls: Sequence[tuple[str, Any]], *, woken: bool = False) -> list[Answer]:
        with log_fields(**self._about), traced_turn(ORCHESTRATION_TYPE, calls, begins="Start") as traced:
            return await self._take_turn(traced, woken=woken)

    async def _take_turn(self, calls: Sequence[tuple[str, Any]], *, woken: bool) -> list[Answer]:
        try:
            return await self._try_turn(calls, woken=woken)
        except TooLarge as error:
            if len(calls) > 1:
                # One call may be too large, or only the batch.
                return [await self._alone(call, woken=woken) for call in calls]
            log.warning("orchestration %s fails: one of its steps is too large for the store: %s", self.id.id, error)
            unsaved = TooLarge(
                "One step of this orchestration is too large for the store. "
                f"{error.message} Ask for less at once, or raise that limit."
            )
            return await self._try_turn(calls, woken=woken, unsaved=unsaved)

    async def _alone(self, call: tuple[str, Any], *, woken: bool) -> Answer:
        """Makes one call of a batch in a turn of its own. An error is its reply, as earlier calls are saved already."""
        try:
            [answer] = await self._turn([call], woken=woken)
        except HoldfastError as error:
            return refused(error)
        return answer

    async def _try_turn(
        self, calls: Sequence[tuple[str, Any]], *, woken: bool, unsaved: TooLarge | None = None
    ) -> list[Answer]:
        """Runs a turn. Raises TooLarge when it is too large for the store.

        With ``unsaved``, the error of such a turn, the instance is failed. Otherwise a worker, a parent or a reminder
        would repeat the turn forever.
        """
        by_reminder = woken
        woken = woken or any(method == "Rescue" for method, _ in calls)
        async with self.work.turn() as turn:
            state = await self._state(turn)
            if woken:
                state.left_to_recovery = None
            await deletion.delete_if_over(turn, state, self.registry, self.now(), self.retention_seconds)
            if unsaved is not None:
                await state.fail(turn, unsaved)
            replies = await self._answer_in_order(turn, state, calls)
            record = state.record
            if record.unsaved_bytes < TURN_BYTES:
                await state.go_on(turn)
            if record.changed or woken:
                # Together with a write that happens anyway, or in a recovery turn.
                record.outbox.remove_arrived()
                record.sweep()
                if not record.ended:
                    # For an ended instance this may be the only change, which is not worth a write.
                    record.keep_indexed()
            state.note_waiting()
            changes = record.changes()
            for reply, (method, _) in zip(replies, calls, strict=True):
                if method == "Rescue":
                    # The outbox is dispatched after this turn.
                    reply["owes_nothing"] = not state.owes
            for key, value in changes.items():
                turn.put(key, value)
            news = await self._news(turn, record)
            replied = await self._replied(turn, state)
            # While it is BLOCKED the deadline is the next retry of its code, which a server start retries as well.
            # A deletion that is late does no harm.
            turn.wake_at(self._next_deadline(state), needed=record.blocking.reason is None and not record.ended)
            if self._rescue_list is not None and state.owes:
                # An instance that was moved here from a host where its own reminder recovers it has no rescuer yet.
                if changes or by_reminder:
                    await self._rescue_list.watch(self)
                elif woken:
                    self._rescue_list.is_back(self)
            await turn.save()
            record.saved()
            state.saved()
            # The record holds all that later turns need.
            turn.evict(*turn.known())
            if self.always_replay or record.ended:
                state.forget_instance()
        self._count_blocked(record.blocking.reason is not None)
        self._reply_subscribers.notify(waiting_for(self.id.id), replied)
        self._run_background(state, news)
        self.postpone_wake()
        self._cache.used(self, state.payload_size)
        return replies

    def _is_full(self, state: LoadedInstance, method: str) -> bool:
        """Returns whether a message has to wait for the next turn, because this one has enough to save."""
        return state.record.unsaved_bytes >= TURN_BYTES and method in requests.MESSAGES

    async def _answer_in_order(
        self, turn: Turn, state: LoadedInstance, calls: Sequence[tuple[str, Any]]
    ) -> list[Answer]:
        """Processes the calls that fit into one turn and one reply; the others get DEFERRED and are repeated."""
        replies: list[Answer] = []
        answered = 0
        for method, data in calls:
            if self._is_full(state, method) or (answered >= PAGE_BYTES and method in _PAYLOAD_READS):
                replies.append(DEFERRED)
                continue
            reply = await self._answer(turn, state, method, data)
            # Serializing a large reply takes time, so it is only measured when more calls follow.
            if method in _PAYLOAD_READS and len(calls) > 1:
                answered += len(dump(reply))
            replies.append(reply)
        return replies

    async def _answer(self, turn: Turn, state: LoadedInstance, method: str, data: Any) -> Answer:
        try:
            if method in requests.MESSAGES:
                request = requests.MESSAGES[method].parse(data)
                incarnation = getattr(request, "incarnation", None)
                if state.is_another(incarnation):
                    return answers.taken(Verdict.OTHER_EXECUTION)
                if isinstance(request, requests.CancelChildRequest) and not request.is_from(state.record.parent):
                    return answers.taken(Verdict.NOT_A_CHILD)
                message = request.message()  # type: ignore[attr-defined]
                if isinstance(message, messages.MakeRequest):
                    return await make_request(turn, state, message)
                if isinstance(message, messages.Start):
                    return await self._begin(turn, state, message)
                reply = await state.deliver(turn, message)
                if isinstance(message, messages.RaiseEvent):
                    return answers.raised(reply, delivered=await state.is_delivered(turn, message, reply))
                return answers.taken(reply)
            look = _LOOKS.get(method)
            if look is None:
                raise InvalidRequest(f"There is no method {method}.")
            return await look(self, turn, state, data)
        except TurnFull:
            return DEFERRED
        except HoldfastError as error:
            # A server error ends the turn, unless the call only reads.
            if error.status >= 500 and method not in _READS:
                raise
            return refused(error)

    async def _begin(self, turn: Turn, state: LoadedInstance, message: messages.Start) -> Answer:
        state.check_start(message.name, message.version)
        created = not state.record.exists
        reply = await state.deliver(turn, message)
        delivered = None
        if message.event is not None and not isinstance(reply, HoldfastError):
            if not created:
                reply = await state.deliver(turn, message.event)
            delivered = await state.is_delivered(turn, message.event, reply)
        return answers.started(state.record, reply, created=created, delivered=delivered)

    async def _status(self, turn: Turn, state: LoadedInstance, data: Any) -> Answer:
        record = _existing(state.record)
        given, ending = await turn.drive(record.values(INPUT, ENDING))
        state.note_waiting()
        return answers.status(record, given, ending)

    async def _status_alone(self, turn: Turn, state: LoadedInstance, data: Any) -> Answer:
        record = _existing(state.record)
        state.note_waiting()
        return {"success": True, "status": record.status.value, "waiting_for": answers.awaited(record)}

    async def _wait(self, turn: Turn, state: LoadedInstance, data: Any) -> Answer:
        notifier = requests.WaitRequest.parse(data).notify
        if _existing(state.record).ended:
            return await self._status(turn, state, None)
        if notifier:
            self._subscribers.add(notifier)
        return {"ended_at": None}

    async def _history(self, turn: Turn, state: LoadedInstance, data: Any) -> Answer:
        request = requests.HistoryRequest.parse(data)
        record = _existing(state.record)
        execution_id = request.execution_id or record.execution_id
        last = record.events_in(execution_id)
        if last is None:
            raise NotFound(f"The history of execution {execution_id} is not kept.")
        page = record.page(execution_id, request.cursor, request.limit, with_mail=request.recorded)
        events = await turn.drive(page)
        begun = record.begun or execution_id != record.execution_id
        return answers.history(events, last, recorded=request.recorded, begun=begun)

    async def _reply(self, turn: Turn, state: LoadedInstance, data: Any) -> Answer:
        request = requests.ReplyRequest.parse(data)
        answer = await read_reply(turn, state, request.request_id)
        if request.notify is not None and answers.is_unanswered(answer):
            self._reply_subscribers.add(request.request_id, request.notify)
        return answer

    async def _awaited(self, turn: Turn, state: LoadedInstance, data: Any) -> Answer:
        request = requests.AwaitedRequest.parse(data)
        answer: Answer = {"success": True, "awaited": await _is_awaited(turn, state, request)}
        if answer["awaited"]:
            details = await turn.drive(state.record.heartbeats.read(request.scheduled_seq))
            if details is not None:
                answer["heartbeat_details"] = details
        return answer

    async def _heartbeat(self, turn: Turn, state: LoadedInstance, data: Any) -> Answer:
        request = requests.HeartbeatRequest.parse(data)
        details = requests.details_text(request.details)
        awaited = await _is_awaited(turn, state, request)
        if awaited and details is not None:
            state.record.heartbeats.keep(request.scheduled_seq, details)
        elif not awaited and request.execution_id == state.record.execution_id:
            state.record.heartbeats.drop(request.scheduled_seq)
        return {"success": True, "awaited": awaited}

    async def _check(self, turn: Turn, state: LoadedInstance, data: Any) -> Answer:
        record = state.record
        if record.exists and not record.ended:
            await state.bring_back(turn, again=True)
        return {"success": True, "status": record.status.value}

    async def _delete(self, turn: Turn, state: LoadedInstance, data: Any) -> Answer:
        force = requests.DeleteRequest.parse(data).force
        record = _existing(state.record)
        if not (record.ended or force):
            raise Conflict("The orchestration has not ended: cancel it first, or force it.")
        await deletion.delete(turn, state, self.registry, self.now())
        return {"success": True}

    async def _copy_history(self, turn: Turn, state: LoadedInstance, data: Any) -> Answer:
        return await reruns.copy_history(turn, _existing(state.record), data)

    async def _rerun(self, turn: Turn, state: LoadedInstance, data: Any) -> Answer:
        return reruns.begin(state, self.registry, data, self.now())

    async def _note_rerun(self, turn: Turn, state: LoadedInstance, data: Any) -> Answer:
        return reruns.note(state, data)

    async def _listed(self, turn: Turn, state: LoadedInstance, data: Any) -> Answer:
        state.record.listed = requests.ListedRequest.parse(data).indexed_as
        state.record.keep_indexed()
        if state.record.exists and not state.record.ended:
            # The check at server start uses the index, which did not have this instance then.
            await state.bring_back(turn)
        return {"success": True}

    async def _confirm_dispatched(self, turn: Turn, state: LoadedInstance, data: Any) -> Answer:
        state.record.outbox.store_rest(requests.SentRequest.parse(data).number)
        return {"success": True}

    async def _rescue(self, turn: Turn, state: LoadedInstance, data: Any) -> Answer:
        return {"success": True}

    async def _news(self, turn: Turn, record: InstanceRecord) -> str | None:
        """Returns the status to send to subscribers when the instance has ended, so that they need not ask for it."""
        if not (record.ended and (self._subscribers or has_waiting(waiting_for(self.id.id)))):
            return None
        return dump(answers.status(record, *await turn.drive(record.values(INPUT, ENDING)))).decode()

    async def _replied(self, turn: Turn, state: LoadedInstance) -> dict[str, Answer]:
        """Returns the replies of this turn that callers wait for."""
        replied: dict[str, Answer] = {}
        for request_id in filter(self._reply_subscribers.is_subscribed, state.answered):
            found = await turn.drive(state.record.replies.read(request_id))
            if found is not None:
                replied[request_id] = answers.replied(request_id, found)
        return replied

    def _next_deadline(self, state: LoadedInstance) -> float | None:
        record = state.record
        if record.has_deferred_deletes or record.blocking.delivering:
            return self.now()
        ended = record.ended
        own = deletion.next_deletion(record, self.now(), self.retention_seconds) if ended else record.next_moment
        # An instance that was loaded after its end may not be listed as ended. The reminder that is stored recovers it;
        # one for its deletion would replace that.
        is_left_to_recovery = state.settled and record.needs_indexing and own is not None
        if self._rescue_list is not None or (state.settled and not is_left_to_recovery):
            return own
        rescue_at = self._rescue_at(state)
        return rescue_at if own is None else min(rescue_at, own)

    def _rescue_at(self, state: LoadedInstance) -> float:
        """Returns when an instance that has not settled needs a turn, if its background tasks achieve nothing."""
        now = self.now()
        resting = 0.0 if state.record.needs_indexing else state.record.outbox.next_attempt()
        return resting if resting > now else now + RESCUE_SECONDS

    def postpone_wake(self) -> None:
        """Moves the reminder to the next deadline if recovery does not need it earlier any more."""
        state = self._in_memory()
        if state is not None and (self.is_settled() or self.rests_until() > self.now()):
            self.work.postpone_wake(self._next_deadline(state))

    # After a turn

    def _run_background(self, state: LoadedInstance, news: str | None) -> None:
        record = state.record
        if record.ended or not record.exists:
            notify(self.host, self._background, self._subscribers, waiting_for(self.id.id), news)
            self._subscribers.clear()
            self._reply_subscribers.notify_all(waiting_for(self.id.id))
        for target in record.outbox.due_targets(self.now()):
            # One task per target, so that a target that does not answer delays no other.
            self._background.start(f"sending to {target}", partial(self._send, target))
        if state.needs_indexing:
            self._background.start("listing", self._list)
        if state.goes_on:
            # A reminder is set for it as well, in case this process ends.
            self._background.start("going on", self._go_on)

    async def _send(self, target: str) -> None:
        """Dispatches the due outbox entries of a target, one by one, until one fails."""
        set_log_fields(**self._about)
        while True:
            state = self._in_memory()
            found = None if state is None else state.record.outbox.next_part(target, self.now())
            if state is None or found is None:
                return
            await self._send_part(state, target, *found)

    async def _send_part(self, state: LoadedInstance, target: str, entry: Entry, part: Part) -> None:
        record = state.record
        sender = EffectDispatcher(self.host, self._tenant, self._instance_id, record.seed, record.traceparent)
        entry.remove(target, [effect for effect in part.effects if not state.wanted(effect)])
        # From here on the effects may have arrived, even if this attempt fails.
        again, part.again, part.sending = part.again, True, True
        try:
            with CallBatcher.of(self.host, ORCHESTRATION_TYPE).expecting(self.id.id):
                await sender.send(part.effects, partial(entry.remove, target), again=again)
        except Exception as error:
            pause = part.fail(self.now())
            if not isinstance(error, HoldfastError):
                raise
            # Logged at exponentially growing intervals: a queue may be full for hours.
            level = logging.WARNING if part.failures.bit_count() == 1 else logging.DEBUG
            found = (self.id.id, counted(len(part.effects), "effect"), target, error, part.failures, pause)
            log.log(level, "orchestration %s: %s to %s not sent: %s Attempt %d; the next in %.0f s.", *found)
        else:
            if part.failures:
                log.info("orchestration %s: the effects to %s have arrived.", self.id.id, target)
        finally:
            part.sending = False
        current = self._in_memory()
        if current is not None and current.record.outbox.has(entry) and entry.is_to_be_stored():
            await self._call_myself("ConfirmDispatched", {"number": entry.number})

    async def _go_on(self) -> None:
        """Runs turns until no execution has yet to begin and the inbox is delivered."""
        set_log_fields(**self._about)
        while (state := self._in_memory()) is not None and state.goes_on:
            await self._call_myself("Rescue", {})

    async def _list(self) -> None:
        set_log_fields(**self._about)
        await TenantDirectory.of(self.host).note(self._tenant)
        state = self._in_memory()
        if state is None:
            return
        # Repeated if the entry has changed meanwhile and back again, which no turn notices.
        while state is self._in_memory() and state.needs_indexing:
            entry = await IndexWriter.of(self.host).note(
                self._tenant, self._instance_id, lambda: (state.record.entry, state.record.rank)
            )
            if state.restored:
                # Saved at once: if the instance is evicted before its next write, it would be indexed again.
                await confirm(self.host, self.id.id, entry)
            else:
                state.record.listed = indexed_as(entry)

    async def _state(self, turn: Turn) -> LoadedInstance:
        state = self._in_memory()
        if state is None:
            head = None if FreshIds.of(self.host).claim(self.address) else await turn.load(HEAD)
            record = await turn.drive(InstanceRecord.restore(self._instance_id, head))
            state = LoadedInstance(
                *(record, self.registry, self.host.metrics, self.host.now),
                tenant=self._tenant,
                restored=head is not None,
            )
            await state.prepare_outbox(turn)
            self.work.derived["state"] = state
            turn.owes(self._next_deadline(state))
        return state

    def _in_memory(self) -> LoadedInstance | None:
        state: LoadedInstance | None = self.work.derived.get("state")
        return state

    async def _call_myself(self, method: str, data: Answer) -> None:
        await CallBatcher.of(self.host, ORCHESTRATION_TYPE).call(self.id.id, method, dump(data))


def _became_idle(instance: weakref.ref[OrchestrationActor]) -> None:
    if (actor := instance()) is not None:
        actor.postpone_wake()


def orchestration_actor(
    registry: Registry, *, retention_seconds: float | None = None, always_replay: bool = False
) -> type[OrchestrationActor]:
    """Returns the actor class to register with a host, whose instances run the orchestrations of ``registry``."""
    # The SDK looks for Remindable among a class's own bases only.
    bases = (OrchestrationActor, Remindable)
    own = {"registry": registry, "retention_seconds": retention_seconds, "always_replay": always_replay}
    made: type[OrchestrationActor] = type(ORCHESTRATION_TYPE, bases, own)
    return made


def waiting_for(actor_id: str) -> str:
    """Returns the topic for the end of an instance. No queue of any tenant has such a name."""
    return f"@@{actor_id}"


def reply_to(actor_id: str, request_id: str) -> str:
    """Returns the topic for the reply to a request. No id has a space."""
    return f"{waiting_for(actor_id)} {request_id}"


async def _is_awaited(turn: Turn, state: LoadedInstance, request: requests.AwaitedRequest) -> bool:
    if not state.record.exists or state.record.ended or state.is_another(request.incarnation):
        return False
    return await state.awaits(turn, request.execution_id, request.scheduled_seq)


def _existing(record: InstanceRecord) -> InstanceRecord:
    if not record.exists:
        raise NotFound(f"There is no orchestration {record.instance_id}.")
    return record


_LOOKS = {
    "Status": OrchestrationActor._status,
    "State": OrchestrationActor._status_alone,
    "Wait": OrchestrationActor._wait,
    "Reply": OrchestrationActor._reply,
    "History": OrchestrationActor._history,
    "IsAwaited": OrchestrationActor._awaited,
    "Heartbeat": OrchestrationActor._heartbeat,
    "Check": OrchestrationActor._check,
    "Delete": OrchestrationActor._delete,
    "CopyHistory": OrchestrationActor._copy_history,
    "Rerun": OrchestrationActor._rerun,
    "NoteRerun": OrchestrationActor._note_rerun,
    "ConfirmIndexed": OrchestrationActor._listed,
    "ConfirmDispatched": OrchestrationActor._confirm_dispatched,
    "Rescue": OrchestrationActor._rescue,
}
_READS = frozenset({"Status", "State", "Wait", "History", "CopyHistory", "Reply", "IsAwaited"})
#: Methods whose replies contain payloads and can be large.
_PAYLOAD_READS = frozenset({"Status", "Wait", "History", "CopyHistory", "Request", "Reply"})
