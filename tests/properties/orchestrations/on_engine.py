"""A program as an orchestration, and the world around it: what is due comes, late, twice, or after a restart."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json, to_json

from holdfast import App, Retry
from holdfast.orchestration.core.effects import CancelSubOrchestration, RunActivity, StartSubOrchestration
from holdfast.orchestration.core.failures import Failure
from holdfast.orchestration.core.history import (
    OrchestrationCancelled,
    OrchestrationCompleted,
    PatchMarked,
    TagsSet,
    load_event,
)
from holdfast.orchestration.core.instance import Instance, Verdict
from holdfast.orchestration.core.messages import (
    ActivityOutcome,
    Cancel,
    MakeRequest,
    RaiseEvent,
    Resume,
    Start,
    SubOrchestrationOutcome,
    Suspend,
)
from tests.properties.orchestrations.interpreter import Run
from tests.properties.orchestrations.on_asyncio import CANCELLED, WAITS, retry_delay
from tests.properties.orchestrations.programs import MAILBOX, REQUEST, Author

if TYPE_CHECKING:
    from holdfast import Context
    from holdfast.orchestration.core.history import Event
    from holdfast.orchestration.core.messages import Message
    from holdfast.orchestration.registry import Registry
    from holdfast.orchestration.status import Status
    from tests.properties.orchestrations.programs import Call, Program

#: The code that is deployed, and the code that was deployed before it: without the patches.
app, before = App(), App()


@app.orchestration
async def sub(ctx: Context, given: dict[str, Any]) -> str:
    raise NotImplementedError("the world answers for it")


@app.orchestration(mailboxes=[MAILBOX], requests=[REQUEST])
async def program(ctx: Context, seed: int) -> list[Any]:
    return await Run(InOrchestration(ctx)).whole(Author(seed).write().body)


before.registry.add_orchestration(app.registry.orchestration("sub"))


@before.orchestration(name="program", mailboxes=[MAILBOX], requests=[REQUEST])
async def program_before(ctx: Context, seed: int) -> list[Any]:
    return await Run(BeforePatches(ctx)).whole(Author(seed).write().body)


class InOrchestration:
    """Implements the calls of a program with an orchestration's context."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx

    async def call(self, call: Call) -> str:
        given = {"label": call.label, "seconds": call.seconds, "failures": call.failures}
        if call.sub:
            return str(await self._ctx.sub(sub, given, on_parent_end="abandon" if call.abandoned else "cancel"))
        retry = Retry(max_attempts=call.attempts, first_delay=retry_delay(1), factor=1.3, jitter=0)
        return str(await self._ctx.call("act", given, retry=retry, priority=call.priority))

    async def event(self, name: str) -> str:
        return await self._ctx.event(name, str)

    async def receive(self) -> str:
        return await self._ctx.receive(MAILBOX, str)

    async def answer(self) -> str:
        request = await self._ctx.request(REQUEST, str)
        request.reply(f"reply to {request.data}")
        return request.data

    def set_tag(self, key: str, value: str | None) -> None:
        self._ctx.set_tags({key: value})

    def patched(self, name: str) -> bool:
        return self._ctx.patched(name)


class BeforePatches(InOrchestration):
    """The same for code that has no patches yet."""

    def patched(self, name: str) -> bool:
        return False


@dataclass(frozen=True)
class Way:
    """How the world treats an instance. What is false or 0 changes nothing in its history."""

    #: How likely its code is dropped after a delivery, and rebuilt from its history.
    restarts: float = 0.0
    #: How likely a message comes again, and a message comes that belongs to no call.
    noise: float = 0.0
    #: How long messages are held back, to be delivered together; timers are late with them.
    lateness: float = 0.0
    #: After how many deliveries the patched code is deployed.
    deployed_after: int = 0


@dataclass
class Result:
    outcome: Any
    history: list[dict[str, Any]]
    effects: list[dict[str, Any]]


class World:
    """An instance, and all its messages in the order of time."""

    def __init__(self, program: Program, way: Way) -> None:
        self._way = way
        self._tags = dict(program.tags)
        #: The numbers of events after each delivery.
        self.saved: list[int] = []
        # The lateness is the same whatever else happens.
        self._lateness = Random(program.seed)
        self._chance = Random(program.seed + 1)
        self._now = 0.0
        self._due: list[tuple[float, int, Message]] = []
        self._sent = 0
        self._history: list[Event] = []
        self._effects: list[dict[str, Any]] = []
        self._past: list[Message] = []
        self._instance = Instance(self._registry, "test")
        event = None if program.event is None else RaiseEvent(name=program.event, data='"0"')
        start = Start(
            name="program",
            input=str(program.seed),
            seed="seed",
            tags=self._tags,
            event=event,
            priority=program.priority,
            start_at=program.start_at,
        )
        self._send(0.0, start)
        for number, (moment, name) in enumerate(program.raised, start=1):
            data, key = f'"{number}"', str(number)
            if name == REQUEST:
                self._send(moment, MakeRequest(name=name, data=data, request_id=key))
            else:
                self._send(moment, RaiseEvent(name=name, data=data, event_id=key))
        if program.cancelled_at is not None:
            self._send(program.cancelled_at, Cancel())
        if way.lateness and program.suspended is not None:
            self._send(program.suspended[0], Suspend())
            self._send(program.suspended[1], Resume())

    def run(self) -> Result:
        while self._instance.ending is None and self._step():
            pass
        ending = self._instance.ending
        if isinstance(ending, OrchestrationCompleted):
            outcome = [*from_json(ending.output), self._final_tags()]
        else:
            outcome = CANCELLED if isinstance(ending, OrchestrationCancelled) else WAITS
            assert ending is None or outcome is CANCELLED, ending
        self._instance.close()
        return Result(outcome, [event.dump() for event in self._history], self._effects)

    def _step(self) -> bool:
        moments = [self._due[0][0]] if self._due else []
        if self._instance.next_moment is not None:
            moments.append(self._instance.next_moment)
        if not moments:
            return False
        self._now = max(self._now, min(moments))
        if self._way.lateness:
            self._now += self._lateness.expovariate(1 / self._way.lateness)
        messages = []
        while self._due and self._due[0][0] <= self._now:
            messages.append(heapq.heappop(self._due)[2])
        self._deliver(messages)
        return True

    def _deliver(self, messages: list[Message]) -> None:
        true, noise = len(messages), [*self._noise()]
        delivery = self._instance.deliver([*messages, *noise], self._now)
        assert len(delivery.replies) == true + len(noise)
        assert Verdict.RECORDED not in delivery.replies[true:], (noise, delivery.replies)
        self._past += messages
        self._history += delivery.events
        for effect in delivery.effects:
            self._effects.append(effect.dump())
            if isinstance(effect, RunActivity | StartSubOrchestration):
                self._work(effect)
            elif isinstance(effect, CancelSubOrchestration):
                [scheduled] = [
                    event for event in self._history if getattr(event, "instance_id", None) == effect.instance_id
                ]
                assert scheduled.dump().get("on_parent_end") is None
        self.saved.append(len(self._history))
        deploys = len(self.saved) == self._way.deployed_after
        if deploys or self._chance.random() < self._way.restarts:
            self._instance.close()
            self._instance = self.restored(len(self._history))

    @property
    def _registry(self) -> Registry:
        return (before if len(self.saved) < self._way.deployed_after else app).registry

    def restored(self, count: int) -> Instance:
        """A new process has the deployed code and the first ``count`` events."""
        kept = [load_event(from_json(to_json(event.dump()))) for event in self._history[:count]]
        return Instance.restore(self._registry, "test", kept)

    def patches(self) -> list[str]:
        return [event.name for event in self._history if isinstance(event, PatchMarked)]

    def _final_tags(self) -> dict[str, str]:
        changes = (change for event in self._history if isinstance(event, TagsSet) for change in event.tags.items())
        tags: dict[str, str | None] = dict(self._tags)
        for key, value in changes:
            tags[key] = value
        return {key: value for key, value in tags.items() if value is not None}

    def _work(self, effect: RunActivity | StartSubOrchestration) -> None:
        given = from_json(effect.input)
        attempt = effect.attempt if isinstance(effect, RunActivity) else 1
        failed = attempt <= given["failures"]
        failure = Failure(type="Boom", message=given["label"]) if failed else None
        kind = ActivityOutcome if isinstance(effect, RunActivity) else SubOrchestrationOutcome
        outcome = kind(
            execution_id=1,
            scheduled_seq=effect.scheduled_seq,
            result=None if failed else f'"{given["label"]}"',
            error=failure,
        )
        self._send(self._now + given["seconds"], outcome)

    def _noise(self) -> list[Message]:
        """Returns repeated messages, and messages that are not for this execution."""
        if self._chance.random() >= self._way.noise:
            return []
        past = [message for message in self._past if not isinstance(message, Suspend | Resume) and _told_apart(message)]
        again = self._chance.sample(past, min(len(past), 3))
        stray = ActivityOutcome(execution_id=2, scheduled_seq=2, result="1")
        unknown = ActivityOutcome(execution_id=1, scheduled_seq=10_000, result="1")
        return [*again, stray, unknown, RaiseEvent(name="unheard-of", data="1")]

    def _send(self, moment: float, message: Message) -> None:
        self._sent += 1
        heapq.heappush(self._due, (moment, self._sent, message))


def _told_apart(message: Message) -> bool:
    """An event that was dropped may be taken when it comes again: something waits for it now."""
    return not isinstance(message, RaiseEvent) or message.name == MAILBOX


def well_formed(history: list[dict[str, Any]], status: Status | None = None) -> None:
    """Contiguous, one ending at most, and every answer after its question, once."""
    endings = {"OrchestrationCompleted", "OrchestrationFailed", "OrchestrationCancelled"}
    answered: set[int] = set()
    scheduled: dict[int, str] = {}
    for place, event in enumerate(history, start=1):
        assert event["seq"] == place
        assert (event["type"] in endings) <= (place == len(history))
        if "scheduled_seq" in event:
            question = scheduled[event["scheduled_seq"]]
            assert question[:5] == event["type"][:5]
            assert event["scheduled_seq"] not in answered
            answered.add(event["scheduled_seq"])
        else:
            scheduled[place] = event["type"]
    assert [event["timestamp"] for event in history] == sorted(event["timestamp"] for event in history)
    requests = [(event["type"], event["request_id"]) for event in history if "request_id" in event]
    assert len(set(requests)) == len(requests)
    for place, (kind, request_id) in enumerate(requests):
        assert kind == "RequestReceived" or ("RequestReceived", request_id) in requests[:place]
