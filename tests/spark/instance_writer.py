"""Instances that are written straight into the store's table, turn by turn, as their actors would."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import Any, Protocol

from holdfast.kinds import HEAD
from holdfast.orchestration.core.history import OrchestrationStarted, TimerCreated
from holdfast.orchestration.storage.record import FORMAT, SEGMENT_EVENTS, segment_key

UPSERT = (
    "INSERT INTO state (key, value, etag) VALUES (%s, %s, gen_random_uuid()) "
    "ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value, etag = EXCLUDED.etag, updated_at = now()"
)


class Connection(Protocol):
    """Of psycopg's, or what stands for one."""

    def execute(self, query: Any, params: Any, /) -> Any: ...


@dataclass
class StoredInstance:
    app_id: str
    instance_id: str
    events: int = 0
    tail: list[dict[str, Any]] = field(default_factory=list)
    segments: int = 0
    created_at: float = field(default_factory=time.time)
    execution: int = 1
    earlier: list[list[int]] = field(default_factory=list)

    def turn(self, connection: Connection, number: int) -> None:
        """So many events more, in the transaction that is open."""
        segments: dict[int, list[dict[str, Any]]] = {}
        for _ in range(number):
            if len(self.tail) >= SEGMENT_EVENTS:
                segments[self.segments] = self.tail
                self.tail = []
                self.segments += 1
            self.events += 1
            self.tail.append(self._event())
        for segment, events in segments.items():
            self._put(connection, segment_key(0, self.execution, segment), events)
        self._put(connection, HEAD, self._head())

    def continue_as_new(self, connection: Connection, number: int) -> None:
        """Another execution, with so many events."""
        self._put(connection, segment_key(0, self.execution, self.segments), self.tail)
        self.earlier.append([self.execution, self.segments + 1, self.events])
        self.execution += 1
        self.segments = self.events = 0
        self.tail = []
        self.turn(connection, number)

    def _event(self) -> dict[str, Any]:
        when: dict[str, Any] = {"seq": self.events, "execution_id": self.execution, "timestamp": time.time()}
        if self.events == 1:
            return OrchestrationStarted(name="written", version="", input="null", seed="s", **when).dump()
        return TimerCreated(fire_at=0.0, **when).dump()

    def _head(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "status": "RUNNING",
            "name": "written",
            "version": "",
            "execution_id": self.execution,
            "created_at": self.created_at,
            "updated_at": time.time(),
            "ended_at": None,
            "parent": None,
            "events": self.events,
            "segments": self.segments,
            "tail": self.tail,
            "values": {"input": "null"},
            "external": [],
            "generation": 0,
            "earlier_executions": self.earlier,
        }

    def _put(self, connection: Connection, key: str, value: Any) -> None:
        whole = f"{self.app_id}||OrchestrationActor||{self.instance_id}||{key}"
        connection.execute(UPSERT, (whole, json.dumps(value).encode()))
