"""Dedup ids in a queue of several partitions: the first one remembers where each of them belongs."""

from __future__ import annotations

from tests.support.queue_driver import QueueDriver


def claim(queue: QueueDriver, dedup_id: str, partition: int) -> int:
    [home] = queue.call("Claim", {"dedup_ids": [dedup_id], "partition": partition})["partitions"]
    return int(home)


def test_an_id_stays_where_it_was_claimed_first() -> None:
    queue = QueueDriver(partitions=3)
    assert claim(queue, "a", 2) == 2
    queue.restart()
    queue.pass_time(299)
    assert claim(queue, "a", 1) == 2
    assert claim(queue, "b", 1) == 1


def test_what_was_pushed_before_there_were_partitions_belongs_to_the_first() -> None:
    queue = QueueDriver()
    queue.call("Push", {"item": 1, "dedup_id": "a"})
    queue.call("SetConfig", {"partitions": 3})
    assert claim(queue, "a", 2) == 0


def test_a_claim_outlasts_the_push_that_follows_it() -> None:
    """Pushed a little later than it was claimed, the id is remembered a little longer than its claim would be."""
    queue, other = QueueDriver(partitions=3, dedup_window_seconds=10), QueueDriver("orders@2")
    news = queue.call("PendingConfig")
    other.call("Configure", {key: news[key] for key in ("config", "version", "generation")})
    assert claim(queue, "a", 2) == 2
    other.now = queue.now + 3
    assert other.call("Push", {"item": 1, "dedup_id": "a"})["count"] == 1
    queue.pass_time(11)
    assert claim(queue, "a", 1) == 2
    other.now = queue.now
    assert other.call("Push", {"item": 2, "dedup_id": "a"})["count"] == 0


def test_a_claim_lasts_from_when_it_was_last_asked_for() -> None:
    """The first one who claimed it may never have pushed it."""
    queue = QueueDriver(partitions=3, dedup_window_seconds=100)
    assert claim(queue, "a", 2) == 2
    queue.pass_time(99)
    assert claim(queue, "a", 1) == 2  # and pushes it
    queue.restart()
    queue.pass_time(99)
    assert claim(queue, "a", 1) == 2


def test_claims_are_forgotten_in_the_end() -> None:
    queue = QueueDriver(partitions=2)
    queue.call("PendingConfig", {"told": {"partition": 1, "version": 1}})
    queue.call("ConfirmIndexed")
    claim(queue, "a", 1)
    assert "claims-0" in queue.store
    deadline = queue.queue.next_deadline(queue.now)
    assert deadline is not None
    queue.now = deadline
    queue.settle()
    assert set(queue.store) == {"metadata", "config"}


def test_without_a_window_nothing_is_claimed() -> None:
    queue = QueueDriver(partitions=3, dedup_window_seconds=0)
    assert (claim(queue, "a", 2), claim(queue, "a", 1)) == (2, 1)
    assert not any(key.startswith("claims") for key in queue.store)


def test_what_belongs_elsewhere_is_not_stored_here() -> None:
    queue = QueueDriver(partitions=3)
    claim(queue, "a", 2)
    body = {"items": [{"item": 1, "dedup_id": "b"}, {"item": 2, "dedup_id": "a"}]}
    assert queue.call("Push", body)["error_code"] == "CONFLICT"
    assert queue.call("Stats")["count"] == 0
