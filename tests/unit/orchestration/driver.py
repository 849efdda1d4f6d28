"""Drives one instance without a host: its messages, its clock and its history, its code kept or rebuilt each time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic_core import from_json, to_json

from holdfast.orchestration.core import history
from holdfast.orchestration.core.effects import RunActivity
from holdfast.orchestration.core.event_ids import EventIds
from holdfast.orchestration.core.failures import Failure
from holdfast.orchestration.core.history import load_event
from holdfast.orchestration.core.instance import Instance, Verdict
from holdfast.orchestration.core.limits import DEFAULT_LIMITS, Limits
from holdfast.orchestration.core.messages import (
    ActivityOutcome,
    MakeRequest,
    RaiseEvent,
    Start,
    SubOrchestrationOutcome,
)
from holdfast.orchestration.status import Status

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast import App
    from holdfast.orchestration.core.effects import Effect
    from holdfast.orchestration.core.history import Event
    from holdfast.orchestration.core.instance import Reply
    from holdfast.orchestration.core.messages import Message

BEGINNING = 1_800_000_000.0


class Driver:
    """With ``cold`` the code is dropped after every delivery, and rebuilt from a history that went through JSON."""

    def __init__(
        self, app: App, instance_id: str = "test", *, cold: bool = False, limits: Limits = DEFAULT_LIMITS
    ) -> None:
        self.app = app
        self.cold = cold
        self.now = BEGINNING
        #: Of all executions.
        self.events: list[Event] = []
        self.effects: list[Effect] = []
        self._event_ids: list[str] = []
        self._limits = limits
        self.instance = Instance(app.registry, instance_id, self._limits)

    @property
    def history(self) -> list[Event]:
        """Of the present execution."""
        return [event for event in self.events if event.execution_id == self.instance.execution_id]

    @property
    def types(self) -> list[str]:
        return [event.type for event in self.history]

    @property
    def status(self) -> Status:
        return self.instance.status

    @property
    def output(self) -> Any:
        ending = self.instance.ending
        assert isinstance(ending, history.OrchestrationCompleted), ending
        return from_json(ending.output)

    @property
    def error(self) -> Failure:
        ending = self.instance.ending
        assert isinstance(ending, history.OrchestrationFailed), ending
        return ending.error

    def deliver(self, *messages: Message) -> list[Reply]:
        delivery = self.instance.deliver(messages, self.now)
        self.events += delivery.events
        self.effects += delivery.effects
        self._event_ids += self.instance.take_event_ids()
        if self.cold:
            self.rebuild()
        return delivery.replies

    def rebuild(self, app: App | None = None) -> None:
        """The process ended, and another one loads what was saved, with this app."""
        self.app = app or self.app
        self.instance.close()
        kept = [load_event(from_json(to_json(event.dump()))) for event in self.history]
        ids = EventIds(self._event_ids)
        answered = {event.request_id for event in self.events if isinstance(event, history.RequestAnswered)}
        self.instance = Instance.restore(
            self.app.registry, self.instance.instance_id, kept, self._limits, event_ids=ids, answered=answered
        )

    def start(self, name: str, given: Any = None, version: str | None = None) -> Reply:
        [reply] = self.deliver(Start(name=name, input=_text(given), seed="seed", version=version))
        return reply

    def complete(self, seq: int, result: Any = None) -> Reply:
        [reply] = self.deliver(self.completion(seq, result))
        return reply

    def completion(self, seq: int, result: Any = None) -> ActivityOutcome:
        return ActivityOutcome(execution_id=self.instance.execution_id, scheduled_seq=seq, result=_text(result))

    def fail(self, seq: int, error: Exception, kind: Any = "error") -> Reply:
        failure = Failure.of(error, kind)
        [reply] = self.deliver(
            ActivityOutcome(execution_id=self.instance.execution_id, scheduled_seq=seq, error=failure)
        )
        return reply

    def complete_sub(self, seq: int, result: Any = None) -> Reply:
        execution_id = self.instance.execution_id
        [reply] = self.deliver(
            SubOrchestrationOutcome(execution_id=execution_id, scheduled_seq=seq, result=_text(result))
        )
        return reply

    def fail_sub(self, seq: int, failure: Failure) -> Reply:
        execution_id = self.instance.execution_id
        [reply] = self.deliver(SubOrchestrationOutcome(execution_id=execution_id, scheduled_seq=seq, error=failure))
        return reply

    def raise_event(self, name: str, data: Any = None, event_id: str | None = None) -> Reply:
        [reply] = self.deliver(RaiseEvent(name=name, data=_text(data), event_id=event_id))
        return reply

    def request(self, name: str, data: Any = None, request_id: str = "r") -> Reply:
        [reply] = self.deliver(MakeRequest(name=name, data=_text(data), request_id=request_id))
        return reply

    def answer(self, request_id: str = "r") -> Any:
        """The reply to a request, or why it was rejected."""
        for event in self.events:
            if isinstance(event, history.RequestAnswered) and event.request_id == request_id:
                return from_json(event.reply) if event.reply is not None else (event.rejected, event.error_code)
        return None

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.deliver()

    def wait(self) -> None:
        """Until the next timer."""
        assert self.instance.next_moment is not None, "it waits for no timer"
        self.now = self.instance.next_moment
        self.deliver()

    def run(self, answer: Callable[[RunActivity], Any] | None = None) -> Any:
        """Runs to the end: ``answer`` completes activities at once; time passes when nothing else is due."""
        answered = 0
        while self.status is Status.RUNNING:
            calls = [effect for effect in self.effects if isinstance(effect, RunActivity)]
            if answered < len(calls):
                assert answer is not None, f"the test gives no result for {calls[answered]}"
                effect = calls[answered]
                answered += 1
                assert self.complete(effect.scheduled_seq, answer(effect)) is Verdict.RECORDED
            else:
                self.wait()
        return self.output


def _text(value: Any) -> str:
    return to_json(value).decode()
