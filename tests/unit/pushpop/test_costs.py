"""The cost of an operation does not depend on the number of stored or locked items."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.pushpop.core.budgets import MAX_POP_BYTES
from holdfast.pushpop.core.lanes import SEGMENT_BYTES, SEGMENT_ITEMS
from holdfast.pushpop.core.segments import INLINE_BYTES
from tests.support.queue_driver import Cost, QueueDriver

LARGE = "x" * 10_000


def filled(depth: int, **config: Any) -> QueueDriver:
    queue = QueueDriver(**config)
    for start in range(0, depth, 1000):
        # All of the same size.
        queue.push(*(f"{number:09}" for number in range(start, min(start + 1000, depth))))
    return queue


def costs(depth: int) -> dict[str, Cost]:
    """Of one operation each, at this depth, at the same places of a segment."""
    queue = filled(depth)
    queue.pop(5)
    found = {}
    queue.push("one")
    found["push"] = queue.cost
    queue.push(*range(100))
    found["push of 100"] = queue.cost
    queue.pop()
    found["pop"] = queue.cost
    queue.pop(50)
    found["pop of 50"] = queue.cost
    lock_id = queue.lock(20)["lock_id"]
    found["pop with ack"] = queue.cost
    queue.call("ExtendLock", {"lock_id": lock_id})
    found["extend"] = queue.cost
    queue.call("Abandon", {"lock_id": lock_id})
    found["abandon"] = queue.cost
    lock_id = queue.lock(20)["lock_id"]
    queue.call("Acknowledge", {"lock_id": lock_id})
    found["acknowledge"] = queue.cost
    queue.call("Stats")
    found["stats"] = queue.cost
    return found


def test_no_operation_costs_more_in_a_deep_queue() -> None:
    shallow, deep = costs(1_000), costs(100_000)
    for operation, cost in deep.items():
        before = shallow[operation]
        assert cost.keys_written == before.keys_written, operation
        assert cost.keys_read == before.keys_read, operation
        # A number in it may have a digit or two more.
        assert cost.bytes_written <= before.bytes_written * 1.05 + 200, operation
        assert cost.bytes_read <= before.bytes_read * 1.05 + 200, operation


def test_a_push_writes_one_segment_and_the_metadata() -> None:
    queue = filled(100_000)
    queue.push(LARGE)
    assert queue.cost.keys_written <= 3  # one that made room in the metadata, once
    queue.push("one")
    assert queue.cost.keys_written == 2
    assert queue.cost.bytes_written < 2 * SEGMENT_BYTES


def test_a_queue_that_is_nearly_empty_is_one_value_whatever_passes_through() -> None:
    queue = QueueDriver(max_locks=5)
    for number in range(3 * SEGMENT_ITEMS):
        queue.push({"number": number})
        assert (queue.cost.keys_read, queue.cost.keys_written) == (0, 1)
        taken = queue.lock()
        assert (queue.cost.keys_read, queue.cost.keys_written) == (0, 1)
        queue.call("Acknowledge", {"lock_id": taken["lock_id"]})
        assert (queue.cost.keys_read, queue.cost.keys_written) == (0, 1)
        assert set(queue.store) == {"metadata", "config"}
    assert len(queue.store["metadata"]) < 1000


def test_one_that_does_not_fit_puts_no_other_out_of_the_metadata() -> None:
    queue = QueueDriver()
    for priority in range(5):
        queue.push(priority, priority=priority)
    queue.push("x" * 2 * INLINE_BYTES, priority=9)
    assert queue.cost.keys_written == 2
    assert len(queue.value("metadata")["_segments"]) == 5


def test_no_more_than_so_much_of_the_segments_lies_in_the_metadata() -> None:
    queue = QueueDriver()
    for number in range(500):
        queue.push("x" * 300, priority=number % 5)
        assert queue.cost.bytes_written < INLINE_BYTES + SEGMENT_BYTES + 4096
        assert len(queue.store["metadata"]) < INLINE_BYTES + 2048
    assert [item for _ in range(5) for item in queue.pop(100)] == ["x" * 300] * 500
    assert set(queue.store) == {"metadata"}


def test_a_bulk_push_writes_each_segment_once() -> None:
    queue = filled(50)
    queue.push(*range(1000))
    assert queue.cost.keys_written <= 1000 // SEGMENT_ITEMS + 1 + 1
    assert queue.cost.keys_read <= 1


def test_a_pop_reads_the_segments_it_takes_from() -> None:
    queue = filled(100_000)
    queue.pop(100)
    assert queue.cost.keys_read <= 100 // SEGMENT_ITEMS + 101
    distinct = queue.cost.bytes_read / 101
    assert distinct < 2 * SEGMENT_BYTES


def test_segments_are_bounded_in_items() -> None:
    queue = QueueDriver()
    for number in range(3 * SEGMENT_ITEMS):
        queue.push(number)
        assert queue.cost.keys_written <= 2
    segments = {key: queue.value(key) for key in queue.store if key.startswith("segment-")}
    segments |= queue.value("metadata").get("_segments", {})
    assert [segment["lines"].count("\n") + 1 for segment in segments.values()] == [SEGMENT_ITEMS] * 3


@pytest.mark.parametrize("item", ["x" * 10_000, '"' * 5_000, "\U0001f600" * 2_500], ids=["plain", "quoted", "wide"])
def test_segments_are_bounded_in_bytes(item: str) -> None:
    """So a push of a small item never rewrites much, whatever lies before it."""
    queue = QueueDriver()
    for _ in range(20):
        queue.push(item)
        queue.push("small")
        # Text is stored as JSON inside JSON: at worst every character of it twice.
        assert queue.cost.bytes_written < 2 * SEGMENT_BYTES + 4096


def test_an_item_larger_than_a_segment_has_one_for_itself() -> None:
    queue = QueueDriver()
    queue.push("x" * 900_000)
    queue.push("small")
    assert queue.cost.bytes_written < 4096
    assert queue.pop(2) == ["x" * 900_000, "small"]


@pytest.mark.parametrize("locks", [1, 5])
def test_a_push_does_not_rewrite_what_is_locked(locks: int) -> None:
    def cost_of_a_push(item: str) -> int:
        queue = QueueDriver(max_locks=10)
        queue.push(*[item] * 100 * locks)
        for _ in range(locks):
            assert queue.lock(100)["count"] == 100
        queue.push("another", priority=1)
        return queue.cost.bytes_written

    small, large = cost_of_a_push("x"), cost_of_a_push(LARGE)
    assert large <= small + 200
    # What the seed wants in the metadata of the first lock: where its items are. The other locks are not there.
    assert large < 100 * 64 + 2048


def test_an_error_that_many_items_share_is_not_rewritten_by_every_push() -> None:
    queue = QueueDriver()
    queue.push(*range(100))
    queue.call("Abandon", {"lock_id": queue.lock(100)["lock_id"], "error": "e" * 1000})
    assert queue.lock(100)["count"] == 100
    queue.push("another", priority=1)
    assert queue.cost.bytes_written < 100 * 64 + 4096


def test_an_acknowledge_rewrites_no_items() -> None:
    queue = filled(1_000)
    queue.call("Acknowledge", {"lock_id": queue.lock(10)["lock_id"]})
    assert (queue.cost.keys_read, queue.cost.keys_written) == (0, 1)


def test_a_segment_goes_with_the_last_of_its_items() -> None:
    queue = QueueDriver()
    queue.push(*["x" * 100] * 2 * SEGMENT_ITEMS)
    queue.pop(SEGMENT_ITEMS - 1)
    assert len([key for key in queue.store if key.startswith("segment-")]) == 2
    queue.pop()
    assert len([key for key in queue.store if key.startswith("segment-")]) == 1
    queue.pop(SEGMENT_ITEMS)
    assert set(queue.store) == {"metadata"}


def test_an_answer_is_not_larger_than_a_request_may_be() -> None:
    item = "x" * 500_000
    queue = QueueDriver()
    for _ in range(20):
        queue.push(item)
    taken = queue.lock(100)
    assert 0 < taken["count"] <= MAX_POP_BYTES // 500_000
    queue.call("Acknowledge", {"lock_id": taken["lock_id"]})
    assert queue.call("Stats")["count"] == 20 - taken["count"]


def test_one_item_is_always_given_however_large() -> None:
    queue = QueueDriver()
    queue.push("x" * 1_000_000)
    assert len(queue.pop(10)) == 1
