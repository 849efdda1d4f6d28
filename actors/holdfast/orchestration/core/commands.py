"""The commands an execution's code has issued: new in this step, or waiting for a result."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from holdfast.errors import NonDeterminism, TooLarge
from holdfast.orchestration.core import history
from holdfast.orchestration.core.limits import DEFAULT_LIMITS
from holdfast.orchestration.core.payloads import stored_size
from holdfast.orchestration.core.timers import Timers
from holdfast.orchestration.core.waiting import MAX_WAITING, Waiting
from holdfast.orchestration.loop.source_lines import line_of_caller, traced

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator

    from holdfast.orchestration.core.history import Event
    from holdfast.orchestration.core.limits import Limits
    from holdfast.orchestration.core.payloads import Codec
    from holdfast.orchestration.loop.ordered_tasks import Promise


# Estimated stored bytes of an event, and of the effect of a command that is sent: keys, numbers and times. Names and
# ids are added.
_EVENT_BYTES = 150
_SENT_BYTES = {
    history.ActivityScheduled: 150,
    history.SubOrchestrationScheduled: 450,
    # Also stored among the replies.
    history.RequestAnswered: 300,
}


@dataclass(slots=True, eq=False)
class Command:
    """One decision of the code: an activity, a child, a timer, a subscription, an answer, tags or a rejected value."""

    kind: type[Event]
    fields: dict[str, Any]
    #: Resolved by the event that answers the command; None for a command without an answer.
    promise: Promise | None = None
    timer: asyncio.TimerHandle | None = None
    #: Validates the data of an external event that answers the command.
    codec: Codec | None = None
    line: str | None = None
    #: Whether the id of a child was generated and is not in the history.
    generated_id: bool = False
    #: The event that records the command.
    event: Event | None = None
    #: The estimated size in the store, in bytes.
    size: int = _EVENT_BYTES

    @property
    def withdrawn(self) -> bool:
        """Whether the code no longer waits for the result."""
        waiting = self.timer if self.promise is None else self.promise
        return waiting is not None and waiting.cancelled()


class Commands:
    """The commands of one execution."""

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self.timers = Timers()
        self._limits = limits
        #: The size of the commands of this step; ``recorded_bytes`` is the size of all commands recorded so far.
        self._asked_bytes = 0
        self._new_timers = 0
        self.recorded_bytes = 0
        self._traced = False
        self._given_up: list[Event] = []
        self._new: list[Command] = []
        self._open: dict[int, Command] = {}
        #: The events of the open commands that the code still waits for.
        self._awaited: dict[int, Event] = {}
        self._subscriptions: dict[str, dict[int, Command]] = {}

    # Commands of the code

    def ask(
        self,
        promise: Promise | None,
        kind: type[Event],
        codec: Codec | None = None,
        *,
        generated_id: bool = False,
        **fields: Any,
    ) -> Command:
        line = line_of_caller() if self._traced else None
        command = Command(kind, fields, promise, codec=codec, line=line, generated_id=generated_id)
        texts = sum(map(_texts_in, fields.values()))
        sent = _SENT_BYTES.get(kind)
        command.size += texts if sent is None else sent + 2 * texts
        self._add(command)
        if promise is not None:
            promise.on_withdrawal = partial(self._give_up, command)
        return command

    def keep_timer(self, handle: asyncio.TimerHandle) -> None:
        line = line_of_caller() if self._traced else None
        self._add(Command(history.TimerCreated, {"fire_at": handle.when()}, timer=handle, line=line))
        self._new_timers += 1

    def _add(self, command: Command) -> None:
        """Adds a command to this step. Raises TooLarge in the author's code when the step is too large to save."""
        most = self._limits.stored_bytes
        if self._asked_bytes + command.size > most and self._new_timers:
            # Cancelled timers do not report it, so they are removed here.
            self._new = [new for new in self._new if not new.withdrawn]
            self._asked_bytes, self._new_timers = sum(new.size for new in self._new), 0
        if self._asked_bytes + command.size > most:
            raise TooLarge(
                f"This step asks for more than can be saved at once: its first {len(self._new) + 1:,} activities, "
                f"sub-orchestrations, events and timers would take {self._asked_bytes + command.size:,} bytes in the "
                f"store, and one step may take {most:,}. Await some of them before asking for more, pass references "
                "to large inputs instead of the inputs, or divide the work among sub-orchestrations."
            )
        self._asked_bytes += command.size
        self._new.append(command)

    def _give_up(self, command: Command) -> None:
        if command.event is None:
            self._asked_bytes -= command.size
            return
        self._awaited.pop(command.event.seq, None)
        if isinstance(command.event, history.EventSubscribed):
            self._forget_subscription(command.event)
        else:
            # Its result still arrives and is recorded, although the code does not read it.
            self._given_up.append(command.event)

    @contextmanager
    def traced(self) -> Iterator[None]:
        """A context in which each new command records the source line that issued it."""
        self._traced = True
        try:
            with traced():
                yield
        finally:
            self._traced = False

    # Recording

    def settle(self, decide: Callable[[list[Command]], list[Event]]) -> None:
        """Records the new commands as events, in the order they were issued, without those withdrawn meanwhile."""
        new, self._new = [command for command in self._new if not command.withdrawn], []
        self._asked_bytes = self._new_timers = 0
        decided = zip(new, decide(new), strict=True) if new else ()
        # In the order of the history, which may differ from the order of the code.
        for command, event in sorted(decided, key=_seq_of):
            command.event = event
            self.recorded_bytes += command.size
            if isinstance(event, history.TimerCreated):
                assert command.timer is not None
                self.timers.add(event, command.timer)
            elif command.promise is not None:
                self._open[event.seq] = command
                self._awaited[event.seq] = event
                if isinstance(event, history.EventSubscribed):
                    self._subscriptions.setdefault(event.name, {})[event.seq] = command

    # External events

    def is_open(self, seq: int, kind: type[Event]) -> bool:
        """Returns whether event ``seq`` is a command of this kind that has no result yet."""
        command = self._open.get(seq)
        return command is not None and command.kind is kind

    def waits_for(self, event: Event) -> bool:
        """Returns whether ``event`` answers a command that has no result yet."""
        seq: int = event.scheduled_seq  # type: ignore[attr-defined]
        return self.timers.moment_of(seq) is not None if isinstance(event, history.TimerFired) else seq in self._open

    def scheduled(self, seq: int) -> Event | None:
        """Returns event ``seq`` if it is a command that has no result yet."""
        command = self._open.get(seq)
        return None if command is None else command.event

    def is_awaited(self, seq: int) -> bool:
        """Returns whether the code waits for the result of the command recorded as event ``seq``."""
        command = self._open.get(seq)
        return command is not None and not command.withdrawn

    def subscription(self, name: str) -> Command | None:
        """Returns the oldest subscription to events called ``name``."""
        return next(iter(self._subscriptions.get(name, {}).values()), None)

    def answered(self, event: Event) -> Command | asyncio.TimerHandle:
        """Closes and returns the command that ``event`` answers. Raises NonDeterminism when there is none."""
        seq: int = event.scheduled_seq  # type: ignore[attr-defined]
        if isinstance(event, history.TimerFired):
            found: Any = self.timers.take(seq)
        else:
            found = self._open.pop(seq, None)
            self._awaited.pop(seq, None)
            if isinstance(event, history.EventRaised) and found is not None:
                self._subscriptions[event.name].pop(seq)
        if found is None:
            raise NonDeterminism(
                f"The history has {event.type} as event {event.seq}, but event {seq} does not wait for it."
            )
        return found  # type: ignore[no-any-return]

    def waiting(self) -> list[Waiting]:
        """Returns the calls and the timers that the code awaits; of each the oldest ones that are shown at most."""
        awaited, timers = self._awaited.values(), self.timers.live()
        return [Waiting.of(event) for events in (awaited, timers) for event in islice(events, MAX_WAITING)]

    def unanswered(self) -> list[Event]:
        """Returns the events of all commands that the code still waits for."""
        return [command.event for command in self._open.values() if command.event and not command.withdrawn]

    def take_given_up(self) -> list[Event]:
        """Returns, once, the scheduled commands that the code stopped waiting for."""
        given_up, self._given_up = self._given_up, []
        return given_up

    def release(self) -> None:
        """Breaks the reference cycles of the commands without a result, when the code has ended."""
        for command in (*self._open.values(), *self._new):
            if command.promise is not None:
                command.promise.release()

    def _forget_subscription(self, event: history.EventSubscribed) -> None:
        self._open.pop(event.seq, None)
        waiting = self._subscriptions.get(event.name, {})
        waiting.pop(event.seq, None)
        if not waiting:
            # It is missing if the subscription was answered while the code was suspended.
            self._subscriptions.pop(event.name, None)


def _texts_in(value: Any) -> int:
    """Returns the stored bytes of a field's texts: a payload, a name, or tags."""
    if isinstance(value, dict):
        return sum(map(_texts_in, value)) + sum(map(_texts_in, value.values()))
    return stored_size(value) if isinstance(value, str) else 0


def _seq_of(decided: tuple[Command, Event]) -> int:
    return decided[1].seq
