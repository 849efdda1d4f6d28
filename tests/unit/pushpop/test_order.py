"""In which order a queue gives what it was given, and where things go when they come back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.pushpop.core.lanes import SEGMENT_ITEMS
from tests.support.queue_driver import QueueDriver


def test_lowest_priority_first_and_first_in_first_out_inside_one() -> None:
    queue = QueueDriver()
    queue.push("b1", "b2", priority=5)
    queue.push("a1", priority=0)
    queue.push("b3", priority=5)
    queue.push("a2", priority=0)
    assert queue.pop(100) == ["a1", "a2", "b1", "b2", "b3"]


def test_priorities_count_as_numbers() -> None:
    queue = QueueDriver()
    for priority in (10, 2, 100, 1, 2**31 - 1):
        queue.push(priority, priority=priority)
    assert queue.pop(100) == [1, 2, 10, 100, 2**31 - 1]


def test_a_bulk_may_mix_priorities() -> None:
    queue = QueueDriver()
    answer = queue.call(
        "Push", {"items": [{"item": "late", "priority": 3}, {"item": "soon"}, {"item": "later", "priority": 3}]}
    )
    assert (answer["count"], len(answer["ids"])) == (3, 3)
    assert queue.pop(3) == ["soon", "late", "later"]


def test_order_is_kept_over_many_segments() -> None:
    queue = QueueDriver()
    many = list(range(3 * SEGMENT_ITEMS + 7))
    for start in range(0, len(many), 30):
        queue.push(*many[start : start + 30])
    queue.restart()
    popped = []
    while items := queue.pop(37):
        popped += items
    assert popped == many


@pytest.mark.parametrize(
    "payload",
    [
        None,
        False,
        0,
        "",
        "2024-01-01T00:00:00Z",
        "5s",
        "zwölf \U0001f600 \0 \\u0000",
        0.1,
        2**53 + 1,
        10**400,
        [],
        {"": {"a": [1, [2, {"b": None}]]}},
    ],
)
def test_an_item_comes_back_as_it_was_pushed(payload: Any) -> None:
    queue = QueueDriver()
    queue.push(payload)
    queue.restart()
    assert json.dumps(queue.lock()["items"]) == json.dumps([payload])
    queue.restart()
    queue.pass_time(31)
    assert json.dumps(queue.pop()) == json.dumps([payload])


def test_an_id_is_never_used_again() -> None:
    queue = QueueDriver(max_locks=5)
    seen: list[str] = []
    for turn in range(60):
        seen += queue.push(*range(turn % 7 + 1), priority=turn % 3)
        match turn % 6:
            case 0:
                queue.pop(100)
            case 1:
                queue.call("Acknowledge", {"lock_id": queue.lock(3)["lock_id"]})
            case 2:
                queue.call("Purge")
            case 3:
                queue.restart()
            case 4:
                queue.lock(2)
            case 5:
                queue.pass_time(40)
    assert len(seen) == len(set(seen))


def test_an_id_of_a_push_that_was_not_saved_may_be_given_again_but_only_once() -> None:
    queue = QueueDriver()
    queue.turn(("Push", {"item": "lost"}), saved=False)
    first, second = queue.push("kept"), queue.push("kept too")
    assert first != second
    assert queue.waiting() == ["kept", "kept too"]


@pytest.mark.parametrize("how", ["abandoned", "expired"])
def test_what_comes_back_goes_to_the_front_of_its_priority_in_its_order(how: str) -> None:
    queue = QueueDriver()
    queue.push("a1", "a2", priority=1)
    queue.push("b1", priority=2)
    locked = queue.lock(3)
    assert locked["items"] == ["a1", "a2", "b1"]
    queue.push("a3", priority=1)
    queue.push("first", priority=0)
    queue.push("b2", priority=2)
    if how == "abandoned":
        queue.call("Abandon", {"lock_id": locked["lock_id"]})
    else:
        queue.pass_time(30)
    assert queue.waiting() == ["first", "a1", "a2", "a3", "b1", "b2"]


def test_order_is_restored_whichever_lock_ends_first() -> None:
    queue = QueueDriver(max_locks=3)
    queue.push(*range(8))
    first, second, third = (queue.lock(2)["lock_id"] for _ in range(3))
    queue.call("Abandon", {"lock_id": third})
    assert queue.waiting() == [4, 5, 6, 7]
    queue.call("Abandon", {"lock_id": first})
    assert queue.waiting() == [0, 1, 4, 5, 6, 7]
    queue.call("Abandon", {"lock_id": second})
    assert queue.waiting() == list(range(8))


def test_what_came_back_may_be_taken_in_parts_and_come_back_again() -> None:
    queue = QueueDriver()
    queue.push(*range(5))
    queue.call("Abandon", {"lock_id": queue.lock(4)["lock_id"]})
    assert queue.pop() == [0]
    again = queue.lock(2)
    assert again["items"] == [1, 2]
    queue.restart()
    queue.call("Abandon", {"lock_id": again["lock_id"]})
    assert queue.waiting() == [1, 2, 3, 4]
    assert [message["delivery_count"] for message in queue.lock(4)["messages"]] == [3, 3, 2, 1]


def test_order_is_kept_when_a_priority_was_empty_in_between() -> None:
    queue = QueueDriver(max_locks=2)
    queue.push("old")
    locked = queue.lock()
    queue.push("new")
    assert queue.lock()["items"] == ["new"]
    queue.push("newest")
    queue.call("Abandon", {"lock_id": locked["lock_id"]})
    queue.pass_time(31)
    assert queue.waiting() == ["old", "new", "newest"]
