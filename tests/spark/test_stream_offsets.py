"""How a stream goes on from one offset to the next, asked as Spark asks it, without Spark's own process."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from holdfast.kinds import HEAD
from holdfast.local import LocalPostgres
from holdfast.orchestration.storage.record import SEGMENT_EVENTS
from holdfast.spark.source.options import Options
from holdfast.spark.source.schemas import SCHEMAS
from holdfast.spark.source.stream import SETTLE_SECONDS, HistoryStream
from holdfast.spark.stores.base import Range, Row
from tests.spark.instance_writer import StoredInstance

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence
    from pathlib import Path

    from holdfast.spark.stores.base import Pattern

Events = list[tuple[str, int, int]]
_TABLE = (
    "CREATE TABLE state (key text PRIMARY KEY, value bytea NOT NULL, etag uuid, row_id bigserial, "
    "created_at timestamptz NOT NULL DEFAULT now(), updated_at timestamptz, expires_at timestamptz)"
)


class Memory:
    """A store whose positions are the numbers of writes, and which is also the connection it is written over."""

    def __init__(self, now: float) -> None:
        self.as_of = now
        self.rows: dict[str, tuple[int, bytes]] = {}
        self.writes = 0
        self.name = "first"

    def execute(self, _: str, row: tuple[str, bytes]) -> None:
        self.put(*row)

    def put(self, key: str, value: bytes) -> None:
        self.writes += 1
        self.rows[key] = (self.writes, value)

    def delete(self, instance_id: str) -> None:
        self.rows = {key: row for key, row in self.rows.items() if key.split("||")[2] != instance_id}

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, *_: object) -> None: ...

    def ranges(self) -> list[Range]:
        return [Range()]

    def scan(self, within: Range, patterns: Sequence[Pattern]) -> Iterator[Row]:
        yield from (Row(key, value) for key, (_, value) in self.rows.items())

    def keys(self, within: Range) -> Iterator[str]:
        yield from self.rows

    def lineage(self) -> str:
        return self.name

    def position(self) -> int:
        return self.writes

    def changed(self, since: int, patterns: Sequence[Pattern]) -> Iterator[Row]:
        yield from (Row(key, value) for key, (written, value) in self.rows.items() if written >= since)

    def lookup(self, keys: Sequence[str]) -> dict[str, bytes]:
        return {key: self.rows[key][1] for key in keys if key in self.rows}


class Follower:
    """Goes on as Spark does: the end of a batch is where the next begins, written down as JSON in between."""

    def __init__(self, url: str = "sqlite:///none.db", **options: str) -> None:
        self._options = Options.read({"url": url, "table": "history"} | options)
        self._stream = HistoryStream(self._options, SCHEMAS["history"])
        self.offset: dict[str, Any] = json.loads(json.dumps(self._stream.initialOffset()))

    def start_again(self) -> None:
        self._stream = HistoryStream(self._options, SCHEMAS["history"])

    def go_on(self) -> Events:
        end = json.loads(json.dumps(self._stream.latestOffset(self.offset)))
        found: Events = []
        for part in self._stream.partitions(self.offset, end):
            for batch in self._stream.read(part):
                found += [(row["instance_id"], row["execution_id"], row["seq"]) for row in batch.to_pylist()]
        self.offset = end
        return sorted(found)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Memory:
    """The store that every stream reads."""
    memory = Memory(now=1_000.0)
    monkeypatch.setattr("holdfast.spark.source.stream.open_store", lambda _: memory)
    monkeypatch.setattr("tests.spark.instance_writer.time.time", lambda: memory.as_of)
    return memory


def test_each_event_comes_once_over_many_parts(store: Memory) -> None:
    follower, instance = Follower(), StoredInstance("shop", "a")
    expected = 0
    for number in (1, SEGMENT_EVENTS - 1, 1, 3 * SEGMENT_EVENTS + 5, 2):
        instance.turn(store, number)
        assert follower.go_on() == [("a", 1, seq) for seq in range(expected + 1, expected + number + 1)]
        expected += number
        follower.start_again()
    assert follower.go_on() == []


def test_each_event_comes_once_over_many_executions(store: Memory) -> None:
    """Also if a part of an execution was read before it ended, and if nothing of it was."""
    follower, instance = Follower(), StoredInstance("shop", "a")
    instance.turn(store, SEGMENT_EVENTS + 3)
    assert len(follower.go_on()) == SEGMENT_EVENTS + 3
    instance.turn(store, 2)
    instance.continue_as_new(store, 4)
    assert follower.go_on() == [
        *(("a", 1, SEGMENT_EVENTS + seq) for seq in (4, 5)),
        *(("a", 2, seq) for seq in range(1, 5)),
    ]
    instance.turn(store, SEGMENT_EVENTS)
    instance.continue_as_new(store, 1)
    instance.continue_as_new(store, 2)
    follower.start_again()
    assert follower.go_on() == [
        *(("a", 2, seq) for seq in range(5, SEGMENT_EVENTS + 5)),
        ("a", 3, 1),
        *(("a", 4, seq) for seq in (1, 2)),
    ]
    assert follower.go_on() == []


def test_an_id_that_is_used_again_is_another_instance(store: Memory) -> None:
    follower = Follower()
    StoredInstance("shop", "a", created_at=900.0).turn(store, 3)
    assert len(follower.go_on()) == 3
    store.delete("a")
    assert follower.go_on() == []
    store.as_of += 1
    second = StoredInstance("shop", "a", created_at=1_001.0)
    second.turn(store, 2)
    assert follower.go_on() == [("a", 1, 1), ("a", 1, 2)]
    second.turn(store, 1)
    assert follower.go_on() == [("a", 1, 3)]


def test_one_that_is_deleted_between_two_looks_is_not_seen(store: Memory) -> None:
    follower = Follower()
    StoredInstance("shop", "a").turn(store, 3)
    end = follower._stream.latestOffset(follower.offset)
    store.delete("a")
    [part] = follower._stream.partitions(follower.offset, end)
    assert list(follower._stream.read(part)) == []


def test_marks_are_forgotten_when_nothing_can_be_late_any_more(store: Memory) -> None:
    follower, old, young = Follower(), StoredInstance("shop", "old"), StoredInstance("shop", "young")
    old.turn(store, 2)
    follower.go_on()
    store.as_of += SETTLE_SECONDS + 1
    young.turn(store, 1)
    assert follower.go_on() == [("young", 1, 1)]
    assert [owner.rpartition("||")[2] for owner in follower.offset["marks"]] == ["young"]
    old.turn(store, 2)
    assert follower.go_on() == [("old", 1, 3), ("old", 1, 4)]


def test_from_now_on(store: Memory) -> None:
    instance = StoredInstance("shop", "a")
    instance.turn(store, 2)
    follower = Follower(starting="latest")
    assert follower.go_on() == []
    assert "unsaved" not in follower.offset
    store.as_of += 1
    instance.turn(store, 1)
    assert follower.go_on() == [("a", 1, 3)]


@pytest.mark.parametrize("ahead", [2.0, 60.0, SETTLE_SECONDS - 60])
def test_from_now_on_whatever_the_clocks_of_hosts_say(store: Memory, ahead: float) -> None:
    """Of one that is behind, and of a turn that began before and is committed after, events seem to be earlier."""
    known = StoredInstance("shop", "known")
    known.turn(store, 2)
    store.as_of += ahead
    follower = Follower(starting="latest")
    StoredInstance("shop", "new").turn(store, 2)
    known.turn(store, 1)
    assert follower.go_on() == [("known", 1, 3), ("new", 1, 1), ("new", 1, 2)]


def test_from_now_on_is_not_about_what_was_before(store: Memory) -> None:
    old = StoredInstance("shop", "old")
    old.turn(store, 2)
    store.as_of += SETTLE_SECONDS + 60
    follower = Follower(starting="latest")
    assert follower.offset["marks"] == {}
    assert follower.go_on() == []


def test_an_offset_stays_where_nothing_happens(store: Memory) -> None:
    follower = Follower()
    StoredInstance("shop", "a").turn(store, 2)
    follower.go_on()
    before = follower.offset
    store.put("shop||PushPopActor||q||metadata", b"{}")
    assert follower.go_on() == []
    assert follower.offset == before


@pytest.mark.parametrize("renamed", [True, False])
def test_where_positions_begin_anew_nothing_is_lost_or_repeated(
    store: Memory, renamed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """As after a dump and restore: the same rows, in another order, counted from the start."""
    follower, settled, instance = Follower(), StoredInstance("shop", "settled"), StoredInstance("shop", "a")
    settled.turn(store, 2)
    follower.go_on()
    store.as_of += SETTLE_SECONDS + 1
    for _ in range(20):
        instance.turn(store, 1)
        follower.go_on()
    instance.turn(store, 1)
    values, store.writes = {key: value for key, (_, value) in store.rows.items()}, 0
    for key, value in values.items():
        store.put(key, value)
    store.name = "second" if renamed else "first"
    follower.start_again()
    with caplog.at_level(logging.WARNING):
        assert follower.go_on() == [("a", 1, 21)]
    assert "reading the heads of all instances again" in caplog.text
    assert [owner.rpartition("||")[2] for owner in follower.offset["marks"]] == ["a"]
    instance.turn(store, 1)
    settled.turn(store, 1)
    assert follower.go_on() == [("a", 1, 22), ("settled", 1, 3)]


@pytest.mark.parametrize("torn", [None, b"{", b"7", b"[{}]", b'[{"type": "TimerCreated", "seq": "x"}]'])
def test_a_part_that_cannot_be_read_is_told_and_holds_up_nobody(
    store: Memory, torn: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    follower, bad, good = Follower(), StoredInstance("shop", "bad"), StoredInstance("shop", "good")
    bad.turn(store, SEGMENT_EVENTS + 1)
    good.turn(store, 1)
    key = "shop||OrchestrationActor||bad||history-0-1-0"
    if torn is None:
        del store.rows[key]
    else:
        store.put(key, torn)
    with caplog.at_level(logging.WARNING):
        assert follower.go_on() == [("bad", 1, SEGMENT_EVENTS + 1), ("good", 1, 1)]
    assert "skips history-0-1-0 of shop||OrchestrationActor||bad: " in caplog.text


@pytest.mark.parametrize("torn", [b"{", b"[]", b'{"format": 99}'])
def test_a_head_that_cannot_be_read_is_told(store: Memory, torn: bytes, caplog: pytest.LogCaptureFixture) -> None:
    follower, bad, good = Follower(), StoredInstance("shop", "bad"), StoredInstance("shop", "good")
    bad.turn(store, 1)
    good.turn(store, 1)
    store.put(f"shop||OrchestrationActor||bad||{HEAD}", torn)
    with caplog.at_level(logging.WARNING):
        assert follower.go_on() == [("good", 1, 1)]
    assert "skips instance of shop||OrchestrationActor||bad: " in caplog.text
    bad.turn(store, 1)
    assert follower.go_on() == [("bad", 1, 1), ("bad", 1, 2)]


def test_data_that_moves_to_another_cluster_is_followed_there(tmp_path: Path) -> None:
    asyncio.run(_moved(tmp_path))


async def _moved(folder: Path) -> None:
    async with _database(folder / "one") as one, _database(folder / "two") as two:
        await asyncio.to_thread(_follow_from_one_to_the_other, one, two)


def _follow_from_one_to_the_other(one: str, two: str) -> None:
    instance = StoredInstance("shop", "a")
    with psycopg.connect(one, autocommit=True) as before, psycopg.connect(two, autocommit=True) as after:
        for connection in (before, after):
            connection.execute(_TABLE)
        for _ in range(50):
            before.execute("SELECT pg_current_xact_id()")
        instance.turn(before, 2)
        follower = Follower(one)
        assert follower.go_on() == [("a", 1, 1), ("a", 1, 2)]
        instance.turn(after, 1)
        for key, value in before.execute("SELECT key, value FROM state").fetchall():
            after.execute("INSERT INTO state (key, value) VALUES (%s, %s) ON CONFLICT DO NOTHING", (key, value))
    there = Follower(two)
    there.offset = follower.offset
    assert there.go_on() == [("a", 1, 3)]
    assert there.offset["lineage"] != follower.offset["lineage"]


@asynccontextmanager
async def _database(folder: Path) -> AsyncIterator[str]:
    async with LocalPostgres(folder) as postgres:
        yield await postgres.create_database("state")
