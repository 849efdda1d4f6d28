"""Purging: what waits is gone at once, what is locked stays, and the rest is tidied up bit by bit."""

from __future__ import annotations

from holdfast.pushpop.core.deferred_deletes import SWEEP_AT_ONCE
from holdfast.pushpop.core.lanes import SEGMENT_ITEMS
from tests.support.queue_driver import QueueDriver


def test_all_that_waits_is_gone_and_counted() -> None:
    queue = QueueDriver()
    queue.push(*range(5))
    queue.push(*range(3), priority=2)
    assert queue.call("Purge") == {"success": True, "purged": 8}
    stats = queue.call("Stats")
    assert (stats["count"], stats["priorities"], stats["oldest_age_seconds"]) == (0, {}, None)
    assert queue.pop(10) == []
    assert queue.call("Purge")["purged"] == 0


def test_what_was_given_back_waits_too() -> None:
    queue = QueueDriver()
    queue.push(*range(5))
    queue.call("Abandon", {"lock_id": queue.lock(3)["lock_id"]})
    assert queue.call("Purge")["purged"] == 5
    queue.restart()
    assert queue.waiting() == []


def test_what_is_locked_stays() -> None:
    queue = QueueDriver(max_locks=3)
    queue.push(*range(10))
    kept, returned = queue.lock(2)["lock_id"], queue.lock(2)["lock_id"]
    assert queue.call("Purge")["purged"] == 6
    for _ in range(3):
        queue.turn()
    queue.restart()
    assert queue.call("Acknowledge", {"lock_id": kept})["items_acknowledged"] == 2
    queue.call("Abandon", {"lock_id": returned})
    assert queue.pop(10) == [2, 3]
    assert set(queue.store) <= {"metadata", "config"}


def test_what_is_pushed_afterwards_is_not_purged() -> None:
    queue = QueueDriver()
    queue.push(*range(250))
    queue.call("Purge")
    queue.push("new")
    for _ in range(5):
        queue.turn()
    queue.restart()
    assert queue.waiting() == ["new"]


def test_a_large_queue_is_swept_in_the_background_some_at_a_time() -> None:
    queue = QueueDriver()
    segments = 2 * SWEEP_AT_ONCE + 50
    for start in range(0, segments * SEGMENT_ITEMS, 1000):
        queue.push(*range(start, start + 1000))
    before = len(queue.store)
    queue.call("Purge")
    assert queue.cost.keys_written == 1
    assert len(queue.store) == before
    turns = 0
    while (deadline := queue.queue.next_deadline(queue.now)) is not None and deadline <= queue.now:
        queue.restart()
        queue.turn()
        assert queue.cost.keys_written <= SWEEP_AT_ONCE + 1
        turns += 1
    assert turns == 3
    assert set(queue.store) == {"metadata"}


def test_a_delayed_item_that_came_back_after_a_purge_is_gone_with_the_next() -> None:
    queue = QueueDriver()
    queue.call("Push", {"item": "a", "delay_seconds": 1})
    queue.pass_time(2)
    lock_id = queue.lock()["lock_id"]
    queue.push("b")
    assert queue.call("Purge")["purged"] == 1
    queue.call("Abandon", {"lock_id": lock_id})
    assert queue.call("Purge")["purged"] == 1
    queue.call("Stats")
    assert set(queue.store) == {"metadata"}
