"""A queue that is read from the store is the queue that was in memory, after whatever was done to it."""

from __future__ import annotations

import random
from typing import Any

import pytest

from holdfast.errors import StorageBroken
from holdfast.pushpop.core import lanes
from holdfast.pushpop.core.format_version import FORMAT
from holdfast.pushpop.reader import QueueReader
from holdfast.runtime.serialization import dump
from tests.properties.operations import Known, Operations
from tests.properties.sizes import small
from tests.support.queue_driver import QueueDriver


def seen(queue: QueueDriver) -> list[Any]:
    """All that can be seen of it without changing it."""
    in_flight = sorted(queue.call("InFlight")["locks"], key=str)
    stats = queue.call("Stats")
    stats["locks"].sort(key=str)
    return [stats, in_flight, queue.call("Peek", {"count": 100}), queue.call("Transferred")]


@pytest.mark.parametrize("seed", range(12))
def test_a_restart_changes_nothing(seed: int) -> None:
    generator = random.Random(seed)
    with small(generator):
        queue, make = QueueDriver(), Operations(generator)
        locks: list[str] = []
        ids: list[str] = []
        for _ in range(150):
            operation = make.next(Known(locks[-4:], ids[-20:]))
            answer = queue.call(operation.method, operation.data)
            if "lock_id" in answer:
                locks.append(answer["lock_id"])
            ids += answer.get("ids", [])
            queue.pass_time(generator.choice((0, 0, 1, 20)))
            queue.settle()
            before = seen(queue)
            queue.restart()
            assert seen(queue) == before, f"after {operation}"


def test_a_turn_that_is_not_saved_has_not_happened() -> None:
    queue = QueueDriver(max_locks=3)
    queue.push("a", "b", "c")
    lock_id = queue.lock()["lock_id"]
    before, stored = seen(queue), dict(queue.store)
    for call in (
        ("Push", {"item": "d"}),
        ("Pop", None),
        ("PopWithAck", {"count": 2}),
        ("Acknowledge", {"lock_id": lock_id}),
        ("Abandon", {"lock_id": lock_id}),
        ("DeadLetter", {"lock_id": lock_id}),
        ("ExtendLock", {"lock_id": lock_id}),
        ("Purge", None),
        ("SetConfig", {"max_locks": 9}),
    ):
        queue.turn(call, saved=False)
        assert (seen(queue), queue.store) == (before, stored), call


def test_a_turn_that_changes_nothing_writes_nothing() -> None:
    queue = QueueDriver()
    queue.push("a", "b")
    queue.lock()
    for method in ("Pop", "PopWithAck", "Peek", "InFlight", "Stats", "GetConfig"):
        queue.call(method)
        assert queue.cost.keys_written == 0, method


@pytest.mark.parametrize(
    ("metadata", "found"),
    [
        ({"_format": FORMAT + 1}, f"format {FORMAT + 1}, of a later version"),
        ({"_format": 1}, "format 1, of an earlier version"),
        ({"_format": "new"}, "its state has no format version"),
        ({}, "its state has no format version"),
    ],
)
def test_a_state_of_another_format_is_refused_in_a_sentence(metadata: dict[str, Any], found: str) -> None:
    queue = QueueDriver()
    queue.store["metadata"] = dump(metadata)
    with pytest.raises(StorageBroken, match=f"Queue orders .*{found}.*reads format {FORMAT}"):
        queue.pop()
    with pytest.raises(StorageBroken, match=f"{found}.*reads format {FORMAT}"):
        QueueReader("orders", metadata, None, queue.now)


def test_what_is_passed_while_looking_leaves_the_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "SEGMENT_ITEMS", 2)
    queue = QueueDriver()
    [_, second, _] = queue.push("a", "b", "c")
    assert queue.call("Revoke", {"id": second})["success"]
    assert queue.pop() == ["a"]
    assert queue.call("Stats")["count"] == 1
    assert list(queue.value("metadata")["_segments"]) == ["segment-0-1"]
    queue.restart()
    assert queue.pop(2) == ["c"]
