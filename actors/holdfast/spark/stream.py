"""Follows the histories: every event once, as instances go on.

An offset says how far each instance was read. What may have changed since is found by the database (by the ids of
transactions in PostgreSQL, by the time of the last write in SQLite), generously: what it names twice is known by its
mark. Events are only ever appended, so those between two marks can be read again as long as the instance exists.
After the data has moved to another database, where positions mean something else, all heads are looked at once more.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from holdfast.errors import StorageBroken
from holdfast.orchestration.chronicle import HEAD, segment_key
from holdfast.orchestration.stored import StoredInstance, events_in
from holdfast.pushpop.stored import UNREADABLE
from holdfast.spark.batches import BATCH_BYTES, Columns
from holdfast.spark.fitting import fitting
from holdfast.spark.refusals import invalid
from holdfast.spark.rows import SEPARATOR, Address
from holdfast.spark.schemas import check_columns
from holdfast.spark.stores import opened
from holdfast.spark.tables import History, Instances

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType

    from holdfast.orchestration.stored import StoredEvent
    from holdfast.spark.options import Options
    from holdfast.spark.store import Store

log = logging.getLogger(__name__)

# Instances that were not written for so long need no mark: all they had until then was read. No host's clock is so
# far behind that what it writes later seems older.
SETTLE_SECONDS = 3600.0
# What one task reads.
_INSTANCES_A_PART = 2000
_INSTANCES_AT_ONCE = 32
_SEGMENTS_AT_ONCE = 20

Offset = dict[str, Any]


class Mark(NamedTuple):
    """How far an instance was read."""

    #: Which instance it is: another may have its id later.
    life: int
    created_at: float
    execution: int
    #: How many events that execution had, and how many segments of them: the last ones were in none yet.
    events: int
    segments: int
    updated_at: float

    @classmethod
    def of(cls, instance: StoredInstance) -> Mark:
        head = instance.head
        mark = cls(
            head["life"],
            head["created_at"],
            head["execution_id"],
            head["events"],
            head["segments"],
            head["updated_at"],
        )
        if not {int, float}.issuperset(map(type, mark)):
            raise StorageBroken("It does not say how far it is.")
        return mark

    def is_of(self, other: Mark) -> bool:
        """Whether both are of the same instance."""
        return self[:2] == other[:2]


@dataclass(frozen=True, slots=True)
class Stretch:
    """What an instance did from one mark to the next."""

    owner: str
    since: Mark | None
    until: Mark
    #: Of one that had no mark: events that are not later were read before.
    settled: float


@dataclass
class Part(InputPartition):
    stretches: list[Stretch]


class HistoryStream(DataSourceStreamReader):
    def __init__(self, options: Options, schema: StructType) -> None:
        if options.table != "history":
            raise invalid("Only the table 'history' can be followed; the others can be loaded.")
        if options.snapshot is not None or options.as_of is not None:
            raise invalid("A stream follows what happens: it has no 'snapshot' and no 'as_of'.")
        self._options = options
        self._schema = schema
        check_columns(options.table, schema, options.schema)
        #: Where there was nothing new, and until where that is known.
        self._idle: tuple[int, int] | None = None

    def initialOffset(self) -> Offset:
        if self._options.starting == "earliest":
            return {"position": 0, "settled": 0.0, "marks": {}}
        with opened(self._options) as store:
            # What the clocks of hosts say is not compared with now: those that were written lately are marked.
            settled = store.as_of - SETTLE_SECONDS
            marks = {owner: mark for owner, mark in self._heads(store, 0) if mark.updated_at > settled}
            begin = {"position": store.position(), "lineage": store.lineage(), "settled": settled}
            return begin | {"marks": marks, "unsaved": True}

    def latestOffset(self, start: Offset | None = None, limit: ReadLimit | None = None) -> Offset:
        if start is None:
            raise invalid("To follow the history takes Spark 4.2 or later.")
        marks = _marks(start)
        with opened(self._options) as store:
            position, lineage = store.position(), store.lineage()
            since = self._since(start, position, lineage)
            changed = {
                owner: mark
                for owner, mark in self._heads(store, since)
                # One without a mark that was not written since then has nothing that was not read.
                if (owner in marks or mark.updated_at > start["settled"]) and marks.get(owner) != mark
            }
            settled = max(start["settled"], store.as_of - SETTLE_SECONDS)
        if not changed and start.get("lineage") == lineage and "unsaved" not in start:
            self._idle = (start["position"], position)
            return start
        # Where it began is saved with the first batch, which may have nothing in it: another start would be later.
        kept = {owner: mark for owner, mark in marks.items() if mark.updated_at > settled}
        return {"position": position, "lineage": lineage, "settled": settled, "marks": kept | changed}

    def _since(self, start: Offset, position: int, lineage: str) -> int:
        """From where on something may have changed: all of it, where positions are not of the same order any more."""
        since: int = start["position"]
        if start.get("lineage") != lineage and "unsaved" not in start:
            if since:
                log.warning("The data has moved to another database: all instances are looked at once more.")
            return 0
        if self._idle is not None and self._idle[0] == since:
            since = self._idle[1]
        if since > position:
            log.warning("The database is behind where it was: all instances are looked at once more.")
            return 0
        return since

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        before = _marks(start)
        stretches = [
            Stretch(owner, before.get(owner), mark, start["settled"])
            for owner, mark in _marks(end).items()
            if before.get(owner) != mark
        ]
        return [Part(stretches[at : at + _INSTANCES_A_PART]) for at in range(0, len(stretches), _INSTANCES_A_PART)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Part)
        columns = Columns(self._options.table, self._schema)
        rows: list[tuple[Any, ...]] = []
        size = 0
        with opened(self._options) as store:
            for at in range(0, len(partition.stretches), _INSTANCES_AT_ONCE):
                for found, weight in _read(store, partition.stretches[at : at + _INSTANCES_AT_ONCE]):
                    rows += found
                    size += weight
                    if size >= BATCH_BYTES and rows:
                        yield columns.batch(rows)
                        rows, size = [], 0
        if rows:
            yield columns.batch(rows)

    def _heads(self, store: Store, since: int) -> Iterator[tuple[str, Mark]]:
        """Of the instances that may have changed."""
        table = Instances(self._options, store.as_of)
        for key, value in store.changed(since, table.patterns()):
            address = Address.parse(key)
            if address is None or not table.wants(address):
                continue
            try:
                instance = StoredInstance.read(address.actor_id, orjson.loads(value))
                if instance is not None:
                    yield address.owner, Mark.of(instance)
            except UNREADABLE as error:
                _passed_over(address, error)  # until it is whole again, which it is by being written


def _read(store: Store, stretches: list[Stretch]) -> Iterator[tuple[list[tuple[Any, ...]], int]]:
    """The events of some instances, and how much was read for them."""
    heads = store.lookup([f"{stretch.owner}{SEPARATOR}{HEAD}" for stretch in stretches])
    for stretch in stretches:
        head = heads.get(f"{stretch.owner}{SEPARATOR}{HEAD}")
        address = Address.parse(f"{stretch.owner}{SEPARATOR}{HEAD}")
        assert address is not None
        try:
            instance = None if head is None else StoredInstance.read(address.actor_id, orjson.loads(head))
            # Deleted meanwhile, with its history.
            if head is not None and instance is not None and Mark.of(instance).is_of(stretch.until):
                yield [], len(head)
                yield from _events(store, stretch, address, instance)
        except UNREADABLE as error:
            _passed_over(address, error)


def _events(
    store: Store, stretch: Stretch, address: Address, instance: StoredInstance
) -> Iterator[tuple[list[tuple[Any, ...]], int]]:
    until, since = stretch.until, stretch.since
    known = since is not None and since.is_of(until)
    begin = (address.app_id, instance.tenant, instance.instance_id)
    for execution, segments in sorted(instance.extents.items()):
        first, after = (since.segments, since.events) if known and since and execution == since.execution else (0, 0)
        if execution > until.execution or (known and since and execution < since.execution):
            continue
        upto = until.events if execution == until.execution else None
        shown = partial(_shown, begin, stretch, after, upto)
        # What was in no segment when it was marked may be in one now, with later events.
        end = min(until.segments + 1, segments) if execution == until.execution else segments
        keys = [address.beside(segment_key(until.life, execution, number)) for number in range(first, end)]
        for at in range(0, len(keys), _SEGMENTS_AT_ONCE):
            some = keys[at : at + _SEGMENTS_AT_ONCE]
            values = store.lookup(some)
            found: list[tuple[Any, ...]] = []
            for key in some:
                found += shown(address.at(key.rpartition(SEPARATOR)[2]), values.get(key))
            yield found, sum(map(len, values.values()))
        if execution == instance.head["execution_id"] and segments <= until.segments:
            yield shown(address, instance.tail), 0


def _shown(
    begin: tuple[str, ...],
    stretch: Stretch,
    after: int,
    upto: int | None,
    part: Address,
    segment: bytes | list[dict[str, Any]] | None,
) -> list[tuple[Any, ...]]:
    """The rows of a part, of the events after one and up to another."""
    events = [
        begin + event
        for event in _events_of(part, segment)
        if event.seq > after
        and (upto is None or event.seq <= upto)
        and (stretch.since is not None or event.timestamp > stretch.settled)
    ]
    return list(fitting(events, History.schema, partial(_passed_over, part))) if events else []


def _events_of(part: Address, segment: bytes | list[dict[str, Any]] | None) -> list[StoredEvent]:
    """None of a part that is missing or cannot be read: whoever waited for it would wait forever."""
    try:
        if segment is None:
            raise StorageBroken("It is missing from the store.")
        events = events_in(orjson.loads(segment) if isinstance(segment, bytes) else segment)
        for event in events:
            if not isinstance(event.seq, int) or not isinstance(event.timestamp, int | float):
                raise StorageBroken("An event has no number, or no time.")
    except UNREADABLE as error:
        _passed_over(part, error)
        return []
    return events


def _passed_over(address: Address, error: Exception) -> None:
    log.warning("The stream passes over %s of %s: %s", address.state_key, address.owner, error)


def _marks(offset: Offset) -> dict[str, Mark]:
    return {owner: Mark(*mark) for owner, mark in offset["marks"].items()}
