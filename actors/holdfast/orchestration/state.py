"""An instance in memory: what is saved of it, and its code, where it waits."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from holdfast.errors import CodeMissing, NotFound, OrchestrationEnded, UnknownOrchestration
from holdfast.orchestration.chronicle import ENDING
from holdfast.orchestration.effects import RunActivity, StartSubOrchestration
from holdfast.orchestration.history import EventRaised
from holdfast.orchestration.instance import Instance, Verdict
from holdfast.orchestration.messages import ActivityOutcome, Outcome, RaiseEvent, Start

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.orchestration.chronicle import Chronicle
    from holdfast.orchestration.effects import Effect
    from holdfast.orchestration.instance import Reply
    from holdfast.orchestration.messages import Message
    from holdfast.orchestration.registry import Registry
    from holdfast.runtime.meters import Meters
    from holdfast.runtime.work import Turn

log = logging.getLogger(__name__)

# When an instance whose code is not here is looked at again.
_WITHOUT_CODE_SECONDS = 60.0
_UNDECLARED = "other"


class State:
    """What is in memory of an instance: what is saved of it, and its code, where it waits."""

    def __init__(
        self, chronicle: Chronicle, registry: Registry, meters: Meters, now: Callable[[], float], *, restored: bool
    ) -> None:
        self.chronicle = chronicle
        #: Whether something was saved of it before it came into memory.
        self.restored = restored
        #: Of one that had ended: the index was told before that, or is when somebody comes for it after a crash.
        self.left_to_vigil = (chronicle.listing,) if restored and chronicle.ended else None
        self._registry = registry
        self._meters = meters
        self._now = now
        self._instance: Instance | None = None
        #: Of activities whose outcome is yet to be saved: their names, how they ended, and how long they took.
        self._latencies: list[tuple[str, str, float]] = []

    @property
    def to_be_listed(self) -> bool:
        return self.chronicle.to_be_listed and self.left_to_vigil != (self.chronicle.listing,)

    @property
    def owes(self) -> bool:
        """Whether others have yet to be told something, or it is not saved that they were."""
        return bool(self.chronicle.outbox) or self.to_be_listed

    @property
    def settled(self) -> bool:
        return self.chronicle.settled and not self.to_be_listed

    def is_another(self, life: str | None) -> bool:
        """Whether this is meant for one that had this id before."""
        return life is not None and self.chronicle.exists and life != self.chronicle.seed

    async def instance(self, turn: Turn) -> Instance:
        if self._instance is None:
            events = await turn.drive(self.chronicle.history())
            if events:
                self._meters.replays.labels(self.chronicle.name).inc()
            try:
                self._instance = Instance.restore(self._registry, self.chronicle.instance_id, events)
            except UnknownOrchestration as error:
                # It may be on its way: what comes for an instance that exists must not be taken for unwanted.
                raise CodeMissing(str(error)) from error
        return self._instance

    async def deliver(self, turn: Turn, message: Message) -> Reply:
        if self.chronicle.ended:
            # Without its code, which may be gone, and need not be brought back.
            if isinstance(message, Start) and message.parent is not None and message.parent == self.chronicle.parent:
                # Its parent asks again, so it has not heard: it may have been told before it began to wait.
                [ending] = await turn.drive(self.chronicle.values(ENDING))
                self.chronicle.tell_parent(ending, self._now())
            if isinstance(message, Start | Outcome):
                return Verdict.DUPLICATE
            if isinstance(message, RaiseEvent) and await self._was_raised(turn, message.event_id):
                return Verdict.DUPLICATE
            raise OrchestrationEnded(f"The orchestration {self.chronicle.instance_id} has ended.")
        if not self.chronicle.exists and not isinstance(message, Start):
            raise NotFound(f"There is no orchestration {self.chronicle.instance_id}.")
        instance = await self.instance(turn)
        now = self._now()
        called = None
        if isinstance(message, ActivityOutcome):
            called = instance.activity_called(message.execution_id, message.scheduled_seq)
        delivery = instance.deliver([message], now)
        self.chronicle.record(instance, delivery.events, delivery.effects, now)
        [reply] = delivery.replies
        if reply is Verdict.NEVER_SCHEDULED:
            self._meters.unscheduled.inc()
            log.warning("orchestration %s was told of the end of what it never asked for", instance.instance_id)
        elif called is not None and isinstance(message, ActivityOutcome) and reply is Verdict.RECORDED:
            ended = "completed" if message.error is None else "failed"
            self._latencies.append((called.name, ended, max(0.0, now - called.timestamp)))
        return reply

    async def _was_raised(self, turn: Turn, event_id: str | None) -> bool:
        """Whether whoever raises an event only has not heard that it was taken: it may have been the last one."""
        if event_id is None:
            return False
        events = await turn.drive(self.chronicle.history())
        return any(isinstance(event, EventRaised) and event.event_id == event_id for event in events)

    def measure(self) -> None:
        """What was saved counts."""
        latencies, self._latencies = self._latencies, []
        for called, ended, seconds in latencies:
            # Code may make names up as it likes: those that nobody declared are one label.
            name = _UNDECLARED if self._registry.activity(called) is None else called
            self._meters.activities.labels(name, ended).observe(seconds)

    async def go_on(self, turn: Turn) -> None:
        """What is due by itself."""
        moment, now = self.chronicle.next_moment, self._now()
        if moment is not None and moment <= now:
            try:
                instance = await self.instance(turn)
            except CodeMissing as error:
                # Whoever only looks need not have it.
                log.warning("orchestration %s cannot go on: %s", self.chronicle.instance_id, error)
                self.chronicle.next_moment = now + _WITHOUT_CODE_SECONDS
                return
            delivery = instance.deliver([], now)
            self.chronicle.record(instance, delivery.events, delivery.effects, now)

    def wanted(self, effect: Effect) -> bool:
        """Whether it still has to be sent: what was answered has arrived, and what was withdrawn need not."""
        if self._instance is None or not isinstance(effect, RunActivity | StartSubOrchestration):
            return True
        if isinstance(effect, StartSubOrchestration) and effect.parent is None:
            return True  # detached
        return self._instance.waits_for_activity(effect.execution_id, effect.scheduled_seq)

    def replace(self, chronicle: Chronicle) -> None:
        self.forget_instance()
        self.chronicle = chronicle

    def forget_instance(self) -> None:
        if self._instance is not None:
            self._instance.close()
            self._instance = None

    def close(self) -> None:
        self.forget_instance()
