"""A stage on which orchestrations run as they would on a server, in milliseconds."""

from __future__ import annotations

import inspect
from collections import deque
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError, InvalidRequest, OrchestrationCancelled
from holdfast.orchestration import history
from holdfast.orchestration.definitions import Activity, Orchestration, definition_of
from holdfast.orchestration.effects import (
    CancelSubOrchestration,
    RunActivity,
    StartSubOrchestration,
    TellParent,
)
from holdfast.orchestration.failures import Failure
from holdfast.orchestration.instance import Instance, Status
from holdfast.orchestration.messages import (
    ActivityOutcome,
    Cancel,
    Message,
    RaiseEvent,
    Resume,
    Start,
    SubOrchestrationOutcome,
    Suspend,
)
from holdfast.orchestration.payloads import ANYTHING
from holdfast.worker.bench import Job
from holdfast.worker.context import ActivityContext, current

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.app import App
    from holdfast.orchestration.effects import Effect
    from holdfast.orchestration.history import Event

BEGINNING = datetime(2024, 1, 1, tzinfo=UTC)
# So many calls and messages one after the other, and something goes round in a circle.
MAX_STEPS = 100_000


class Rehearsal:
    """Instances of one app, whose activities are called here, and whose time passes when it is told to."""

    def __init__(self, app: App, *, now: datetime = BEGINNING) -> None:
        self._app = app
        self._now = now.timestamp()
        self._fakes: dict[str, Callable[..., Any]] = {}
        self._runs: dict[str, Run] = {}
        self._waiting: deque[tuple[str, Effect]] = deque()

    @property
    def now(self) -> datetime:
        return datetime.fromtimestamp(self._now, UTC)

    def fake(self, activity: Callable[..., Any] | str, function: Callable[..., Any]) -> None:
        """Has this called, async or not, in place of the activity; what it raises is the activity's failure."""
        self._fakes[_name(activity, Activity)] = function

    def start(
        self,
        orchestration: Callable[..., Any] | str,
        input: Any = None,  # noqa: A002
        *,
        instance_id: str | None = None,
        version: str | None = None,
    ) -> Run:
        """Begins an instance; nothing is called until the run is settled."""
        name = _name(orchestration, Orchestration)
        if not isinstance(orchestration, str) and version is None:
            given = definition_of(orchestration)
            version = given.version if isinstance(given, Orchestration) else None
        definition = self._app.registry.orchestration(name, version)
        run = self._run(instance_id or f"{name}-{len(self._runs) + 1}")
        run._deliver(Start(name=name, input=definition.input.dump(input), seed=run.instance_id, version=version))
        return run

    async def run(self, orchestration: Callable[..., Any] | str, input: Any = None, **options: Any) -> Any:  # noqa: A002
        """Its result, however long it waits: time is skipped until it has ended."""
        run = self.start(orchestration, input, **options)
        await run.settle()
        for _ in range(MAX_STEPS):
            if run.ended:
                return run.result()
            moment = min((one.next_moment for one in self._runs.values() if one.next_moment is not None), default=None)
            if moment is None:
                raise HoldfastError(f"{run.instance_id} waits for something that nobody sends: {run.waits_for()}.")
            await self._pass_until(moment)
        raise HoldfastError(
            f"{run.instance_id} has not ended after {MAX_STEPS:,} moments: skip() lets time pass step by step."
        )

    async def skip(self, seconds: float) -> None:
        """Lets time pass, and everything happen that is due meanwhile, in its order."""
        await self.settle()
        until = self._now + seconds
        while True:
            moments = [run.next_moment for run in self._runs.values() if run.next_moment is not None]
            moment = min((moment for moment in moments if moment <= until), default=None)
            if moment is None:
                break
            await self._pass_until(moment)
        self._now = until
        await self.settle()

    async def settle(self) -> None:
        """Calls the activities that are scheduled, and goes on until everything waits for time or for events."""
        for _ in range(MAX_STEPS):
            if not self._waiting:
                return
            instance_id, effect = self._waiting.popleft()
            await self._bring_about(self._runs[instance_id], effect)
        raise HoldfastError(
            f"Nothing comes to rest after {MAX_STEPS:,} calls: does an orchestration go round for ever?"
        )

    def close(self) -> None:
        for run in self._runs.values():
            run._instance.close()

    def __enter__(self) -> Rehearsal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, instance_id: str) -> Run:
        if instance_id in self._runs:
            raise InvalidRequest(f"There is an orchestration {instance_id} already.")
        run = self._runs[instance_id] = Run(self, Instance(self._app.registry, instance_id))
        return run

    async def _pass_until(self, moment: float) -> None:
        self._now = max(self._now, moment)
        for run in list(self._runs.values()):
            if run.next_moment is not None and run.next_moment <= self._now:
                run._deliver()
        await self.settle()

    async def _bring_about(self, run: Run, effect: Effect) -> None:
        if isinstance(effect, RunActivity):
            if run._instance.waits_for_activity(effect.execution_id, effect.scheduled_seq):
                run._deliver(await self._call(run, effect))
        elif isinstance(effect, StartSubOrchestration):
            self._start_child(run, effect)
        elif isinstance(effect, CancelSubOrchestration):
            child = self._runs.get(effect.instance_id)
            if child is not None and not child.ended:
                child._deliver(Cancel(reason=effect.reason))
        elif isinstance(effect, TellParent):
            parent = self._runs[effect.parent.instance_id]
            parent._deliver(
                SubOrchestrationOutcome(
                    execution_id=effect.parent.execution_id,
                    scheduled_seq=effect.parent.scheduled_seq,
                    result=effect.result,
                    error=effect.error,
                )
            )

    def _start_child(self, run: Run, effect: StartSubOrchestration) -> None:
        try:
            child = self._run(effect.instance_id)
            child._deliver(
                Start(
                    name=effect.name,
                    input=effect.input,
                    seed=effect.instance_id,
                    version=effect.version,
                    parent=effect.parent,
                )
            )
        except HoldfastError as error:
            if effect.parent is not None:
                refused = Failure.of(error, "refused")
                run._deliver(
                    SubOrchestrationOutcome(
                        execution_id=effect.execution_id, scheduled_seq=effect.scheduled_seq, error=refused
                    )
                )

    async def _call(self, run: Run, effect: RunActivity) -> Message:
        activity = self._app.registry.activity(effect.name)
        function = self._fakes.get(effect.name) or (None if activity is None else activity.function)
        outcome: dict[str, Any] = {"execution_id": effect.execution_id, "scheduled_seq": effect.scheduled_seq}
        job = Job(
            item_id="",
            instance_id=run.instance_id,
            execution_id=effect.execution_id,
            scheduled_seq=effect.scheduled_seq,
            name=effect.name,
            attempt=effect.attempt,
            input=effect.input,
            deliveries=1,
        )
        token = current.set(ActivityContext.of(job))
        try:
            if function is None:
                raise InvalidRequest(f"No activity is called {effect.name}: declare it, or give a fake for it.")
            arguments = (ANYTHING.load(effect.input),) if activity is None else activity.arguments(effect.input)
            result = function(*arguments)
            if inspect.isawaitable(result):
                result = await result
            text = (ANYTHING if activity is None else activity.result).dump(result)
        except Exception as error:
            return ActivityOutcome(**outcome, error=Failure.of(error))
        finally:
            current.reset(token)
        return ActivityOutcome(**outcome, result=text)


class Run:
    """One instance of a rehearsal."""

    def __init__(self, rehearsal: Rehearsal, instance: Instance) -> None:
        self._rehearsal = rehearsal
        self._instance = instance
        self._history: list[Event] = []

    @property
    def instance_id(self) -> str:
        return self._instance.instance_id

    @property
    def status(self) -> Status:
        return self._instance.status

    @property
    def ended(self) -> bool:
        return self._instance.ending is not None

    @property
    def custom_status(self) -> Any:
        status = self._instance.custom_status
        return None if status is None else ANYTHING.load(status)

    @property
    def history(self) -> list[dict[str, Any]]:
        """The events of all its executions, with payloads as values."""
        return [event.show() for event in self._history]

    @property
    def next_moment(self) -> float | None:
        return self._instance.next_moment

    async def settle(self) -> None:
        await self._rehearsal.settle()

    async def raise_event(self, name: str, data: Any = None) -> None:
        self._deliver(RaiseEvent(name=name, data=ANYTHING.dump(data)))
        await self.settle()

    async def cancel(self, reason: str | None = None) -> None:
        self._deliver(Cancel(reason=reason))
        await self.settle()

    async def suspend(self) -> None:
        self._deliver(Suspend())
        await self.settle()

    async def resume(self) -> None:
        self._deliver(Resume())
        await self.settle()

    def result(self) -> Any:
        """Its output. Raises OrchestrationFailed when it failed or was cancelled."""
        ending = self._instance.ending
        if isinstance(ending, history.OrchestrationCompleted):
            started = self._instance.started
            assert started is not None
            definition = self._rehearsal._app.registry.orchestration(started.name, started.version)
            return definition.result.load(ending.output)
        if isinstance(ending, history.OrchestrationFailed):
            raise ending.error.as_error(self.instance_id)
        if isinstance(ending, history.OrchestrationCancelled):
            raise OrchestrationCancelled(f"The orchestration {self.instance_id} was cancelled.")
        raise HoldfastError(f"{self.instance_id} has not ended: it waits for {self.waits_for()}.")

    def waits_for(self) -> str:
        """In words, for whoever wonders why it does not go on."""
        open_events: dict[int, str] = {}
        for event in self._history:
            if isinstance(event, history.EventSubscribed):
                open_events[event.seq] = f"the event {event.name}"
            elif isinstance(event, history.TimerCreated):
                open_events[event.seq] = f"{datetime.fromtimestamp(event.fire_at, UTC):%Y-%m-%d %H:%M:%S} UTC"
            elif isinstance(event, history.ActivityScheduled):
                open_events[event.seq] = f"the activity {event.name}"
            elif isinstance(event, history.SubOrchestrationScheduled):
                open_events[event.seq] = f"the orchestration {event.instance_id}"
            elif (answered := getattr(event, "scheduled_seq", None)) is not None:
                open_events.pop(answered, None)
        return ", ".join(open_events.values()) or "a mailbox"

    def _deliver(self, *messages: Message) -> None:
        delivery = self._instance.deliver(messages, self._rehearsal._now)
        self._history += delivery.events
        self._rehearsal._waiting.extend((self.instance_id, effect) for effect in delivery.effects)
        for reply in delivery.replies:
            if isinstance(reply, HoldfastError):
                raise reply


def _name(function: Callable[..., Any] | str, kind: type) -> str:
    if isinstance(function, str):
        return function
    definition = definition_of(function)
    if definition is None or not isinstance(definition, kind):
        raise TypeError(f"{function!r} is not declared as {kind.__name__.lower()} of an app.")
    return definition.name
