"""Streams the histories: every event of every instance once.

An offset has a mark for each instance: how far it was read. The database finds rows that may have changed since (by
transaction ids in PostgreSQL, by the time of the last write in SQLite). It may return rows again that were read; their
mark shows that. Events are only appended, so those between two marks can be read again while the instance exists.
After the data has moved to another database, where positions have another meaning, all heads are read again.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from holdfast.errors import InvalidRequest, StorageBroken
from holdfast.kinds import HEAD
from holdfast.orchestration.reader import InstanceReader, events_in
from holdfast.orchestration.storage.record import segment_key
from holdfast.pushpop.reader import UNREADABLE
from holdfast.spark.decode.arrow import BATCH_BYTES, Columns
from holdfast.spark.decode.column_types import valid_rows
from holdfast.spark.decode.decoder import SEPARATOR, Address
from holdfast.spark.decode.tables import History, Instances
from holdfast.spark.source.schemas import check_columns
from holdfast.spark.stores.open import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType

    from holdfast.orchestration.reader import StoredEvent
    from holdfast.spark.source.options import Options
    from holdfast.spark.stores.base import Store

log = logging.getLogger(__name__)

# Instances not written for this long need no mark: all their events were read. No host's clock is so far behind that
# its later writes would seem older.
SETTLE_SECONDS = 3600.0
# Instances that one task reads.
_INSTANCES_A_PART = 2000
_INSTANCES_AT_ONCE = 32
_SEGMENTS_AT_ONCE = 20

Offset = dict[str, Any]


class Mark(NamedTuple):
    """The position up to which an instance was read."""

    #: The instance's incarnation: its id may be used again later.
    life: int
    created_at: float
    execution: int
    #: The number of events of that execution, and of their segments: the last events may not be in a segment yet.
    events: int
    segments: int
    updated_at: float

    @classmethod
    def of(cls, instance: InstanceReader) -> Mark:
        head = instance.head
        mark = cls(
            head["generation"],
            head["created_at"],
            head["execution_id"],
            head["events"],
            head["segments"],
            head["updated_at"],
        )
        if not {int, float}.issuperset(map(type, mark)):
            raise StorageBroken("Its head has no valid counts and times.")
        return mark

    def is_of(self, other: Mark) -> bool:
        """Returns whether both marks belong to the same instance."""
        return self[:2] == other[:2]


@dataclass(frozen=True, slots=True)
class Stretch:
    """The events of an instance between two marks."""

    owner: str
    since: Mark | None
    until: Mark
    #: For an instance without an earlier mark: events up to this time were read before.
    settled: float


@dataclass
class Part(InputPartition):
    stretches: list[Stretch]


class HistoryStream(DataSourceStreamReader):
    def __init__(self, options: Options, schema: StructType) -> None:
        if options.table != "history":
            raise InvalidRequest("Only the table 'history' can be streamed; use spark.read for the others.")
        if options.snapshot is not None or options.as_of is not None:
            raise InvalidRequest("The options 'snapshot' and 'as_of' do not apply to a stream.")
        self._options = options
        self._schema = schema
        check_columns(options.table, schema, options.schema)
        #: A position, and the later one up to which nothing new was found since.
        self._idle: tuple[int, int] | None = None

    def initialOffset(self) -> Offset:
        if self._options.starting == "earliest":
            return {"position": 0, "settled": 0.0, "marks": {}}
        with open_store(self._options) as store:
            # Host clocks are not compared with the current time: recently written instances get a mark.
            settled = store.as_of - SETTLE_SECONDS
            marks = {owner: mark for owner, mark in self._heads(store, 0) if mark.updated_at > settled}
            begin = {"position": store.position(), "lineage": store.lineage(), "settled": settled}
            return begin | {"marks": marks, "unsaved": True}

    def latestOffset(self, start: Offset | None = None, limit: ReadLimit | None = None) -> Offset:
        if start is None:
            raise InvalidRequest("Streaming the history needs Spark 4.2 or later.")
        marks = _marks(start)
        with open_store(self._options) as store:
            position, lineage = store.position(), store.lineage()
            since = self._since(start, position, lineage)
            changed = {
                owner: mark
                for owner, mark in self._heads(store, since)
                # An instance without a mark that was not written since has no unread events.
                if (owner in marks or mark.updated_at > start["settled"]) and marks.get(owner) != mark
            }
            settled = max(start["settled"], store.as_of - SETTLE_SECONDS)
        if not changed and start.get("lineage") == lineage and "unsaved" not in start:
            self._idle = (start["position"], position)
            return start
        # The first batch, even an empty one, saves the start position: a restart would begin later without it.
        kept = {owner: mark for owner, mark in marks.items() if mark.updated_at > settled}
        return {"position": position, "lineage": lineage, "settled": settled, "marks": kept | changed}

    def _since(self, start: Offset, position: int, lineage: str) -> int:
        """Returns the position to look for changes from; 0 when positions of the offset no longer compare."""
        since: int = start["position"]
        if start.get("lineage") != lineage and "unsaved" not in start:
            if since:
                log.warning("The data has moved to another database: reading the heads of all instances again.")
            return 0
        if self._idle is not None and self._idle[0] == since:
            since = self._idle[1]
        if since > position:
            log.warning("The database is behind its earlier position: reading the heads of all instances again.")
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
        with open_store(self._options) as store:
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
        """Yields the marks of instances that may have changed."""
        table = Instances(self._options, store.as_of)
        for key, value in store.changed(since, table.patterns()):
            address = Address.parse(key)
            if address is None or not table.wants(address):
                continue
            try:
                instance = InstanceReader.read(address.actor_id, orjson.loads(value))
                if instance is not None:
                    yield address.owner, Mark.of(instance)
            except UNREADABLE as error:
                _skip(address, error)  # a write that repairs it makes it appear again


def _read(store: Store, stretches: list[Stretch]) -> Iterator[tuple[list[tuple[Any, ...]], int]]:
    """Yields the events of some instances, and the number of bytes read for them."""
    heads = store.lookup([f"{stretch.owner}{SEPARATOR}{HEAD}" for stretch in stretches])
    for stretch in stretches:
        head = heads.get(f"{stretch.owner}{SEPARATOR}{HEAD}")
        address = Address.parse(f"{stretch.owner}{SEPARATOR}{HEAD}")
        assert address is not None
        try:
            instance = None if head is None else InstanceReader.read(address.actor_id, orjson.loads(head))
            # Otherwise it was deleted meanwhile, with its history.
            if head is not None and instance is not None and Mark.of(instance).is_of(stretch.until):
                yield [], len(head)
                yield from _events(store, stretch, address, instance)
        except UNREADABLE as error:
            _skip(address, error)


def _events(
    store: Store, stretch: Stretch, address: Address, instance: InstanceReader
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
        # Events that were not in a segment when the mark was made may be in one now, with later events.
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
    """Returns the rows of a segment for the events after ``after`` and up to ``upto``."""
    events = [
        begin + event
        for event in _events_of(part, segment)
        if event.seq > after
        and (upto is None or event.seq <= upto)
        and (stretch.since is not None or event.timestamp > stretch.settled)
    ]
    return list(valid_rows(events, History.schema, partial(_skip, part))) if events else []


def _events_of(part: Address, segment: bytes | list[dict[str, Any]] | None) -> list[StoredEvent]:
    """Returns the events of a segment. Skips a missing or unreadable one: waiting for it could block the stream."""
    try:
        if segment is None:
            raise StorageBroken("It is missing from the store.")
        events = events_in(orjson.loads(segment) if isinstance(segment, bytes) else segment)
        for event in events:
            if not isinstance(event.seq, int) or not isinstance(event.timestamp, int | float):
                raise StorageBroken("An event has no number, or no time.")
    except UNREADABLE as error:
        _skip(part, error)
        return []
    return events


def _skip(address: Address, error: Exception) -> None:
    log.warning("The stream skips %s of %s: %s", address.state_key, address.owner, error)


def _marks(offset: Offset) -> dict[str, Mark]:
    return {owner: Mark(*mark) for owner, mark in offset["marks"].items()}
