"""What the state values of an instance mean to somebody who reads all of them, without being the instance."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.errors import StorageBroken
from holdfast.identity import split_instance_actor
from holdfast.orchestration.answers import shown_event, shown_failure, shown_parent
from holdfast.orchestration.chronicle import CUSTOM_STATUS, ENDING, INPUT, check_format, segment_key
from holdfast.orchestration.history import load_event
from holdfast.orchestration.instance import Status
from holdfast.runtime.serialization import dump

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from holdfast.pushpop.steps import Steps

#: What the keys of history begin with.
HISTORY = "history-"
_SEGMENT = re.compile(r"history-(\d+)-(\d+)-(\d+)\Z", re.ASCII)
# Columns of their own; the rest of an event is its data.
_OWN = ("seq", "type", "execution_id", "timestamp", "name", "scheduled_seq")


class StoredEvent(NamedTuple):
    execution_id: int
    seq: int
    type: str
    timestamp: float
    name: str | None
    scheduled_seq: int | None
    data: str


@dataclass(frozen=True, slots=True)
class StoredInstance:
    """What the head of an instance says."""

    tenant: str
    instance_id: str
    head: dict[str, Any]

    @classmethod
    def read(cls, actor_id: str, head: dict[str, Any]) -> StoredInstance | None:
        """None for what is only left of one that was deleted."""
        check_format(head, "It")
        return None if Status(head["status"]) is Status.PENDING else cls(*split_instance_actor(actor_id), head)

    def row(self) -> Steps[tuple[Any, ...]]:
        """Its columns, after its id."""
        head = self.head
        values = dict(head["values"])
        values |= zip(head["apart"], (yield tuple(head["apart"])), strict=True)
        given, ending, custom_status = map(values.get, (INPUT, ENDING, CUSTOM_STATUS))
        ending = ending or {}
        return (
            head["name"],
            head["version"],
            head["status"],
            given,
            ending.get("output"),
            _json(shown_failure(ending["error"])) if "error" in ending else None,
            custom_status,
            head["execution_id"],
            None if head["parent"] is None else _json(shown_parent(head["parent"])),
            head["created_at"],
            head["updated_at"],
            head["ended_at"],
            head["events"],
        )

    def keeps(self, key: str) -> bool:
        """Whether a segment of history is one of this life, and of an execution that is kept."""
        found = _SEGMENT.match(key)
        if found is None:
            raise StorageBroken(f"{key} is not a key of an instance.")
        life, execution, number = map(int, found.groups())
        return bool(life == self.head["life"]) and number < self.extents.get(execution, 0)

    def needed(self) -> Iterator[str]:
        """The values it lies in beside its head, which must be there."""
        yield from self.head["apart"]
        for execution, segments in self.extents.items():
            yield from (segment_key(self.head["life"], execution, number) for number in range(segments))

    @property
    def tail(self) -> list[dict[str, Any]]:
        """The events of the present execution that are in no segment yet."""
        tail: list[dict[str, Any]] = self.head["tail"]
        return tail

    @property
    def extents(self) -> dict[int, int]:
        """How many segments the history of each execution has that is kept."""
        extents = {earlier: segments for earlier, segments, _ in self.head["earlier"]}
        return extents | {self.head["execution_id"]: self.head["segments"]}


def events_in(segment: Iterable[dict[str, Any]]) -> list[StoredEvent]:
    return [_event(dumped) for dumped in segment]


def _event(dumped: dict[str, Any]) -> StoredEvent:
    event = load_event(dumped)
    shown = shown_event(event)
    data = {name: value for name, value in shown.items() if name not in _OWN}
    return StoredEvent(
        event.execution_id,
        event.seq,
        event.type,
        event.timestamp,
        shown.get("name"),
        shown.get("scheduled_seq"),
        _json(data),
    )


def _json(value: Any) -> str:
    return dump(value).decode()
