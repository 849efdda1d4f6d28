"""The actor of a schedule: decides its ticks in a turn, saves them, and then calls the instances."""

from __future__ import annotations

import asyncio
import logging
import secrets
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import WeakKeyDictionary

import orjson
from dapr.actor import Remindable

from holdfast.errors import HoldfastError, NotFound, Unavailable
from holdfast.kinds import ORCHESTRATION_TYPE, SCHEDULE_INDEX_TYPE, SCHEDULE_TYPE
from holdfast.logs import about
from holdfast.names import qualify, split_tenant
from holdfast.orchestration.status import ENDED
from holdfast.pushpop.api.replies import refused
from holdfast.runtime.background import BackgroundTasks
from holdfast.runtime.batching import CallBatcher
from holdfast.runtime.serialization import dump
from holdfast.runtime.unit_of_work import InternalActor
from holdfast.schedules.api import requests
from holdfast.schedules.api.interface import ScheduleActorInterface
from holdfast.schedules.api.replies import shown
from holdfast.schedules.core.schedule import UNDECLARED, Outcomes, Schedule, created
from holdfast.schedules.index import index_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.orchestration.registry import Registry
    from holdfast.runtime.contract import HostClient
    from holdfast.runtime.unit_of_work import Turn
    from holdfast.schedules.core.schedule import Call

log = logging.getLogger(__name__)

Answer = dict[str, Any]

#: State keys.
SCHEDULE = "schedule"
CALLS = "calls"

# A start with a larger input takes its turn: it needs the event loop for some milliseconds.
_LARGE = 64 * 1024
_turns: WeakKeyDictionary[HostClient, asyncio.Lock] = WeakKeyDictionary()
# How many calls are made before a turn records them.
_CALLS_AT_ONCE = 50


class ScheduleActor(InternalActor, ScheduleActorInterface, Remindable):
    """One schedule. :func:`schedule_actor` makes the class that is registered with a host."""

    exact_numbers = False
    kept_bytes = 32 * 1024

    registry: ClassVar[Registry]

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._tenant, name = split_tenant(self.id.id)
        self._name = requests.check_schedule_name(name)
        self._background = BackgroundTasks(f"schedule {self.id.id}")
        #: The statuses of instances that have ended: they do not change any more.
        self._ended: dict[str, str] = {}

    # Actor methods

    async def Put(self, data: Answer) -> Answer:
        return await self._put(data, declared=False)

    async def Declare(self, data: Answer) -> Answer:
        return await self._put(data, declared=True)

    async def _put(self, data: Answer, *, declared: bool) -> Answer:
        def change(schedule: Schedule | None, now: float) -> tuple[Schedule, Answer]:
            request = requests.Put.parse(data)
            definition = request.definition()
            self.registry.check_start(definition.orchestration, None, definition.input)
            if schedule is None or schedule.deleted:
                made = created(self._name, definition, now, paused=request.paused, declared=declared)
                return made, {}
            # A deploy changes the definition, and ends no pause but that of its own code.
            was_undeclared = schedule.paused_reason == UNDECLARED
            paused = (False if was_undeclared else None) if declared else request.paused
            schedule.change(definition, now, paused=paused, declared=declared)
            return schedule, {}

        answer = await self._answer(change)
        return answer if answer.get("success") is False else await self.Get()

    async def Get(self) -> Answer:
        async with self.work.turn() as turn:
            schedule = await self._load(turn)
        if schedule is None or schedule.deleted:
            return refused(self._missing())
        instances = [result.instance_id for result in schedule.last if result.instance_id is not None]
        statuses = await asyncio.gather(*(self._status(instance_id) for instance_id in instances))
        return shown(schedule, dict(zip(instances, statuses, strict=True)), self.now())

    async def Pause(self) -> Answer:
        return await self._change(lambda schedule, now: schedule.pause(now))

    async def Resume(self) -> Answer:
        return await self._change(lambda schedule, now: schedule.resume(now))

    async def Trigger(self) -> Answer:
        return await self._change(lambda schedule, now: {"instance_id": schedule.trigger(now, secrets.token_hex(4))})

    async def Backfill(self, data: Answer) -> Answer:
        def change(schedule: Schedule, now: float) -> Answer:
            return {"ticks": schedule.backfill(*requests.Backfill.parse(data).times())}

        return await self._change(change)

    async def Delete(self) -> Answer:
        def change(schedule: Schedule, now: float) -> None:
            schedule.deleted, schedule.calls = True, []

        return await self._change(change)

    async def Undeclare(self) -> Answer:
        def change(schedule: Schedule, now: float) -> None:
            if schedule.declared and not schedule.paused:
                schedule.pause(now, UNDECLARED)

        return await self._change(change)

    async def ConfirmCalls(self, data: Answer) -> Answer:
        request = requests.ConfirmCalls.parse(data)
        made = {int(number): error for number, error in request.made.items()}

        def change(schedule: Schedule, now: float) -> None:
            # Otherwise they are calls of a deleted schedule of this name, whose numbers are in use again.
            if request.created_at == schedule.created_at:
                schedule.made(made)

        return await self._change(change)

    async def ConfirmIndexed(self, data: Answer) -> Answer:
        listed = requests.ConfirmIndexed.parse(data).listed
        async with self.work.turn() as turn:
            schedule = await self._load(turn)
            # If it was deleted or made meanwhile, the index is called once more.
            if schedule is None or listed is schedule.deleted:
                return {"success": True}
            if schedule.deleted:
                turn.delete(SCHEDULE)
                turn.delete(CALLS)
                turn.wake_at(None)
            else:
                schedule.indexed = True
                self._store(turn, schedule)
        return {"success": True}

    async def on_wake(self) -> None:
        await self._answer(lambda schedule, now: (schedule, {}))

    @property
    def can_leave(self) -> bool:
        return not (self.work.in_turn or self._background.busy)

    async def _on_deactivate(self) -> None:
        await self._background.close()
        self.work.forget()

    # One turn

    async def _change(self, change: Callable[[Schedule, float], Answer | None]) -> Answer:
        def work(schedule: Schedule | None, now: float) -> tuple[Schedule, Answer]:
            if schedule is None or schedule.deleted:
                raise self._missing()
            return schedule, change(schedule, now) or {}

        return await self._answer(work)

    async def _answer(self, work: Callable[[Schedule | None, float], tuple[Schedule | None, Answer]]) -> Answer:
        """Runs a turn: decides the ticks that are due, then does ``work``, and saves both together."""
        try:
            async with self.work.turn() as turn:
                schedule = await self._load(turn)
                outcomes = Outcomes()
                if schedule is not None:
                    ended = await self._previous_has_ended(schedule)
                    outcomes = schedule.advance(self.now(), previous_ended=ended)
                schedule, answer = work(schedule, self.now())
                if schedule is not None:
                    self._store(turn, schedule)
        except HoldfastError as error:
            if error.status >= 500:
                raise
            return refused(error)
        self._count(outcomes)
        if schedule is not None:
            self._run_background(schedule)
        return {"success": True} | answer

    async def _load(self, turn: Turn) -> Schedule | None:
        stored, calls = await turn.load_all(SCHEDULE, CALLS)
        schedule = None if stored is None else Schedule.from_json(stored, calls or [])
        deadline = None if schedule is None else schedule.next_deadline(self.now())
        turn.owes(deadline)
        turn.wake_at(deadline)
        return schedule

    def _store(self, turn: Turn, schedule: Schedule) -> None:
        for key, value in ((SCHEDULE, schedule.to_json()), (CALLS, schedule.calls_to_json() or None)):
            if turn.known_value(key) != value:
                turn.put(key, value)
        turn.wake_at(schedule.next_deadline(self.now()))

    async def _previous_has_ended(self, schedule: Schedule) -> bool:
        if schedule.previous is None or not schedule.depends_on_previous(self.now()):
            return False
        if any(call.instance_id == schedule.previous for call in schedule.calls):
            return False  # it has yet to be started
        status = await self._status(schedule.previous)
        return status is None or status in ENDED

    async def _status(self, instance_id: str) -> str | None:
        """Returns the status of an instance; None if there is none with this id, or if it cannot be read any more."""
        if (known := self._ended.get(instance_id)) is not None:
            return known
        try:
            answer = await self._call(instance_id, "State", None)
        except HoldfastError as error:
            if error.retryable:
                raise
            return None
        status: str | None = answer.get("status")
        if status in ENDED:
            if len(self._ended) > 100:
                self._ended.clear()
            self._ended[instance_id] = status
        return status

    def _count(self, outcomes: Outcomes) -> None:
        ticks = self.host.metrics.schedule_ticks
        for outcome in ("started", "skipped", "missed"):
            if number := getattr(outcomes, outcome):
                ticks.labels(outcome).inc(number)
        if outcomes.missed:
            log.warning(
                "schedule %s missed %d ticks",
                *(self.id.id, outcomes.missed),
                extra=about(schedule=self._name, tenant=self._tenant),
            )

    def _missing(self) -> NotFound:
        return NotFound(f"There is no schedule {self._name}.")

    # After a turn

    def _run_background(self, schedule: Schedule) -> None:
        if schedule.calls:
            self._background.start("calling instances", self._make_calls)
        if schedule.deleted or not schedule.indexed:
            self._background.start("listing", self._update_index)

    async def _make_calls(self) -> None:
        """Makes the stored calls in order, until one fails for now; the reminder repeats it."""
        while True:
            async with self.work.turn() as turn:
                schedule = await self._load(turn)
            if schedule is None or schedule.deleted or not schedule.calls:
                return
            made: dict[str, str | None] = {}
            failure: Unavailable | None = None
            for call in schedule.calls[:_CALLS_AT_ONCE]:
                try:
                    made[str(call.number)] = await self._make_call(schedule, call)
                except Unavailable as error:
                    failure = error
                    break
                except HoldfastError as error:
                    if error.retryable:
                        raise
                    # Such as that of a damaged instance: it must not hold up all later calls.
                    made[str(call.number)] = self._not_started(call, error.message)
            if made:
                await self._call_myself("ConfirmCalls", {"created_at": schedule.created_at, "made": made})
            if failure is not None:
                raise failure

    async def _make_call(self, schedule: Schedule, call: Call) -> str | None:
        """Makes one call. Returns why it was refused for good, if it was; raises Unavailable if it was not made."""
        if call.method == "Cancel":
            await self._call(call.instance_id, "Cancel", {"reason": f"The next tick of the schedule {self._name}."})
            return None
        given = schedule.definition
        body = {"name": given.orchestration, "input": orjson.Fragment(given.input.encode()), "tags": given.tags}
        # Many schedules may tick at once.
        async with _large_starts(self.host) if len(given.input) > _LARGE else nullcontext():
            answer = await self._call(call.instance_id, "Start", body)
        if answer.get("success") is not False:
            return None
        refusal = str(answer.get("message"))
        if answer.get("error_code") == "INVALID_REQUEST":
            return self._not_started(call, refusal)
        # Its code is not deployed where the instance lives, or starts are refused for a while.
        raise Unavailable(f"{call.instance_id} cannot be started now: {refusal}")

    def _not_started(self, call: Call, reason: str) -> str:
        log.warning(
            "schedule %s: %s was not %s: %s",
            *(self.id.id, call.instance_id, "started" if call.method == "Start" else "cancelled", reason),
            extra=about(schedule=self._name, instance_id=call.instance_id, tenant=self._tenant),
        )
        return reason

    async def _update_index(self) -> None:
        async with self.work.turn() as turn:
            schedule = await self._load(turn)
        if schedule is None:
            return
        method = "Remove" if schedule.deleted else "Add"
        await self.host.invoke_method(SCHEDULE_INDEX_TYPE, index_of(self._tenant), method, dump(self._name))
        await self._call_myself("ConfirmIndexed", {"listed": not schedule.deleted})

    async def _call(self, instance_id: str, method: str, data: Any) -> Answer:
        batcher = CallBatcher.of(self.host, ORCHESTRATION_TYPE)
        return await batcher.call(qualify(self._tenant, instance_id), method, dump(data))

    async def _call_myself(self, method: str, data: Any) -> None:
        await self.host.invoke_method(SCHEDULE_TYPE, self.id.id, method, dump(data))


def _large_starts(client: HostClient) -> asyncio.Lock:
    """Returns the lock of this process for starts with a large input."""
    return _turns.setdefault(client, asyncio.Lock())


def schedule_actor(registry: Registry) -> type[ScheduleActor]:
    """Returns the actor class to register with a host, whose schedules start orchestrations of ``registry``."""
    # The SDK looks for Remindable among a class's own bases only.
    made: type[ScheduleActor] = type(SCHEDULE_TYPE, (ScheduleActor, Remindable), {"registry": registry})
    return made
