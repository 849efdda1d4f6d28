"""Locks of a queue: how long they hold, and where their items go when they end."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.pushpop.core.in_flight import EXPIRED_REMEMBERED
from tests.support.queue_driver import MORNING, QueueDriver

ENDINGS = ("Acknowledge", "Abandon", "DeadLetter", "ExtendLock")


def code(answer: dict[str, Any]) -> str | None:
    assert answer.get("success") is not False or answer["message"]
    found: str | None = answer.get("error_code")
    return found


def test_a_lock_holds_items_until_they_are_acknowledged() -> None:
    queue = QueueDriver()
    queue.push({"id": 1}, {"id": 2})
    locked = queue.lock(2, ttl_seconds=60)
    assert (locked["items"], locked["count"], locked["locked"]) == ([{"id": 1}, {"id": 2}], 2, True)
    assert locked["lock_expires_at"] == MORNING + 60
    answer = queue.call("Acknowledge", {"lock_id": locked["lock_id"]})
    assert (answer["success"], answer["items_acknowledged"]) == (True, 2)
    queue.pass_time(1000)
    assert queue.call("Stats")["count"] == 0
    assert code(queue.call("Acknowledge", {"lock_id": locked["lock_id"]})) == "LOCK_NOT_FOUND"


@pytest.mark.parametrize("method", ["Pop", "PopWithAck"])
@pytest.mark.parametrize("left", [0, 1])
def test_a_locked_queue_gives_nothing_empty_or_not(method: str, left: int) -> None:
    queue = QueueDriver()
    queue.push(*range(1 + left))
    expires_at = queue.lock(1, ttl_seconds=9)["lock_expires_at"]
    answer = queue.call(method)
    assert code(answer) == "QUEUE_LOCKED"
    assert (answer["items"], answer["count"], answer["locked"]) == ([], 0, True)
    assert answer["lock_expires_at"] == expires_at
    assert queue.call("Stats")["count"] == left


def test_with_more_locks_a_queue_is_locked_when_all_are_taken() -> None:
    queue = QueueDriver(max_locks=3)
    queue.push(*range(10))
    queue.lock(1, ttl_seconds=50)
    second = queue.lock(1, ttl_seconds=20)
    assert queue.pop() == [2]
    queue.lock(1, ttl_seconds=30)
    answer = queue.call("Pop")
    assert (code(answer), answer["lock_expires_at"]) == ("QUEUE_LOCKED", second["lock_expires_at"])
    queue.call("Acknowledge", {"lock_id": second["lock_id"]})
    assert queue.pop() == [4]


def test_fewer_locks_than_there_are_take_effect_as_they_end() -> None:
    queue = QueueDriver(max_locks=2)
    queue.push(*range(3))
    first, second = queue.lock()["lock_id"], queue.lock()["lock_id"]
    queue.call("SetConfig", {"max_locks": 1})
    queue.call("Acknowledge", {"lock_id": first})
    assert code(queue.call("Pop")) == "QUEUE_LOCKED"
    queue.call("Acknowledge", {"lock_id": second})
    assert queue.pop() == [2]


def test_an_empty_queue_gives_no_lock() -> None:
    queue = QueueDriver()
    assert queue.lock() == {"items": [], "count": 0, "messages": []}
    queue.push("x")
    assert queue.pop() == ["x"]


@pytest.mark.parametrize("method", ENDINGS)
def test_another_id_is_refused_and_the_lock_stays(method: str) -> None:
    queue = QueueDriver()
    queue.push("x")
    locked = queue.lock()
    assert code(queue.call(method, {"lock_id": "another"})) == "INVALID_LOCK_ID"
    assert queue.call("Acknowledge", {"lock_id": locked["lock_id"]})["success"]


@pytest.mark.parametrize("method", ENDINGS)
@pytest.mark.parametrize("data", [None, {}, {"lock_id": None}, {"lock_id": ""}, {"lock_id": 5}, {"lock_id": ["x"]}])
def test_a_missing_id_is_an_invalid_request(method: str, data: Any) -> None:
    queue = QueueDriver()
    queue.push("x")
    queue.lock()
    assert code(queue.call(method, data)) == "INVALID_REQUEST"
    assert queue.call("Stats")["locked"] == 1


@pytest.mark.parametrize("method", ENDINGS)
def test_without_any_lock_nothing_is_found(method: str) -> None:
    assert code(QueueDriver().call(method, {"lock_id": "any"})) == "LOCK_NOT_FOUND"


@pytest.mark.parametrize("method", ENDINGS)
def test_too_late_is_told_apart_even_after_the_items_were_popped_again(method: str) -> None:
    queue = QueueDriver()
    queue.push("x")
    late = queue.lock(ttl_seconds=5)["lock_id"]
    queue.pass_time(5)
    assert code(queue.call(method, {"lock_id": late})) == "LOCK_EXPIRED"
    assert queue.waiting() == ["x"]
    again = queue.lock()["lock_id"]
    queue.restart()
    assert code(queue.call(method, {"lock_id": late})) == "LOCK_EXPIRED", "rather than INVALID_LOCK_ID"
    queue.call("Acknowledge", {"lock_id": again})
    assert code(queue.call(method, {"lock_id": late})) == "LOCK_EXPIRED", "rather than LOCK_NOT_FOUND"


def test_only_recently_expired_locks_are_remembered() -> None:
    queue = QueueDriver(max_deliveries=1_000_000)
    queue.push("x")
    late = []
    for _ in range(EXPIRED_REMEMBERED + 1):
        late.append(queue.lock(ttl_seconds=1)["lock_id"])
        queue.pass_time(2)
    codes = [code(queue.call("Acknowledge", {"lock_id": lock_id})) for lock_id in late]
    assert codes == ["LOCK_NOT_FOUND"] + ["LOCK_EXPIRED"] * EXPIRED_REMEMBERED


@pytest.mark.parametrize(
    ("method", "data"),
    [
        ("Push", {"item": "y", "priority": 9}),
        ("Pop", {"count": 0}),
        ("Acknowledge", {"lock_id": "any"}),
        ("Peek", None),
        ("InFlight", None),
        ("Stats", None),
        ("GetConfig", None),
        ("SetConfig", {"max_locks": 1}),
    ],
)
def test_expiry_is_noticed_by_every_operation(method: str, data: Any) -> None:
    queue = QueueDriver()
    queue.push("x")
    late = queue.lock(ttl_seconds=10)["lock_id"]
    queue.pass_time(10)
    queue.call(method, data)
    # Set back, so that what comes now cannot be what notices it.
    queue.pass_time(-10)
    assert queue.waiting()[0] == "x"
    assert code(queue.call("Acknowledge", {"lock_id": late})) == "LOCK_EXPIRED"


def test_a_clock_that_is_set_back_does_not_revive_a_lock() -> None:
    queue = QueueDriver()
    queue.push("x")
    late = queue.lock(ttl_seconds=10)["lock_id"]
    queue.pass_time(11)
    queue.call("Stats")
    queue.pass_time(-100)
    queue.restart()
    assert code(queue.call("ExtendLock", {"lock_id": late})) == "LOCK_EXPIRED"
    assert queue.pop() == ["x"]


def test_a_lock_outlives_a_restart() -> None:
    queue = QueueDriver()
    queue.push("x")
    lock_id = queue.lock()["lock_id"]
    queue.restart()
    assert code(queue.call("Pop")) == "QUEUE_LOCKED"
    assert queue.call("Acknowledge", {"lock_id": lock_id})["items_acknowledged"] == 1


@pytest.mark.parametrize(
    ("asked", "given"), [(-(10**30), 1), (-1, 1), (0, 1), (1, 1), (30, 30), (300, 300), (301, 300), (10**30, 300)]
)
def test_a_time_to_live_is_taken_as_1_to_300(asked: int, given: int) -> None:
    queue = QueueDriver()
    queue.push("x")
    assert queue.lock(ttl_seconds=asked)["lock_expires_at"] == MORNING + given


@pytest.mark.parametrize("asked", ["30", 1.5, 30.0, True, None, [30]])
def test_a_time_to_live_that_is_no_integer_is_refused(asked: Any) -> None:
    queue = QueueDriver()
    queue.push("x")
    assert code(queue.call("PopWithAck", {"ttl_seconds": asked})) == "INVALID_REQUEST"
    assert queue.pop() == ["x"]


def test_extending_adds_to_the_expiry_but_not_past_300_seconds_from_now() -> None:
    queue = QueueDriver()
    queue.push("x")
    lock_id = queue.lock(ttl_seconds=10)["lock_id"]
    queue.pass_time(4)
    assert queue.call("ExtendLock", {"lock_id": lock_id})["lock_expires_at"] == MORNING + 40
    extended = queue.call("ExtendLock", {"lock_id": lock_id, "additional_ttl_seconds": 300})
    assert extended["lock_expires_at"] == queue.now + 300
    queue.restart()
    queue.pass_time(299)
    assert code(queue.call("Pop")) == "QUEUE_LOCKED"
    queue.pass_time(1)
    assert queue.pop() == ["x"]


def test_each_of_several_locks_is_extended_alone() -> None:
    queue = QueueDriver(max_locks=3)
    queue.push(*range(3))
    locks = [queue.lock(ttl_seconds=10)["lock_id"] for _ in range(3)]
    queue.call("ExtendLock", {"lock_id": locks[1], "additional_ttl_seconds": 20})
    queue.restart()
    queue.pass_time(10)
    assert queue.waiting() == [0, 2]
    assert queue.call("Acknowledge", {"lock_id": locks[1]})["items_acknowledged"] == 1


def test_an_item_carries_how_often_it_was_delivered_and_the_last_error() -> None:
    queue = QueueDriver()
    [item_id] = queue.push("x", priority=4)

    def deliver() -> dict[str, Any]:
        locked = queue.lock()
        [message] = locked["messages"]
        assert (message["id"], message["priority"]) == (item_id, 4)
        return {"lock_id": locked["lock_id"], "count": message["delivery_count"], "error": message.get("last_error")}

    first = deliver()
    assert (first["count"], first["error"]) == (1, None)
    queue.call("Abandon", {"lock_id": first["lock_id"], "error": "no disk"})
    second = deliver()
    assert (second["count"], second["error"]) == (2, "no disk")
    queue.restart()
    queue.pass_time(31)
    third = deliver()
    assert (third["count"], third["error"]) == (3, "no disk")
    queue.call("Abandon", {"lock_id": third["lock_id"], "error": "no network"})
    assert deliver()["error"] == "no network"


def test_the_first_lock_lies_in_the_metadata() -> None:
    queue = QueueDriver()
    queue.push({"id": 1})
    queue.push({"id": 2}, priority=1)
    locked = queue.lock(2)
    lock = queue.value("metadata")["_active_lock"]
    assert lock["lock_id"] == locked["lock_id"]
    assert (lock["created_at"], lock["expires_at"]) == (MORNING, MORNING + 30)
    shown = [{key: entry[key] for key in ("item", "priority")} for entry in lock["items_with_priority"]]
    assert shown == [{"item": {"id": 1}, "priority": 0}, {"item": {"id": 2}, "priority": 1}]
    queue.call("Acknowledge", {"lock_id": locked["lock_id"]})
    assert "_active_lock" not in queue.value("metadata")


def test_the_metadata_counts_what_waits_by_priority() -> None:
    queue = QueueDriver()
    queue.push("a", "b", "c")
    queue.push(*range(5), priority=1)
    metadata = queue.value("metadata")
    assert (metadata["0"], metadata["1"]) == (3, 5)
    queue.lock(4)
    metadata = queue.value("metadata")
    assert ("0" in metadata, metadata["1"]) == (False, 4)


def test_every_lock_has_an_item_of_its_own() -> None:
    queue = QueueDriver(max_locks=50)
    queue.push(*range(100))
    held = [tuple(queue.lock(2)["items"]) for _ in range(50)]
    assert sorted(item for items in held for item in items) == list(range(100))
    queue.restart()
    assert queue.call("Stats")["locked"] == 100


def test_an_empty_id_is_held_by_no_lock() -> None:
    queue = QueueDriver()
    queue.push("a")
    lock_id = queue.lock()["lock_id"]
    for method in ("Abandon", "DeadLetter"):
        assert queue.call(method, {"lock_id": lock_id, "ids": [""]})["error_code"] == "INVALID_REQUEST"
