"""A test environment in which orchestrations run as on a server, with fake activities and a clock the test advances."""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Unpack

from holdfast.errors import (
    HoldfastError,
    InvalidRequest,
    OrchestrationCancelled,
    OrchestrationEnded,
    Rejected,
    by_code,
)
from holdfast.orchestration.core import history
from holdfast.orchestration.core.effects import (
    CancelSubOrchestration,
    NotifyParent,
    RunActivity,
    StartSubOrchestration,
)
from holdfast.orchestration.core.failures import Failure
from holdfast.orchestration.core.instance import Instance, Verdict
from holdfast.orchestration.core.messages import (
    ActivityOutcome,
    Cancel,
    MakeRequest,
    Message,
    RaiseEvent,
    Resume,
    Start,
    SubOrchestrationOutcome,
    Suspend,
)
from holdfast.orchestration.core.payloads import ANYTHING, NULL
from holdfast.orchestration.definitions import Activity, Orchestration, definition_of
from holdfast.orchestration.tags import check_tags, merged
from holdfast.testing.replays import ReplayCheck
from holdfast.worker.context import ActivityContext, current
from holdfast.worker.work_source import Job

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.app import App
    from holdfast.client.start_options import StartOptions
    from holdfast.orchestration.core.effects import Effect
    from holdfast.orchestration.core.history import Event, RequestAnswered
    from holdfast.orchestration.core.instance import Reply
    from holdfast.orchestration.status import Status

BEGINNING = datetime(2024, 1, 1, tzinfo=UTC)
# After this many calls and messages the environment assumes an endless loop.
MAX_STEPS = 100_000


class TestEnvironment:
    """Runs instances of one app in the test's own process. Its clock stands still until ``advance`` is called."""

    #: Not a test case, although pytest collects classes by such names.
    __test__ = False

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
        """Calls ``function``, async or not, in place of the activity. Its exceptions are failures of the activity."""
        self._fakes[_name(activity, Activity)] = function

    def start(
        self,
        orchestration: Callable[..., Any] | str,
        input: Any = None,  # noqa: A002
        *,
        instance_id: str | None = None,
        version: str | None = None,
        **options: Unpack[StartOptions],
    ) -> Run:
        """Starts an instance. Activities are not called before ``run_until_idle`` or ``advance``.

        The options are those of ``Client.start``. With an ``event`` the instance may exist already.
        """
        event = options.get("event")
        raised = None if event is None else RaiseEvent(name=event["name"], data=ANYTHING.dump(event.get("data")))
        if instance_id in self._runs and raised is not None:
            self._runs[instance_id]._deliver(raised)
            return self._runs[instance_id]
        name = _name(orchestration, Orchestration)
        if not isinstance(orchestration, str) and version is None:
            given = definition_of(orchestration)
            version = given.version if isinstance(given, Orchestration) else None
        definition = self._app.registry.orchestration(name, version)
        run = self._run(instance_id or f"{name}-{len(self._runs) + 1}")
        start_at = options.get("start_at")
        run._deliver(
            Start(
                name=name,
                input=definition.input.dump(input),
                seed=run.instance_id,
                version=version,
                tags=check_tags(options.get("tags") or {}),
                priority=options.get("priority"),
                start_at=None if start_at is None else _in_utc(start_at).timestamp(),
                event=raised,
            )
        )
        return run

    async def run(self, orchestration: Callable[..., Any] | str, input: Any = None, **options: Any) -> Any:  # noqa: A002
        """Runs an orchestration to its end, advancing the clock as needed, and returns its result."""
        run = self.start(orchestration, input, **options)
        await run.run_until_idle()
        for _ in range(MAX_STEPS):
            if run.ended:
                return run.result()
            moment = min((one.next_moment for one in self._runs.values() if one.next_moment is not None), default=None)
            if moment is None:
                raise HoldfastError(f"{run.instance_id} cannot end: it waits for {run.waits_for()}.")
            await self._pass_until(moment)
        raise HoldfastError(
            f"{run.instance_id} has not ended after {MAX_STEPS:,} timers: use advance() to let time pass in steps."
        )

    async def advance(self, seconds: float) -> None:
        """Advances the clock, firing the timers that become due, in order."""
        await self.run_until_idle()
        until = self._now + seconds
        while True:
            moments = [run.next_moment for run in self._runs.values() if run.next_moment is not None]
            moment = min((moment for moment in moments if moment <= until), default=None)
            if moment is None:
                break
            await self._pass_until(moment)
        self._now = until
        await self.run_until_idle()

    async def run_until_idle(self) -> None:
        """Calls scheduled activities and delivers messages until every instance waits for time or for events."""
        for _ in range(MAX_STEPS):
            if not self._waiting:
                for run in self._runs.values():
                    run._replays.replay_when_idle(ended=run.ended)
                return
            instance_id, effect = self._waiting.popleft()
            await self._bring_about(self._runs[instance_id], effect)
        raise HoldfastError(f"The instances are not idle after {MAX_STEPS:,} calls: an orchestration may loop forever.")

    def close(self) -> None:
        """Ends all instances. Raises NonDeterminism when the code of one does not do the same again."""
        try:
            for run in self._runs.values():
                run._replays.replay()
        finally:
            self._drop()

    def _drop(self) -> None:
        for run in self._runs.values():
            run._instance.close()

    def __enter__(self) -> TestEnvironment:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self._drop()  # the test has failed already

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
        await self.run_until_idle()

    async def _bring_about(self, run: Run, effect: Effect) -> None:
        if isinstance(effect, RunActivity):
            if run._instance.waits_for_activity(effect.execution_id, effect.scheduled_seq):
                run._deliver(await self._call(run, effect))
        elif isinstance(effect, StartSubOrchestration):
            self._start_child(run, effect)
        elif isinstance(effect, CancelSubOrchestration):
            child = self._runs.get(effect.instance_id)
            started = None if child is None else child._instance.started
            if child is not None and not child.ended and started is not None and started.parent == effect.parent:
                child._deliver(Cancel(reason=effect.reason))
        elif isinstance(effect, NotifyParent):
            parent = self._runs[effect.parent.instance_id]
            parent._deliver(
                SubOrchestrationOutcome(
                    execution_id=effect.parent.execution_id,
                    scheduled_seq=effect.parent.scheduled_seq,
                    result=effect.result,
                    error=None if effect.error is None else replace(effect.error, exception=run._instance.error),
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
        reported = [effect.heartbeat_details]
        limit: asyncio.Timeout | None = None
        context = ActivityContext.of(
            job, beat=lambda text: reported.append(text or reported[-1]), heartbeat_details=effect.heartbeat_details
        )
        token = current.set(context)
        try:
            if function is None:
                raise InvalidRequest(f"No activity is called {effect.name}: declare it, or give a fake for it.")
            arguments = (ANYTHING.load(effect.input),) if activity is None else activity.arguments(effect.input)
            async with asyncio.timeout(None if activity is None else activity.timeout) as limit:
                result = await _result(function, arguments, in_thread=limit.when() is not None)
            text = (ANYTHING if activity is None else activity.result).dump(result)
        except Exception as error:
            failed = Failure.of(error, "timeout" if limit is not None and limit.expired() else "error")
            error_of = replace(failed, exception=error)
            return ActivityOutcome(**outcome, error=error_of, heartbeat_details=reported[-1])
        finally:
            current.reset(token)
        return ActivityOutcome(**outcome, result=text)


class Run:
    """One instance in a test environment."""

    def __init__(self, orchestration_env: TestEnvironment, instance: Instance) -> None:
        self._environment = orchestration_env
        self._instance = instance
        self._history: list[Event] = []
        self._replays = ReplayCheck(orchestration_env._app.registry, instance.instance_id)

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
    def tags(self) -> dict[str, str]:
        tags: dict[str, str] = {}
        for event in self._history:
            if isinstance(event, history.OrchestrationStarted):
                tags = event.tags or {}
            elif isinstance(event, history.TagsSet):
                tags = merged(tags, event.tags)
        return tags

    @property
    def history(self) -> list[dict[str, Any]]:
        """The events of all executions, with payloads as values."""
        return [event.show() for event in self._history]

    @property
    def next_moment(self) -> float | None:
        return self._instance.next_moment

    async def run_until_idle(self) -> None:
        await self._environment.run_until_idle()

    async def raise_event(self, name: str, data: Any = None) -> bool:
        """Raises an event and returns whether it was delivered: to a mailbox, or to code that waits for it."""
        [reply] = self._deliver(RaiseEvent(name=name, data=ANYTHING.dump(data)))
        await self.run_until_idle()
        return reply is not Verdict.NO_SUBSCRIBER

    async def request(self, name: str, data: Any = None, *, request_id: str | None = None) -> Any:
        """Makes a request and returns the reply of the code. The same ``request_id`` gives the first reply again.

        Raises ``Rejected`` with the message of the code, ``Conflict`` when the instance has ended without a reply, and
        ``TimeoutError`` when the code is idle and has not replied: then :meth:`reply` returns the reply later.
        """
        request_id = request_id or f"request-{len(self._history) + 1}"
        if self._answer(request_id) is None:
            self._deliver(MakeRequest(name=name, data=ANYTHING.dump(data), request_id=request_id))
        await self.run_until_idle()
        return self.reply(request_id)

    def reply(self, request_id: str) -> Any:
        """Returns the reply to an earlier request. Raises as :meth:`request` does."""
        answer = self._answer(request_id)
        if answer is None:
            if self.ended:
                raise OrchestrationEnded(f"{self.instance_id} has ended without a reply to the request {request_id}.")
            raise TimeoutError(
                f"{self.instance_id} has not replied to the request {request_id}: it waits for {self.waits_for()}."
            )
        if answer.rejected is not None:
            raise by_code(answer.error_code or Rejected.code, answer.rejected)
        return ANYTHING.load(answer.reply or NULL)

    def _answer(self, request_id: str) -> RequestAnswered | None:
        answers = (event for event in self._history if isinstance(event, history.RequestAnswered))
        return next((answer for answer in answers if answer.request_id == request_id), None)

    async def cancel(self, reason: str | None = None) -> None:
        self._deliver(Cancel(reason=reason))
        await self.run_until_idle()

    async def suspend(self) -> None:
        self._deliver(Suspend())
        await self.run_until_idle()

    async def resume(self) -> None:
        self._deliver(Resume())
        await self.run_until_idle()

    def result(self) -> Any:
        """Returns the output. Raises OrchestrationFailed or OrchestrationCancelled when it ended differently."""
        ending = self._instance.ending
        if isinstance(ending, history.OrchestrationCompleted):
            started = self._instance.started
            assert started is not None
            definition = self._environment._app.registry.orchestration(started.name, started.version)
            return definition.result.load(ending.output)
        if isinstance(ending, history.OrchestrationFailed):
            raise replace(ending.error, exception=self._instance.error).as_error(self.instance_id)
        if isinstance(ending, history.OrchestrationCancelled):
            raise OrchestrationCancelled(f"The orchestration {self.instance_id} was cancelled.")
        raise HoldfastError(f"{self.instance_id} has not ended: it waits for {self.waits_for()}.")

    def waits_for(self) -> str:
        """Describes what the instance waits for, for error messages."""
        return ", ".join(map(str, self._instance.waiting_for)) or "nothing that comes from outside"

    def _deliver(self, *messages: Message) -> list[Reply]:
        delivery = self._instance.deliver(messages, self._environment._now)
        self._history += delivery.events
        self._replays.add(delivery.events)
        self._environment._waiting.extend((self.instance_id, effect) for effect in delivery.effects)
        for reply in delivery.replies:
            if isinstance(reply, HoldfastError):
                raise reply
        return delivery.replies


async def _result(function: Callable[..., Any], arguments: tuple[Any, ...], *, in_thread: bool) -> Any:
    """Calls an activity. One with a time-out that is not async runs in a thread, as in a worker."""
    if in_thread and not inspect.iscoroutinefunction(function):
        result = await asyncio.to_thread(function, *arguments)
    else:
        result = function(*arguments)
    return await result if inspect.isawaitable(result) else result


def _in_utc(moment: datetime) -> datetime:
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _name(function: Callable[..., Any] | str, kind: type) -> str:
    if isinstance(function, str):
        return function
    definition = definition_of(function)
    if definition is None or not isinstance(definition, kind):
        raise TypeError(f"{function!r} is not declared as {kind.__name__.lower()} of an app.")
    return definition.name
