"""The tables: which state values each is made of, and how."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

from holdfast.errors import HoldfastError, StorageBroken
from holdfast.idempotency.interface import IDEMPOTENCY_TYPE
from holdfast.idempotency.record import KEY, RECORD, Record, current
from holdfast.identity import DEFAULT_TENANT, qualify, split_instance_actor, split_queue_actor
from holdfast.orchestration.chronicle import HEAD
from holdfast.orchestration.interface import ORCHESTRATION_TYPE
from holdfast.orchestration.stored import HISTORY, StoredInstance, events_in
from holdfast.pushpop import ACTOR_TYPE
from holdfast.pushpop.core import CONFIG, METADATA
from holdfast.pushpop.replies import shown_id
from holdfast.pushpop.stored import MOVING, SEGMENTS, SHELVES, WAITING, StoredQueue
from holdfast.runtime.serialization import dump
from holdfast.spark.batches import Block, Run, fitted_lines, fitted_moments
from holdfast.spark.rows import SEPARATOR
from holdfast.spark.schemas import SCHEMAS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql.types import StructType

    from holdfast.pushpop.stored import Pushed, StoredItem
    from holdfast.spark.options import Options
    from holdfast.spark.rows import Address, Steps
    from holdfast.spark.store import Pattern

_PRIORITY, _STATE, _ITEM, _ENQUEUED_AT, _DELIVERIES = (
    SCHEMAS["items"].names.index(name) for name in ("priority", "state", "item", "enqueued_at", "delivery_count")
)

ANYTHING: Pattern = ("", "")

Rows = list[tuple[Any, ...]]
Task: TypeAlias = "tuple[Address, Steps]"


class Table(ABC):
    """One table, of what the options ask for, at one moment."""

    schema: ClassVar[StructType]
    actor_type: ClassVar[str]
    #: Which values it is made of; what ends with a dash is the beginning of several.
    states: ClassVar[tuple[str, ...]]
    #: What has to be known of an actor to read any of them; the first is always there.
    owner_keys: ClassVar[tuple[str, ...]] = ()

    def __init__(self, options: Options, as_of: float) -> None:
        self._options = options
        self._as_of = as_of
        self._type = options.actor_type or self.actor_type
        self._beginnings = tuple(state for state in self.states if state.endswith("-"))
        #: Rows that were found beside those that tasks return.
        self.block = Block()
        #: What a task did without because it cannot be read.
        self.left_out: list[tuple[Address, Exception]] = []

    def take_left_out(self) -> list[tuple[Address, Exception]]:
        """That, once."""
        left_out, self.left_out = self.left_out, []
        return left_out

    def take_block(self) -> Block:
        """Those, once."""
        block, self.block = self.block, Block()
        return block

    def patterns(self) -> list[Pattern]:
        """What the keys look like, as far as the database can tell."""
        separator: Pattern = (SEPARATOR,)
        app: Pattern = ANYTHING if self._options.app_id is None else (self._options.app_id,)
        return [
            _followed(app, separator, (self._type,), separator, actor, separator, state)
            for actor in self._actors()
            for state in [(state, "") if state.endswith("-") else (state,) for state in self.states]
        ]

    def wants(self, address: Address) -> bool:
        """Whether it is one of these values, exactly; patterns may let others through."""
        return self.is_made_of(address.state_key) and self.is_about(address)

    def is_about(self, address: Address) -> bool:
        """Whether this is an actor whose values are wanted."""
        if address.actor_type != self._type or self._options.app_id not in (None, address.app_id):
            return False
        return self._is_asked_for(address)

    def is_made_of(self, state: str) -> bool:
        return state in self.states or state.startswith(self._beginnings)

    def owner(self, address: Address, values: list[Any]) -> Any:
        """What those say; nothing where there are none."""
        return None

    @abstractmethod
    def tasks(self, address: Address, value: Any, owner: Any) -> Iterator[Task]:
        """What there is to do with one value, in parts of bounded size, and of which value each is."""

    def gather(self, address: Address, value: Any, owner: Any) -> bool:
        """Whether this is one of the values that are looked at together, and so has no tasks of its own."""
        return False

    def gathered(self) -> Iterator[Task]:
        """What is left to do with those, after each page of them."""
        return iter(())

    def _actors(self) -> list[Pattern]:
        """What the ids of the actors look like."""
        tenant = self._options.tenant
        return [ANYTHING] if tenant in (None, DEFAULT_TENANT) else [(f"@{tenant}@", "")]

    @abstractmethod
    def _is_asked_for(self, address: Address) -> bool: ...


class QueueTable(Table):
    actor_type = ACTOR_TYPE
    owner_keys = (METADATA, CONFIG)

    def owner(self, address: Address, values: list[Any]) -> StoredQueue:
        return StoredQueue(address.actor_id, values[0], values[1], self._as_of)

    def _actors(self) -> list[Pattern]:
        queue, tenant = self._options.queue, self._options.tenant
        if queue is None:
            return super()._actors()
        if tenant is None:
            return [(queue,), (f"{queue}@", ""), ("@", f"@{queue}"), ("@", f"@{queue}@", "")]
        name = qualify(tenant, queue)
        return [(name,), (f"{name}@", "")]

    def _is_asked_for(self, address: Address) -> bool:
        if self._options.queue is None and self._options.tenant is None:
            return True
        try:
            tenant, queue, _ = split_queue_actor(address.actor_id)
        except HoldfastError:
            return False
        return self._options.queue in (None, queue) and self._options.tenant in (None, tenant)


class Queues(QueueTable):
    schema = SCHEMAS["queues"]
    states = (METADATA,)

    def tasks(self, address: Address, value: Any, owner: StoredQueue) -> Iterator[Task]:
        yield address, self._row(address, owner)

    def _row(self, address: Address, queue: StoredQueue) -> Steps:
        totals = yield from _of(address, queue.totals())
        self.left_out += [(address.at(key), error) for key, error in totals.left_out.items()]
        config = dump(queue.config.shown()).decode()
        counts = (totals.waiting, totals.delayed, totals.locked, totals.oldest)
        return [(*_begin(address, queue), *counts, config)]


class Locks(QueueTable):
    schema = SCHEMAS["locks"]
    states = (METADATA,)

    def tasks(self, address: Address, value: Any, owner: StoredQueue) -> Iterator[Task]:
        for key, steps in owner.locks():
            yield address.at(key), self._rows(address, owner, steps)

    def _rows(self, address: Address, queue: StoredQueue, steps: Any) -> Steps:
        lock = yield from _of(address, steps)
        if lock is None:
            return []
        return [(*_begin(address, queue), shown_id(lock), len(lock.taken), lock.created_at, lock.expires_at)]


class _Segment(NamedTuple):
    """Of which nothing is known but what was pushed, and when."""

    address: Address
    queue: StoredQueue
    pushed: Pushed

    def same(self) -> dict[int, Any]:
        """What all items of its queue and priority have in common."""
        begin = dict(enumerate(_begin(self.address, self.queue)))
        return begin | {_PRIORITY: self.pushed.priority, _STATE: WAITING, _DELIVERIES: 0}


class Items(QueueTable):
    schema = SCHEMAS["items"]
    states = (METADATA, SEGMENTS, SHELVES)

    def __init__(self, options: Options, as_of: float) -> None:
        super().__init__(options, as_of)
        self._gathered: list[_Segment] = []

    def tasks(self, address: Address, value: Any, owner: StoredQueue) -> Iterator[Task]:
        if address.state_key == METADATA:
            for steps in owner.inline():
                yield address, self._found(address, owner, steps)
            for key, steps in owner.held():
                yield address.at(key), self._found(address, owner, steps)
            for key, parcel in owner.sent():
                yield address.at(key), self._on_the_way(address, owner, parcel)
        elif address.state_key.startswith(SHELVES):
            yield address, self._found(address, owner, owner.on_shelf(address.state_key, value))
        else:
            yield address, self._found(address, owner, owner.in_segment(address.state_key, value))

    def gather(self, address: Address, value: Any, owner: StoredQueue) -> bool:
        pushed = owner.only_pushed(address.state_key, value) if address.state_key.startswith(SEGMENTS) else None
        if pushed is not None:
            self._gathered.append(_Segment(address, owner, pushed))
        return pushed is not None

    def gathered(self) -> Iterator[Task]:
        segments, self._gathered = self._gathered, []
        if segments and not self._add(segments):
            for segment in segments:
                if not self._add([segment]):
                    yield segment.address, self._found_again(segment.address, segment.queue)

    def _add(self, segments: list[_Segment]) -> bool:
        """Whether all of them can be shown."""
        lines = fitted_lines([segment.pushed.lines for segment in segments])
        if lines is None:
            return False
        lengths = lines.value_lengths().to_pylist()
        moments = fitted_moments([segment.pushed.enqueued_at for segment in segments], lengths)
        if moments is None:
            return False
        shared: dict[tuple[int, int], dict[int, Any]] = {}
        runs: list[Run] = []
        for segment, length in zip(segments, lengths, strict=True):
            lane = id(segment.queue), segment.pushed.priority
            if (same := shared.get(lane)) is None:
                same = shared[lane] = segment.same()
            runs.append(Run(length, same, segment.pushed.named, segment.pushed.first))
        self.block.add(runs, {_ITEM: lines.flatten(), _ENQUEUED_AT: moments})
        return True

    def _found(self, address: Address, queue: StoredQueue, steps: Any) -> Steps:
        return self._rows(address, queue, (yield from _of(address, steps)))

    def _found_again(self, address: Address, queue: StoredQueue) -> Steps:
        # Nearly never: to keep what nearly all were read from costs more than to read some of it twice.
        [value] = yield (address.beside(address.state_key),)
        return (yield from self._found(address, queue, queue.in_segment(address.state_key, value)))

    def _on_the_way(self, address: Address, queue: StoredQueue, steps: Any) -> Steps:
        sent = yield from _of(address, steps)
        if sent is None:
            return []
        [arrivals] = yield (address.beside(sent.arrivals_key, sent.target),)
        return [] if sent.arrived(arrivals) else self._rows(address, queue, sent.items)

    def _rows(self, address: Address, queue: StoredQueue, items: list[StoredItem]) -> Rows:
        begin = _begin(address, queue)
        return [begin + item[:-1] for item in items]


class DeadLetters(Items):
    schema = SCHEMAS["dead_letters"]

    def _add(self, segments: list[_Segment]) -> bool:
        """There is more to know of a dead letter."""
        return True

    def _rows(self, address: Address, queue: StoredQueue, items: list[StoredItem]) -> Rows:
        return [
            (
                *_begin(address, queue)[:-1],
                item.id,
                item.text,
                origin["reason"],
                origin["attempts"],
                origin["last_error"],
                origin["original_queue"],
                origin["original_partition"],
                origin["original_id"],
                origin["idempotency_key"],
                origin["dead_lettered_at"],
            )
            for item in items
            # What goes back to where it came from is none any more.
            if (origin := item.origin) is not None and item.state != MOVING
        ]


class InstanceTable(Table):
    actor_type = ORCHESTRATION_TYPE
    owner_keys = (HEAD,)

    def owner(self, address: Address, values: list[Any]) -> StoredInstance | None:
        return StoredInstance.read(address.actor_id, values[0])

    def _actors(self) -> list[Pattern]:
        instance, tenant = self._options.instance, self._options.tenant
        if instance is None:
            return super()._actors()
        return [(instance,), ("@", f"@{instance}")] if tenant is None else [(qualify(tenant, instance),)]

    def _is_asked_for(self, address: Address) -> bool:
        if self._options.instance is None and self._options.tenant is None:
            return True
        try:
            tenant, instance = split_instance_actor(address.actor_id)
        except HoldfastError:
            return False
        return self._options.instance in (None, instance) and self._options.tenant in (None, tenant)


class Instances(InstanceTable):
    schema = SCHEMAS["instances"]
    states = (HEAD,)

    def tasks(self, address: Address, value: Any, owner: StoredInstance | None) -> Iterator[Task]:
        if owner is not None:
            yield address, self._row(address, owner)

    def _row(self, address: Address, instance: StoredInstance) -> Steps:
        row = yield from _of(address, instance.row())
        return [(address.app_id, instance.tenant, instance.instance_id, *row)]


class History(InstanceTable):
    schema = SCHEMAS["history"]
    states = (HISTORY, HEAD)

    def tasks(self, address: Address, value: Any, owner: StoredInstance | None) -> Iterator[Task]:
        if owner is None:
            return
        if address.state_key == HEAD:
            yield address, self._rows(address, owner, owner.tail)
        elif owner.keeps(address.state_key):
            yield address, self._rows(address, owner, value)

    def _rows(self, address: Address, instance: StoredInstance, value: Any) -> Steps:
        begin = (address.app_id, instance.tenant, instance.instance_id)
        yield ()
        return [begin + event for event in events_in(value)]


class Idempotency(Table):
    schema = SCHEMAS["idempotency"]
    actor_type = IDEMPOTENCY_TYPE
    states = (RECORD,)

    def tasks(self, address: Address, value: Any, owner: None) -> Iterator[Task]:
        record = current(Record.from_json(value), self._as_of)
        if record is not None:
            yield address, self._row(address, record)

    def _row(self, address: Address, record: Record) -> Steps:
        [named] = yield (address.beside(KEY),)
        if self._options.tenant not in (None, named["tenant"]):
            return []
        return [
            (
                *(address.app_id, named["tenant"], named["key"], record.status.value, record.result, record.last_error),
                *(record.owner, record.lease_expires_at, record.attempts, record.updated_at),
            )
        ]

    def _actors(self) -> list[Pattern]:
        return [ANYTHING]

    def _is_asked_for(self, address: Address) -> bool:
        return True


TABLES: dict[str, type[Table]] = {
    "queues": Queues,
    "items": Items,
    "locks": Locks,
    "dead_letters": DeadLetters,
    "instances": Instances,
    "history": History,
    "idempotency": Idempotency,
}


def _followed(*patterns: Pattern) -> Pattern:
    """One after the other."""
    whole: Pattern = ("",)
    for pattern in patterns:
        whole = (*whole[:-1], whole[-1] + pattern[0], *pattern[1:])
    return whole


def _begin(address: Address, queue: StoredQueue) -> tuple[Any, ...]:
    return (address.app_id, queue.tenant, queue.name, queue.partition)


def _of(address: Address, steps: Any) -> Any:
    """Steps that ask for values of one actor, as steps that ask for whole keys."""
    go_on = partial(next, steps)
    while True:
        try:
            keys = go_on()
        except StopIteration as done:
            return done.value
        try:
            answer = yield tuple(address.beside(key) for key in keys)
        except StorageBroken as error:
            # Not every one gives up for it.
            go_on = partial(steps.throw, error)
        else:
            go_on = partial(steps.send, answer)
