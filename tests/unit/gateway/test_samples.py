"""Samples of queues over time: sums, rates and bounds."""

from __future__ import annotations

from typing import Any

from holdfast.gateway.metrics.queue_stats import Counted
from holdfast.gateway.queues.samples import COLUMNS, MOST_SERIES, SAMPLES_KEPT, QueueSamples, Series
from holdfast.names import DEFAULT_TENANT


def stats(
    count: int, pushed: int, *, locked: int = 0, age: float | None = None, letters: str = "dead"
) -> dict[str, Any]:
    return {
        "count": count,
        "delayed": 0,
        "locked": locked,
        "oldest_age_seconds": age,
        "dead_letter_queue": letters,
        "counters": {"pushed": pushed},
    }


class Answers:
    """Gives what the queues answer."""

    def __init__(self) -> None:
        self.counted = Counted()
        self.samples = QueueSamples(self.take)

    async def take(self, tenant: str) -> Counted:
        return self.counted

    async def sample(self, dead_letters: dict[str, int] | None = None, *, silent: int = 0, **queues: Any) -> None:
        self.counted = Counted(queues=queues, dead_letters=dead_letters or {}, unreachable_queues=silent)
        await self.samples.sample(DEFAULT_TENANT)

    def of(self, queue: str | None) -> dict[str, Any]:
        return self.samples.shown(DEFAULT_TENANT, queue)

    def lengths(self, tenant: str = DEFAULT_TENANT) -> list[int]:
        """How many samples there are of each queue of :func:`many`."""
        lengths = (len(self.samples.shown(tenant, name)["at"]) for name in many(MOST_SERIES + 50))
        return [length for length in lengths if length]


def many(queues: int) -> dict[str, Any]:
    return {f"q{number}": stats(1, 1) for number in range(queues)}


async def test_items_that_came_and_left_are_counted_between_samples() -> None:
    answers = Answers()
    await answers.sample(orders=stats(5, 100, locked=2))
    await answers.sample(orders=stats(9, 110))
    # The queue was deleted and made again: its counter starts anew.
    await answers.sample(orders=stats(1, 1))
    orders = answers.of("orders")
    assert (orders["waiting"], orders["locked"]) == ([5, 9, 1], [2, 0, 0])
    assert (orders["pushed"], orders["left"]) == ([0, 10, 0], [0, 8, 0])


async def test_the_total_has_each_dead_letter_once_and_not_among_what_waits() -> None:
    answers = Answers()
    await answers.sample(
        {"orders": 4, "mails": 4},
        orders=stats(3, 3, age=2.0),
        mails=stats(2, 2, age=7.5),
        dead=stats(4, 4, age=900.0, letters="dead-dead"),
    )
    total = answers.of(None)
    assert (total["waiting"], total["dead_letters"], total["oldest_age_seconds"]) == ([5], [4], [7.5])


async def test_a_total_without_all_queues_is_left_out() -> None:
    answers = Answers()
    await answers.sample(orders=stats(3, 3))
    await answers.sample(silent=1)
    assert len(answers.of("orders")["at"]) == len(answers.of(None)["at"]) == 1


async def test_memory_is_bounded() -> None:
    series = Series()
    figures = dict.fromkeys(COLUMNS[1:6], 1.0)
    for number in range(SAMPLES_KEPT + 100):
        series.add(float(number), figures, number)
    assert series.shown()["at"] == list(range(100, SAMPLES_KEPT + 100))
    answers = Answers()
    await answers.sample(**many(MOST_SERIES + 50))
    assert answers.lengths() == [1] * MOST_SERIES
    # In another order: what has samples gets the next ones.
    await answers.sample(**dict(reversed(many(MOST_SERIES + 50).items())))
    assert answers.lengths() == [2] * MOST_SERIES
    assert len(answers.of(None)["at"]) == 2


async def test_a_queue_that_is_gone_makes_room() -> None:
    answers = Answers()
    await answers.sample(**many(MOST_SERIES))
    await answers.sample(**many(MOST_SERIES - 1), later=stats(1, 1))
    assert (len(answers.of("later")["at"]), sum(answers.lengths())) == (1, 2 * (MOST_SERIES - 1))


async def test_a_tenant_with_many_queues_leaves_room_for_others() -> None:
    answers = Answers()
    await answers.sample(**many(MOST_SERIES + 50))
    await answers.samples.follow("other")
    await answers.sample(**many(MOST_SERIES + 50))
    half = MOST_SERIES // 2
    assert (answers.lengths(), answers.lengths("other")) == ([2] * half, [1] * half)
