"""The deletion of a queue of several partitions, some of which hear of it late."""

from __future__ import annotations

from typing import Any

from tests.support.queue_driver import QueueDriver


def tell(queue: QueueDriver, other: QueueDriver) -> dict[str, Any]:
    """The other partition hears of the configuration, and the first one that it has."""
    news = queue.call("PendingConfig")
    answer = other.call("Configure", {key: news[key] for key in ("config", "version", "generation")})
    queue.call("PendingConfig", {"told": {"partition": other.partition, "version": news["version"]}})
    return answer


def test_a_queue_is_not_partitioned_again_before_its_partitions_have_heard_that_it_was_deleted() -> None:
    """They would take pushes, and then erase them with the rest."""
    queue, other = QueueDriver(partitions=2), QueueDriver("orders@1")
    tell(queue, other)
    other.push("old")
    queue.call("FinishDeletion", {"force": True})
    queue.restart()
    assert queue.call("SetConfig", {"partitions": 2})["error_code"] == "CONFLICT"
    assert queue.call("SetConfig", {"max_locks": 5})["max_locks"] == 5
    assert tell(queue, other)["purged"] == 1
    assert queue.call("SetConfig", {"partitions": 2})["partitions"] == 2
    tell(queue, other)
    other.push("new")
    queue.call("SetConfig", {"max_locks": 7})
    assert tell(queue, other)["purged"] == 0
    assert other.waiting() == ["new"]


def test_only_the_partitions_that_the_queue_would_have_are_waited_for() -> None:
    queue, near, far = QueueDriver(partitions=3), QueueDriver("orders@1"), QueueDriver("orders@2")
    queue.call("FinishDeletion", {"force": True})
    tell(queue, near)
    assert queue.call("SetConfig", {"partitions": 3})["error_code"] == "CONFLICT"
    assert queue.call("SetConfig", {"partitions": 2})["partitions"] == 2
    tell(queue, far)
    assert queue.call("PendingConfig")["partitions"] == [1]
