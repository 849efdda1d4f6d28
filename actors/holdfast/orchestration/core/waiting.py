"""The events, calls and timers that the code of an instance awaits, as its status shows them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from holdfast.orchestration.core import history

if TYPE_CHECKING:
    from collections.abc import Iterable

Kind: TypeAlias = Literal["activity", "timer", "event", "mailbox", "request", "sub"]

#: How many are shown. They are stored with every turn, so that a status needs no replay.
MAX_WAITING = 20

_KINDS: dict[type[history.Event], Kind] = {
    history.ActivityScheduled: "activity",
    history.TimerCreated: "timer",
    history.EventSubscribed: "event",
    history.SubOrchestrationScheduled: "sub",
}


@dataclass(frozen=True, slots=True)
class Waiting:
    """One thing that the code awaits."""

    kind: Kind
    #: The name of the activity, event, mailbox, request or sub-orchestration; None for a timer.
    name: str | None
    since: float
    #: When a timer fires.
    due_at: float | None = None
    #: The event in the history that scheduled it; None for a mailbox or a request.
    scheduled_seq: int | None = None

    @classmethod
    def of(cls, event: history.Event) -> Waiting:
        """Returns the entry of a scheduled activity, timer, event subscription or sub-orchestration."""
        fields: Any = event
        if isinstance(event, history.TimerCreated):
            return cls("timer", None, event.timestamp, event.fire_at, event.seq)
        return cls(_KINDS[type(event)], fields.name, event.timestamp, None, event.seq)

    def __str__(self) -> str:
        if self.due_at is not None:
            return f"{datetime.fromtimestamp(self.due_at, UTC):%Y-%m-%d %H:%M:%S} UTC"
        return f"the {'sub-orchestration' if self.kind == 'sub' else self.kind} {self.name}"

    def dump(self) -> list[Any]:
        return [self.kind, self.name, self.since, self.due_at, self.scheduled_seq]


def earliest(waiting: Iterable[Waiting]) -> list[Waiting]:
    """Returns the entries to be shown, the one that has waited longest first."""
    return sorted(waiting, key=lambda one: (one.since, one.scheduled_seq or 0))[:MAX_WAITING]
