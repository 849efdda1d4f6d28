"""The load of each partition, as a process derives it from the partitions' replies."""

from __future__ import annotations

from holdfast.gateway.queues import partition_loads
from holdfast.gateway.queues.partition_loads import Loads


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_queue_of_one_partition_is_not_remembered() -> None:
    known = Loads(Clock())
    known.observe("orders", 5, 1)
    assert known.get("orders") is None


def test_the_first_partition_says_how_many_there_are_and_no_other() -> None:
    known = Loads(Clock())
    known.observe("orders", 5, 4)
    spread = known.get("orders")
    assert spread is not None
    # The reply of a partition that knows a smaller count, then of one that is beyond the count.
    known.observe("orders@3", 2, 1)
    known.observe("orders@6", 0, 1)
    assert spread.count == 4
    known.observe("orders@2", 0, 7)
    assert spread.count == 7
    known.observe("orders", 5, 2)
    assert spread.count == 2


def test_a_queue_that_was_deleted_has_one_partition() -> None:
    known = Loads(Clock())
    known.observe("orders", 5, 4)
    known.observe("orders", 0, 1)
    known.observe("orders@3", 0, 1)
    assert known.get("orders") is None


def test_pushes_go_to_the_least_loaded_and_equals_take_turns() -> None:
    known = Loads(Clock())
    for number, load in enumerate((3, 1, 1, 2)):
        known.observe(f"q@{number}" if number else "q", load, 4)
    spread = known.get("q")
    assert spread is not None
    assert {tuple(spread.to_push()) for _ in range(8)} == {(1, 2, 3, 0), (2, 1, 3, 0)}
    with spread.pushing(1, 10):
        assert spread.to_push()[0] == 2
        assert spread.elsewhere(0) == 1 + 10 + 1 + 2
    assert spread.elsewhere(0) == 4


def test_pops_take_turns_also_when_pushes_come_between() -> None:
    known = Loads(Clock())
    for number in range(4):
        known.observe(f"q@{number}" if number else "q", 9, 4)
    spread = known.get("q")
    assert spread is not None
    first = []
    for _ in range(8):
        spread.to_push()
        first.append(spread.to_pop()[0])
    assert sorted(first[:4]) == sorted(first[4:]) == [0, 1, 2, 3]


def test_one_that_held_nothing_a_moment_ago_comes_last_and_later_in_turn_again() -> None:
    clock = Clock()
    known = Loads(clock)
    known.observe("q", 0, 2)
    known.observe("q@1", 5, 2)
    spread = known.get("q")
    assert spread is not None
    assert {tuple(spread.to_pop()) for _ in range(4)} == {(1, 0)}
    clock.now += 2 * partition_loads.FRESH_SECONDS
    assert {tuple(spread.to_pop()) for _ in range(4)} == {(1, 0), (0, 1)}


def test_one_that_cannot_be_reached_is_pushed_to_last_until_it_is_heard_of() -> None:
    clock = Clock()
    known = Loads(clock)
    known.observe("q", 50, 2)
    spread = known.get("q")
    assert spread is not None
    assert spread.unknown() == [1]
    spread.avoid(1)
    assert spread.unknown() == []
    assert spread.to_push()[0] == 0
    clock.now += 2 * partition_loads.AVOIDED_SECONDS
    assert spread.unknown() == [1]
    spread.avoid(1)
    known.observe("q@1", 3, 2)
    assert spread.to_push()[0] == 1


def test_old_news_is_asked_for_again_less_often_the_more_there_are() -> None:
    clock = Clock()
    known = Loads(clock)
    for number in range(160):
        known.observe(f"q@{number}" if number else "q", 1, 160)
    spread = known.get("q")
    assert spread is not None
    clock.now += 5
    assert spread.stale() == []
    clock.now += 6
    assert len(spread.stale()) == 160


def test_memory_is_bounded_and_keeps_those_in_use() -> None:
    known = Loads(Clock())
    known.observe("first", 0, 2)
    for number in range(partition_loads.MOST_QUEUES - 1):
        known.observe(f"queue-{number}", 0, 2)
    assert known.get("first") is not None
    known.observe("one-more", 0, 2)
    assert known.get("first") is not None
    assert known.get("queue-0") is None


def test_one_that_owes_an_answer_for_long_is_asked_last() -> None:
    clock = Clock()
    known = Loads(clock)
    known.observe("q", 5, 2)
    known.observe("q@1", 1, 2)
    spread = known.get("q")
    assert spread is not None
    with spread.asking(1):
        assert spread.to_push()[0] == 1
        clock.now += 2 * partition_loads.OVERDUE_SECONDS
        with spread.asking(1):
            assert spread.to_push()[0] == 0
            assert {spread.to_pop()[0] for _ in range(4)} == {0}
    assert spread.to_push()[0] == 1
    assert {spread.to_pop()[0] for _ in range(4)} == {0, 1}
