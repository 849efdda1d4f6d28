"""An instance as an actor: a thin shell that loads, asks the engine, saves, and only then replies or sends."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, ClassVar

from dapr.actor import Remindable

from holdfast.errors import (
    Conflict,
    HoldfastError,
    InvalidRequest,
    NotFound,
)
from holdfast.identity import split_instance_actor
from holdfast.orchestration import answers, requests
from holdfast.orchestration.chronicle import ENDING, HEAD, INPUT, RESEND_SECONDS, Chronicle
from holdfast.orchestration.instance import Verdict
from holdfast.orchestration.interface import (
    ORCHESTRATION_TYPE,
    OrchestrationActorInterface,
    OrchestrationServiceInterface,
)
from holdfast.orchestration.listing import Listing, confirm
from holdfast.orchestration.messages import Start
from holdfast.orchestration.newborn import Newborn
from holdfast.orchestration.outbox import Outbox
from holdfast.orchestration.state import State
from holdfast.orchestration.tenants import Tenants
from holdfast.orchestration.vigil import Vigil
from holdfast.orchestration.warmth import Warmth
from holdfast.pushpop.doorbell import ring
from holdfast.pushpop.replies import refused
from holdfast.runtime.errands import Errands
from holdfast.runtime.gather import Gatherer, attend
from holdfast.runtime.serialization import dump
from holdfast.runtime.work import DurableActor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.orchestration.registry import Registry
    from holdfast.runtime.work import Turn

log = logging.getLogger(__name__)

Answer = dict[str, Any]


class OrchestrationActor(DurableActor, OrchestrationActorInterface, OrchestrationServiceInterface, Remindable):
    """One instance. What is registered with a host is a class of :func:`orchestration_actor`."""

    registry: ClassVar[Registry]
    #: For tests: the code is brought back from its history for every turn.
    always_replay: ClassVar[bool] = False

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        # What runs in here knows no other tenant's instances: those it names are qualified on their way out.
        self._tenant, self._instance_id = split_instance_actor(self.id.id)
        # Who waits for the end. Not saved: whoever waits asks again from time to time.
        self._doorbells: set[str] = set()
        self._errands = Errands(f"orchestration {self.id.id}")
        self._warmth = Warmth.of(self.host)
        self._vigil = Vigil.of(self.host)

    # The actor's methods, as the interface has them

    async def Start(self, data: Answer) -> Answer:
        return await self._one("Start", data)

    async def RaiseEvent(self, data: Answer) -> Answer:
        return await self._one("RaiseEvent", data)

    async def Cancel(self, data: Answer | None = None) -> Answer:
        return await self._one("Cancel", data)

    async def Suspend(self, data: Answer | None = None) -> Answer:
        return await self._one("Suspend", data)

    async def Resume(self) -> Answer:
        return await self._one("Resume", None)

    async def Status(self, data: Answer | None = None) -> Answer:
        return await self._one("Status", data)

    async def Wait(self, data: Answer) -> Answer:
        return await self._one("Wait", data)

    async def History(self, data: Answer | None = None) -> Answer:
        return await self._one("History", data)

    async def Delete(self, data: Answer | None = None) -> Answer:
        return await self._one("Delete", data)

    async def Outcome(self, data: Answer) -> Answer:
        return await self._one("Outcome", data)

    async def Awaited(self, data: Answer) -> Answer:
        return await self._one("Awaited", data)

    async def Listed(self, data: Answer) -> Answer:
        return await self._one("Listed", data)

    async def Sent(self, data: Answer) -> Answer:
        return await self._one("Sent", data)

    async def Wake(self) -> Answer:
        return await self._one("Wake", None)

    async def Batch(self, data: Answer) -> Answer:
        return await attend(self.host, ORCHESTRATION_TYPE, self.id.id, data, self._answer_all)

    async def _answer_all(self, calls: Sequence[tuple[str, Any]]) -> Answer:
        return {"replies": await self._turn(calls)}

    async def on_wake(self) -> None:
        await self._turn([], woken=True)

    async def _on_deactivate(self) -> None:
        await self._errands.close()
        self._warmth.left(self)
        if self.owes_nothing():
            self._vigil.left(self)
        self.work.forget()

    def cool(self) -> bool:
        """Leaves nothing in memory but its name and who waits for its end."""
        state = self._in_memory()
        if self.work.in_turn or not (state is None or state.settled):
            return False
        if self.owes_nothing():
            self._vigil.left(self)
        self.work.forget()
        return True

    @property
    def address(self) -> str:
        return self.id.id

    def owes_nothing(self) -> bool:
        state = self._in_memory()
        if self.is_busy() or state is None:
            return False
        return state.settled and state.left_to_vigil is None

    def is_busy(self) -> bool:
        return self.work.in_turn or self._errands.busy

    # One turn

    async def _one(self, method: str, data: Any) -> Answer:
        [answer] = await self._turn([(method, data)])
        return answer

    async def _turn(self, calls: Sequence[tuple[str, Any]], *, woken: bool = False) -> list[Answer]:
        woken = woken or any(method == "Wake" for method, _ in calls)
        async with self.work.turn() as turn:
            state = await self._state(turn)
            if woken:
                state.left_to_vigil = None
            replies = [await self._answer(turn, state, method, data) for method, data in calls]
            await state.go_on(turn)
            chronicle = state.chronicle
            if chronicle.changed or woken:
                # With the next write, or when nothing is written but somebody came to see to it.
                chronicle.cross_off()
                chronicle.sweep()
                if not chronicle.ended:
                    # For one that has ended it may be the only thing to save, and is not worth a write.
                    chronicle.keep_listed()
            changes = chronicle.changes()
            for reply, (method, _) in zip(replies, calls, strict=True):
                if method == "Wake":
                    # What others have to be told yet, they are told after this turn.
                    reply["owes_nothing"] = not state.owes
            for key, value in changes.items():
                turn.put(key, value)
            news = await self._news(turn, chronicle)
            turn.wake_at(self._next_deadline(state))
            if changes and state.owes:
                await self._vigil.watch(self)
            await turn.save()
            chronicle.saved()
            state.measure()
            # All that is wanted of it, the chronicle has.
            turn.evict(*turn.known())
            if self.always_replay or chronicle.ended:
                state.forget_instance()
        self._run_errands(state, news)
        self._warmth.used(self)
        return replies

    async def _answer(self, turn: Turn, state: State, method: str, data: Any) -> Answer:
        try:
            if method in requests.MESSAGES:
                request = requests.MESSAGES[method].parse(data)
                life = getattr(request, "life", None)
                if state.is_another(life):
                    return answers.taken(Verdict.OTHER_EXECUTION)
                message = request.message()  # type: ignore[attr-defined]
                reply = await state.deliver(turn, message)
                return answers.started(state.chronicle, reply) if isinstance(message, Start) else answers.taken(reply)
            look = _LOOKS.get(method)
            if look is None:
                raise InvalidRequest(f"There is no method {method}.")
            return await look(self, turn, state, data)
        except HoldfastError as error:
            if error.status >= 500:
                raise
            return refused(error)

    async def _status(self, turn: Turn, state: State, data: Any) -> Answer:
        chronicle = _existing(state.chronicle)
        given, ending = await turn.drive(chronicle.values(INPUT, ENDING))
        return answers.status(chronicle, given, ending)

    async def _wait(self, turn: Turn, state: State, data: Any) -> Answer:
        doorbell = requests.WaitRequest.parse(data).doorbell
        if _existing(state.chronicle).ended:
            return await self._status(turn, state, None)
        if doorbell:
            self._doorbells.add(doorbell)
        return {"ended_at": None}

    async def _history(self, turn: Turn, state: State, data: Any) -> Answer:
        request = requests.HistoryRequest.parse(data)
        chronicle = _existing(state.chronicle)
        execution_id = request.execution_id or chronicle.execution_id
        last = chronicle.events_in(execution_id)
        if last is None:
            raise NotFound(f"The history of execution {execution_id} is not kept.")
        events = await turn.drive(chronicle.page(execution_id, request.cursor, request.limit))
        return answers.history(events, last, recorded=request.recorded)

    async def _awaited(self, turn: Turn, state: State, data: Any) -> Answer:
        request = requests.AwaitedRequest.parse(data)
        if not state.chronicle.exists or state.chronicle.ended or state.is_another(request.life):
            return {"success": True, "awaited": False}
        instance = await state.instance(turn)
        return {"success": True, "awaited": instance.waits_for_activity(request.execution_id, request.scheduled_seq)}

    async def _delete(self, turn: Turn, state: State, data: Any) -> Answer:
        force = requests.DeleteRequest.parse(data).force
        chronicle = _existing(state.chronicle)
        if not (chronicle.ended or force):
            raise Conflict("The orchestration has not ended: cancel it first, or force it.")
        state.replace(chronicle.deleted(self.now()))
        return {"success": True}

    async def _listed(self, turn: Turn, state: State, data: Any) -> Answer:
        state.chronicle.listed = requests.ListedRequest.parse(data).status
        state.chronicle.keep_listed()
        return {"success": True}

    async def _crossed_off(self, turn: Turn, state: State, data: Any) -> Answer:
        state.chronicle.sent(requests.SentRequest.parse(data).number)
        return {"success": True}

    async def _woken(self, turn: Turn, state: State, data: Any) -> Answer:
        return {"success": True}

    async def _news(self, turn: Turn, chronicle: Chronicle) -> str | None:
        """What those are told who wait for the end, so that they need not ask."""
        if not (self._doorbells and chronicle.ended):
            return None
        return dump(answers.status(chronicle, *await turn.drive(chronicle.values(INPUT, ENDING)))).decode()

    def _next_deadline(self, state: State) -> float | None:
        return self.now() if state.chronicle.has_garbage else state.chronicle.next_moment

    # After a turn

    def _run_errands(self, state: State, news: str | None) -> None:
        chronicle = state.chronicle
        if chronicle.ended or not chronicle.exists:
            for doorbell in self._doorbells:
                ring(self.host, self._errands, doorbell, waiting_for(self.id.id), news)
            self._doorbells.clear()
        if chronicle.next_box(self.now()) is not None:
            self._errands.start("sending", self._send)
        if state.to_be_listed:
            self._errands.start("listing", self._list)

    async def _send(self) -> None:
        while True:
            state = self._in_memory()
            number = None if state is None else state.chronicle.next_box(self.now())
            if state is None or number is None:
                return
            chronicle = state.chronicle
            box = chronicle.outbox[number]
            outbox = Outbox(self.host, self._tenant, self._instance_id, chronicle.seed)
            # Should this fail, or never come back.
            box.send_at = self.now() + RESEND_SECONDS
            with Gatherer.of(self.host, ORCHESTRATION_TYPE).expecting(self.id.id):
                await outbox.send((effect for effect in box.effects if state.wanted(effect)), again=box.restored)
            chronicle.arrived.add(number)
            if box.restored:
                # At once: should this leave memory before its next write, it would be sent yet again.
                await self._call_myself("Sent", {"number": number})

    async def _list(self) -> None:
        await Tenants.of(self.host).note(self._tenant)
        state = self._in_memory()
        if state is None:
            return
        # More than once when it has changed back meanwhile, which no turn could see.
        while state is self._in_memory() and state.to_be_listed:
            entry = await Listing.of(self.host).note(self._tenant, self._instance_id, lambda: state.chronicle.entry)
            if state.restored:
                # At once: should this leave memory before its next write, the index would be told yet again.
                await confirm(self.host, self.id.id, entry)
            else:
                state.chronicle.listed = None if entry is None else entry["status"]

    async def _state(self, turn: Turn) -> State:
        state = self._in_memory()
        if state is None:
            head = None if Newborn.of(self.host).claim(self.address) else await turn.load(HEAD)
            chronicle = await turn.drive(Chronicle.restore(self._instance_id, head))
            state = State(chronicle, self.registry, self.host.meters, self.host.now, restored=head is not None)
            self.work.derived["state"] = state
            turn.owes(self._next_deadline(state))
        return state

    def _in_memory(self) -> State | None:
        state: State | None = self.work.derived.get("state")
        return state

    async def _call_myself(self, method: str, data: Answer) -> None:
        await Gatherer.of(self.host, ORCHESTRATION_TYPE).call(self.id.id, method, dump(data))


def orchestration_actor(registry: Registry, *, always_replay: bool = False) -> type[OrchestrationActor]:
    """The class to register: its instances run what this registry has."""
    # The SDK looks for Remindable among a class's own bases only.
    bases = (OrchestrationActor, Remindable)
    made: type[OrchestrationActor] = type(
        ORCHESTRATION_TYPE, bases, {"registry": registry, "always_replay": always_replay}
    )
    return made


def waiting_for(actor_id: str) -> str:
    """What a doorbell is told when an instance has ended; no queue is called so, of whichever tenant."""
    return f"@@{actor_id}"


def _existing(chronicle: Chronicle) -> Chronicle:
    if not chronicle.exists:
        raise NotFound(f"There is no orchestration {chronicle.instance_id}.")
    return chronicle


_LOOKS = {
    "Status": OrchestrationActor._status,
    "Wait": OrchestrationActor._wait,
    "History": OrchestrationActor._history,
    "Awaited": OrchestrationActor._awaited,
    "Delete": OrchestrationActor._delete,
    "Listed": OrchestrationActor._listed,
    "Sent": OrchestrationActor._crossed_off,
    "Wake": OrchestrationActor._woken,
}
