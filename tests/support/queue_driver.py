"""Drives the core of a queue: with a dict in place of a store, and a clock that the test moves."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.kinds import CONFIG, METADATA
from holdfast.names import split_partition
from holdfast.pushpop.api.commands import TurnContext, execute_all
from holdfast.pushpop.api.config import QueueConfig
from holdfast.pushpop.core.items import lock_prefix
from holdfast.pushpop.core.queue import Queue
from holdfast.runtime.serialization import dump, load

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.runtime.reads import Reads

Answer = dict[str, Any]
Call = tuple[str, Any]
Reply = TypeVar("Reply")

MORNING = 1_800_000_000.0


def drive(steps: Reads[Reply], read: Callable[[tuple[str, ...]], list[Any]]) -> Reply:
    """Gives a state machine what it asks for, until it answers."""
    values: list[Any] | None = None
    try:
        while True:
            values = read(next(steps) if values is None else steps.send(values))
    except StopIteration as ended:
        reply: Reply = ended.value
        return reply


@dataclass(slots=True)
class Cost:
    """The reads and writes of a turn."""

    keys_read: int = 0
    bytes_read: int = 0
    keys_written: int = 0
    bytes_written: int = 0


class QueueDriver:
    """Turns as the actor makes them, without the actor. Everything passes through JSON, as it would to a store."""

    def __init__(self, actor_id: str = "orders", *, told: bool = True, **config: Any) -> None:
        """``told``: whether a partition but the first has heard that it is one."""
        self.actor_id = actor_id
        self.name, self.partition = split_partition(actor_id)
        self.now = MORNING
        self.store: dict[str, bytes] = {}
        #: What the last turn cost, the queue's own metadata being in memory.
        self.cost = Cost()
        self._queue: Queue | None = None
        self._lock_ids = (f"{lock_prefix(self.partition)}{number}-lock" for number in count(1))
        if self.partition and told:
            told_config = {"partitions": self.partition + 1} | config
            self.call("Configure", {"config": told_config, "version": 1, "generation": 0})
        elif config and not self.partition:
            self.call("SetConfig", config)

    @property
    def queue(self) -> Queue:
        """The queue as it is in memory; read from the store when it is not."""
        if self._queue is None:
            metadata, config = self._read((METADATA, CONFIG))
            restored = Queue.restore(self.name, QueueConfig.stored(config), metadata, self.partition)
            self._queue = self._drive(restored)
        return self._queue

    def call(self, method: str, data: Any = None) -> Answer:
        """Runs a call in a turn of its own."""
        [answer] = self.turn((method, data))
        return answer

    def turn(self, *calls: Call, saved: bool = True) -> list[Answer]:
        """Some calls in one turn. One that is not saved has changed nothing, and memory is thrown away."""
        queue = self.queue
        self.cost = Cost()
        moment = TurnContext(self.now, lambda: next(self._lock_ids), set())
        self._drive(queue.catch_up(self.now))
        answers: list[Answer] = load(dump(self._drive(execute_all(queue, moment, calls))))
        changes = {key: None if value is None else dump(value) for key, value in queue.changes().items()}
        if saved:
            self._write(changes)
        else:
            self.restart()
        return answers

    # What tests ask most

    def push(self, *items: Any, priority: int = 0) -> list[str]:
        """Answers the ids."""
        ids: list[str] = self.call("Push", {"items": [{"item": item, "priority": priority} for item in items]})["ids"]
        return ids

    def pop(self, count: int = 1) -> list[Any]:
        """Answers the payloads."""
        items: list[Any] = self.call("Pop", {"count": count})["items"]
        return items

    def lock(self, count: int = 1, ttl_seconds: int = 30) -> Answer:
        return self.call("PopWithAck", {"count": count, "ttl_seconds": ttl_seconds})

    def waiting(self) -> list[Any]:
        """The payloads of up to 100 that wait, in order."""
        items: list[Any] = self.call("Peek", {"count": 100})["items"]
        return items

    # What happens to it

    def restart(self) -> None:
        """Memory is gone; what was saved is not."""
        self._queue = None

    def settle(self) -> None:
        """All that is due is done, in as many turns as it takes: as reminders would have it."""
        while (deadline := self.queue.next_deadline(self.now)) is not None and deadline <= self.now:
            self.turn()

    def twin(self) -> QueueDriver:
        """Another one with the same store, and no memory: what is done to it is not done to this one."""
        twin = copy(self)
        twin.store, twin._queue = dict(self.store), None
        return twin

    def pass_time(self, seconds: float) -> None:
        """Below zero too: a clock may be set back."""
        self.now += seconds

    def value(self, key: str) -> Any:
        """Returns the stored value of a key."""
        return load(self.store[key]) if key in self.store else None

    def _drive(self, steps: Reads[Reply]) -> Reply:
        return drive(steps, self._read)

    def _read(self, keys: tuple[str, ...]) -> list[Any]:
        self.cost.keys_read += len(keys)
        self.cost.bytes_read += sum(len(self.store.get(key, b"")) for key in keys)
        return [self.value(key) for key in keys]

    def _write(self, changes: dict[str, bytes | None]) -> None:
        for key, value in changes.items():
            self.cost.keys_written += 1
            if value is None:
                self.store.pop(key, None)
            else:
                self.cost.bytes_written += len(value)
                self.store[key] = value
