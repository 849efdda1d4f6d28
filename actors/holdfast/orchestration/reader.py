"""Reads the stored state of instances from outside their actors, for snapshots."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.errors import StorageBroken
from holdfast.kinds import CUSTOM_STATUS, ENDING, INPUT
from holdfast.names import split_instance_actor
from holdfast.orchestration.api.replies import shown_event, shown_parent, shown_source
from holdfast.orchestration.core.failures import shown_failure
from holdfast.orchestration.core.history import load_event
from holdfast.orchestration.storage import mail, replies
from holdfast.orchestration.storage.record import check_format, segment_key
from holdfast.runtime.serialization import dump

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from holdfast.runtime.reads import Reads

#: The prefix of the keys of history segments.
HISTORY = "history-"
_SEGMENT = re.compile(r"history-(\d+)-(\d+)-(\d+)\Z", re.ASCII)
# Fields of an event with a column of their own; the other fields are its data.
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
class InstanceReader:
    """Reads one instance, given its head."""

    tenant: str
    instance_id: str
    head: dict[str, Any]

    @classmethod
    def read(cls, actor_id: str, head: dict[str, Any]) -> InstanceReader | None:
        """Returns a reader, or None for the remains of a deleted instance."""
        check_format(head, "It")
        return cls(*split_instance_actor(actor_id), head) if head["execution_id"] else None

    def row(self) -> Reads[tuple[Any, ...]]:
        """Reads the columns of the instance after its id."""
        head = self.head
        values = dict(head["values"])
        values |= zip(head["external"], (yield tuple(head["external"])), strict=True)
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
            _json_unless_none(head.get("tags")),
            None if "rerun_of" not in head else _json(shown_source(head["rerun_of"])),
            _json_unless_none(head.get("reruns")),
        )

    def keeps(self, key: str) -> bool:
        """Returns whether ``key`` is a history segment of this generation and of an execution that is kept."""
        found = _SEGMENT.match(key)
        if found is None:
            raise StorageBroken(f"{key} is not a key of an instance.")
        generation, execution, number = map(int, found.groups())
        return bool(generation == self.head["generation"]) and number < self.extents.get(execution, 0)

    def needed(self) -> Iterator[str]:
        """Yields the keys of the state values that must exist in addition to the head."""
        yield from self.head["external"]
        for execution, segments in self.extents.items():
            yield from (segment_key(self.head["generation"], execution, number) for number in range(segments))
        yield from mail.stored_keys(self.head["generation"], self.head.get("mail"))
        yield from replies.stored_keys(self.head["generation"], self.head)

    @property
    def tail(self) -> list[dict[str, Any]]:
        """The events of the current execution that are not in a segment yet."""
        tail: list[dict[str, Any]] = self.head["tail"]
        return tail

    @property
    def extents(self) -> dict[int, int]:
        """The number of history segments of each execution that is kept."""
        extents = {earlier: segments for earlier, segments, _ in self.head["earlier_executions"]}
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


def _json_unless_none(value: Any) -> str | None:
    return None if value is None else _json(value)
