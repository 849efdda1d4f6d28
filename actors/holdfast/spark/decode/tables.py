"""The tables: which state values each reads, and how it decodes them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

from holdfast.errors import HoldfastError, StorageBroken
from holdfast.idempotency.record import Record, current
from holdfast.kinds import CONFIG, HEAD, IDEMPOTENCY_TYPE, KEY, METADATA, ORCHESTRATION_TYPE, QUEUE_TYPE, RECORD
from holdfast.names import DEFAULT_TENANT, qualify, split_instance_actor, split_queue_actor
from holdfast.orchestration.reader import HISTORY, InstanceReader, events_in
from holdfast.pushpop.api.replies import shown_id
from holdfast.pushpop.reader import MOVING, SEGMENTS, SHELVES, WAITING, QueueReader
from holdfast.runtime.serialization import dump
from holdfast.spark.decode.arrow import RunBlock, RunLength, fitted_lines, fitted_moments
from holdfast.spark.decode.decoder import SEPARATOR
from holdfast.spark.source.schemas import SCHEMAS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql.types import StructType

    from holdfast.pushpop.reader import Pushed, StoredItem
    from holdfast.spark.decode.decoder import Address, KeyReads
    from holdfast.spark.source.options import Options
    from holdfast.spark.stores.base import Pattern

_PRIORITY, _STATE, _ITEM, _ENQUEUED_AT, _DELIVERIES = (
    SCHEMAS["items"].names.index(name) for name in ("priority", "state", "item", "enqueued_at", "delivery_count")
)

ANYTHING: Pattern = ("", "")

Rows = list[tuple[Any, ...]]
Task: TypeAlias = "tuple[Address, KeyReads]"


class Table(ABC):
    """One table at one point in time, filtered by the options."""

    schema: ClassVar[StructType]
    actor_type: ClassVar[str]
    #: The state keys it reads; a key that ends with a dash is a prefix.
    states: ClassVar[tuple[str, ...]]
    #: The keys of an actor's values that are needed to read any of them; the first always exists.
    owner_keys: ClassVar[tuple[str, ...]] = ()

    def __init__(self, options: Options, as_of: float) -> None:
        self._options = options
        self._as_of = as_of
        self._type = options.actor_type or self.actor_type
        self._beginnings = tuple(state for state in self.states if state.endswith("-"))
        #: Rows found without a task.
        self.block = RunBlock()
        #: Unreadable values that a task left out.
        self.left_out: list[tuple[Address, Exception]] = []

    def take_left_out(self) -> list[tuple[Address, Exception]]:
        """Returns and clears ``left_out``."""
        left_out, self.left_out = self.left_out, []
        return left_out

    def take_block(self) -> RunBlock:
        """Returns and clears ``block``."""
        block, self.block = self.block, RunBlock()
        return block

    def patterns(self) -> list[Pattern]:
        """Returns patterns of the keys to read; the database may return a few more keys."""
        separator: Pattern = (SEPARATOR,)
        app: Pattern = ANYTHING if self._options.app_id is None else (self._options.app_id,)
        return [
            _followed(app, separator, (self._type,), separator, actor, separator, state)
            for actor in self._actors()
            for state in [(state, "") if state.endswith("-") else (state,) for state in self.states]
        ]

    def wants(self, address: Address) -> bool:
        """Returns whether the table reads this value; patterns also match others."""
        return self.is_made_of(address.state_key) and self.matches_actor(address)

    def matches_actor(self, address: Address) -> bool:
        """Returns whether the table reads the values of this actor."""
        if address.actor_type != self._type or self._options.app_id not in (None, address.app_id):
            return False
        return self._is_asked_for(address)

    def is_made_of(self, state: str) -> bool:
        return state in self.states or state.startswith(self._beginnings)

    def owner(self, address: Address, values: list[Any]) -> Any:
        """Decodes the values of ``owner_keys``; None if the table has none."""
        return None

    @abstractmethod
    def tasks(self, address: Address, value: Any, owner: Any) -> Iterator[Task]:
        """Yields the tasks that decode one value, each of bounded size and with the address it reads."""

    def gather(self, address: Address, value: Any, owner: Any) -> bool:
        """Buffers a value that is decoded together with others; returns False if it needs its own tasks."""
        return False

    def gathered(self) -> Iterator[Task]:
        """Decodes the buffered values of a page, and yields the tasks left for them."""
        return iter(())

    def _actors(self) -> list[Pattern]:
        """Returns patterns of the actor ids."""
        tenant = self._options.tenant
        return [ANYTHING] if tenant in (None, DEFAULT_TENANT) else [(f"@{tenant}@", "")]

    @abstractmethod
    def _is_asked_for(self, address: Address) -> bool: ...


class QueueTable(Table):
    actor_type = QUEUE_TYPE
    owner_keys = (METADATA, CONFIG)

    def owner(self, address: Address, values: list[Any]) -> QueueReader:
        return QueueReader(address.actor_id, values[0], values[1], self._as_of)

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

    def tasks(self, address: Address, value: Any, owner: QueueReader) -> Iterator[Task]:
        if not owner.deleted:
            yield address, self._row(address, owner)

    def _row(self, address: Address, queue: QueueReader) -> KeyReads:
        totals = yield from _of(address, queue.totals())
        self.left_out += [(address.at(key), error) for key, error in totals.left_out.items()]
        config = dump(queue.config.shown()).decode()
        counts = (totals.waiting, totals.delayed, totals.locked, totals.oldest)
        return [(*_begin(address, queue), *counts, config)]


class Locks(QueueTable):
    schema = SCHEMAS["locks"]
    states = (METADATA,)

    def tasks(self, address: Address, value: Any, owner: QueueReader) -> Iterator[Task]:
        for key, steps in owner.locks():
            yield address.at(key), self._rows(address, owner, steps)

    def _rows(self, address: Address, queue: QueueReader, steps: Any) -> KeyReads:
        lock = yield from _of(address, steps)
        if lock is None:
            return []
        return [(*_begin(address, queue), shown_id(lock), len(lock.taken), lock.created_at, lock.expires_at)]


class _Segment(NamedTuple):
    """A segment of items that were pushed and never delivered."""

    address: Address
    queue: QueueReader
    pushed: Pushed

    def same(self) -> dict[int, Any]:
        """Returns the column values that all items of its queue and priority share."""
        begin = dict(enumerate(_begin(self.address, self.queue)))
        return begin | {_PRIORITY: self.pushed.priority, _STATE: WAITING, _DELIVERIES: 0}


class Items(QueueTable):
    schema = SCHEMAS["items"]
    states = (METADATA, SEGMENTS, SHELVES)

    def __init__(self, options: Options, as_of: float) -> None:
        super().__init__(options, as_of)
        self._gathered: list[_Segment] = []

    def tasks(self, address: Address, value: Any, owner: QueueReader) -> Iterator[Task]:
        if address.state_key == METADATA:
            for steps in owner.inline():
                yield address, self._found(address, owner, steps)
            for key, steps in owner.held():
                yield address.at(key), self._found(address, owner, steps)
            for key, parcel in owner.sent():
                yield address.at(key), self._on_the_way(address, owner, parcel)
        elif address.state_key.startswith(SHELVES):
            yield address, self._found(address, owner, owner.in_delayed(address.state_key, value))
        else:
            yield address, self._found(address, owner, owner.in_segment(address.state_key, value))

    def gather(self, address: Address, value: Any, owner: QueueReader) -> bool:
        pushed = owner.only_pushed(address.state_key, value) if address.state_key.startswith(SEGMENTS) else None
        if pushed is not None:
            self._gathered.append(_Segment(address, owner, pushed))
        return pushed is not None

    def gathered(self) -> Iterator[Task]:
        segments, self._gathered = self._gathered, []
        if segments and not self._add(segments):
            for segment in segments:
                if not self._add([segment]):
                    yield segment.address, self._reread(segment.address, segment.queue)

    def _add(self, segments: list[_Segment]) -> bool:
        """Adds the rows of the segments; returns False if some values do not fit their columns."""
        lines = fitted_lines([segment.pushed.lines for segment in segments])
        if lines is None:
            return False
        lengths = lines.value_lengths().to_pylist()
        moments = fitted_moments([segment.pushed.enqueued_at for segment in segments], lengths)
        if moments is None:
            return False
        shared: dict[tuple[int, int], dict[int, Any]] = {}
        runs: list[RunLength] = []
        for segment, length in zip(segments, lengths, strict=True):
            lane = id(segment.queue), segment.pushed.priority
            if (same := shared.get(lane)) is None:
                same = shared[lane] = segment.same()
            runs.append(RunLength(length, same, segment.pushed.named, segment.pushed.first))
        self.block.add(runs, {_ITEM: lines.flatten(), _ENQUEUED_AT: moments})
        return True

    def _found(self, address: Address, queue: QueueReader, steps: Any) -> KeyReads:
        return self._rows(address, queue, (yield from _of(address, steps)))

    def _reread(self, address: Address, queue: QueueReader) -> KeyReads:
        # Rare: keeping every value in memory would cost more than reading a few twice.
        [value] = yield (address.beside(address.state_key),)
        return (yield from self._found(address, queue, queue.in_segment(address.state_key, value)))

    def _on_the_way(self, address: Address, queue: QueueReader, steps: Any) -> KeyReads:
        sent = yield from _of(address, steps)
        if sent is None:
            return []
        [arrivals] = yield (address.beside(sent.arrivals_key, sent.target),)
        return [] if sent.arrived(arrivals) else self._rows(address, queue, sent.items)

    def _rows(self, address: Address, queue: QueueReader, items: list[StoredItem]) -> Rows:
        begin = _begin(address, queue)
        return [begin + item[:-1] for item in items]


class DeadLetters(Items):
    schema = SCHEMAS["dead_letters"]

    def _add(self, segments: list[_Segment]) -> bool:
        """Adds nothing: items without further metadata are not dead letters."""
        return True

    def _rows(self, address: Address, queue: QueueReader, items: list[StoredItem]) -> Rows:
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
            # An item that is being redriven is no longer a dead letter.
            if (origin := item.origin) is not None and item.state != MOVING
        ]


class InstanceTable(Table):
    actor_type = ORCHESTRATION_TYPE
    owner_keys = (HEAD,)

    def owner(self, address: Address, values: list[Any]) -> InstanceReader | None:
        return InstanceReader.read(address.actor_id, values[0])

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

    def tasks(self, address: Address, value: Any, owner: InstanceReader | None) -> Iterator[Task]:
        if owner is not None:
            yield address, self._row(address, owner)

    def _row(self, address: Address, instance: InstanceReader) -> KeyReads:
        row = yield from _of(address, instance.row())
        return [(address.app_id, instance.tenant, instance.instance_id, *row)]


class History(InstanceTable):
    schema = SCHEMAS["history"]
    states = (HISTORY, HEAD)

    def tasks(self, address: Address, value: Any, owner: InstanceReader | None) -> Iterator[Task]:
        if owner is None:
            return
        if address.state_key == HEAD:
            yield address, self._rows(address, owner, owner.tail)
        elif owner.keeps(address.state_key):
            yield address, self._rows(address, owner, value)

    def _rows(self, address: Address, instance: InstanceReader, value: Any) -> KeyReads:
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

    def _row(self, address: Address, record: Record) -> KeyReads:
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
    """Concatenates patterns."""
    whole: Pattern = ("",)
    for pattern in patterns:
        whole = (*whole[:-1], whole[-1] + pattern[0], *pattern[1:])
    return whole


def _begin(address: Address, queue: QueueReader) -> tuple[Any, ...]:
    return (address.app_id, queue.tenant, queue.name, queue.partition)


def _of(address: Address, steps: Any) -> Any:
    """Drives a generator that yields state keys of one actor, and yields the full keys instead."""
    go_on = partial(next, steps)
    while True:
        try:
            keys = go_on()
        except StopIteration as done:
            return done.value
        try:
            answer = yield tuple(address.beside(key) for key in keys)
        except StorageBroken as error:
            # The generator may handle it.
            go_on = partial(steps.throw, error)
        else:
            go_on = partial(steps.send, answer)
