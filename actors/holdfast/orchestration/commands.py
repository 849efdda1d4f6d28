"""What an execution's code asked for: new in this step, or waiting for an answer."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.errors import NonDeterminism
from holdfast.orchestration import history
from holdfast.orchestration.timers import Timers
from holdfast.orchestration.whereabouts import line_of_caller, traced

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator

    from holdfast.orchestration.history import Event
    from holdfast.orchestration.payloads import Codec
    from holdfast.orchestration.tasks import Promise


@dataclass(slots=True, eq=False)
class Command:
    """One thing the code asked for."""

    kind: type[Event]
    fields: dict[str, Any]
    #: Resolved by the event that answers it; none when nothing does.
    promise: Promise | None = None
    timer: asyncio.TimerHandle | None = None
    #: What an answer from outside has to be.
    codec: Codec | None = None
    line: str | None = None
    #: The event it became.
    event: Event | None = None

    @property
    def withdrawn(self) -> bool:
        """Whether the code no longer waits for it."""
        waiting = self.timer if self.promise is None else self.promise
        return waiting is not None and waiting.cancelled()


class Commands:
    """All of one execution."""

    def __init__(self) -> None:
        self.timers = Timers()
        self._traced = False
        self._given_up: list[Event] = []
        self._new: list[Command] = []
        self._open: dict[int, Command] = {}
        self._subscriptions: dict[str, dict[int, Command]] = {}

    # From the code

    def ask(self, promise: Promise | None, kind: type[Event], codec: Codec | None = None, **fields: Any) -> None:
        command = Command(kind, fields, promise, codec=codec, line=line_of_caller() if self._traced else None)
        if promise is not None:
            promise.on_withdrawal = partial(self._give_up, command)
        self._new.append(command)

    def keep_timer(self, handle: asyncio.TimerHandle) -> None:
        line = line_of_caller() if self._traced else None
        self._new.append(Command(history.TimerCreated, {"fire_at": handle.when()}, timer=handle, line=line))

    def _give_up(self, command: Command) -> None:
        if command.event is None:
            return
        if isinstance(command.event, history.EventSubscribed):
            self._forget_subscription(command.event)
        else:
            # Its answer is still to come, and is kept like any other, though nobody reads it.
            self._given_up.append(command.event)

    @contextmanager
    def traced(self) -> Iterator[None]:
        """Meanwhile each new command knows the line that gave it."""
        self._traced = True
        try:
            with traced():
                yield
        finally:
            self._traced = False

    # To the history

    def settle(self, record: Callable[[Command], Event]) -> None:
        """Makes events of what is new, in the order it was asked for. What was withdrawn meanwhile was never asked."""
        new, self._new = self._new, []
        for command in new:
            if command.withdrawn:
                continue
            event = command.event = record(command)
            if isinstance(event, history.TimerCreated):
                assert command.timer is not None
                self.timers.add(event.seq, event.fire_at, command.timer)
            elif command.promise is not None:
                self._open[event.seq] = command
                if isinstance(event, history.EventSubscribed):
                    self._subscriptions.setdefault(event.name, {})[event.seq] = command

    # From outside

    def is_open(self, seq: int, kind: type[Event]) -> bool:
        """Whether something of that kind was scheduled there and has no answer yet."""
        command = self._open.get(seq)
        return command is not None and command.kind is kind

    def scheduled(self, seq: int) -> Event | None:
        """What was scheduled there and has no answer yet."""
        command = self._open.get(seq)
        return None if command is None else command.event

    def is_awaited(self, seq: int) -> bool:
        """Whether the code waits for the answer of what was scheduled there."""
        command = self._open.get(seq)
        return command is not None and not command.withdrawn

    def subscription(self, name: str) -> Command | None:
        """The one that has waited longest for an event of that name."""
        return next(iter(self._subscriptions.get(name, {}).values()), None)

    def answered(self, event: Event) -> Command | asyncio.TimerHandle:
        """What this event is the answer to; it waits no longer. Raises NonDeterminism when there is nothing."""
        seq: int = event.scheduled_seq  # type: ignore[attr-defined]
        if isinstance(event, history.TimerFired):
            found: Any = self.timers.take(seq)
        else:
            found = self._open.pop(seq, None)
            if isinstance(event, history.EventRaised) and found is not None:
                self._subscriptions[event.name].pop(seq)
        if found is None:
            raise NonDeterminism(
                f"The history has {event.type} in place {event.seq}, which nothing in place {seq} asked for."
            )
        return found  # type: ignore[no-any-return]

    def unanswered(self) -> list[Event]:
        """All that the code still waited for."""
        return [command.event for command in self._open.values() if command.event and not command.withdrawn]

    def take_given_up(self) -> list[Event]:
        """What the code no longer waits for, though it was scheduled."""
        given_up, self._given_up = self._given_up, []
        return given_up

    def _forget_subscription(self, event: history.EventSubscribed) -> None:
        self._open.pop(event.seq, None)
        waiting = self._subscriptions.get(event.name, {})
        waiting.pop(event.seq, None)
        if not waiting:
            # Gone already, when it was answered while the code was suspended.
            self._subscriptions.pop(event.name, None)
