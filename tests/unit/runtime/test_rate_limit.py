"""How many requests a tenant may send in a second, on a clock that tests drive."""

from __future__ import annotations

import random

import pytest

from holdfast.runtime.rate_limit import RateLimiter


def taken(rates: RateLimiter, name: str, rate: float, times: list[float]) -> list[bool]:
    return [rates.take(name, rate, now) == 0 for now in times]


def test_a_seconds_worth_may_come_at_once_and_then_as_fast_as_they_may() -> None:
    rates = RateLimiter()
    assert taken(rates, "acme", 5, [100.0] * 7) == [True] * 5 + [False] * 2
    assert taken(rates, "acme", 5, [100.1, 100.2, 100.21, 100.4]) == [False, True, False, True]
    assert taken(rates, "acme", 5, [200.0] * 6) == [True] * 5 + [False]


def test_less_than_one_a_second_is_one_at_a_time() -> None:
    rates = RateLimiter()
    assert taken(rates, "acme", 0.5, [0.0, 0.0, 1.9, 2.0, 2.1, 4.0]) == [True, False, False, True, False, True]


@pytest.mark.parametrize("rate", [0.25, 1.0, 3.0, 1000.0])
def test_whoever_waits_as_long_as_it_says_is_let_in(rate: float) -> None:
    rates = RateLimiter()
    now = 0.0
    for _ in range(100):
        while wait := rates.take("acme", rate, now):
            assert not taken(rates, "acme", rate, [now + wait / 2])[0]
            now += wait
    assert now == pytest.approx((100 - max(1.0, rate)) / rate if rate < 100 else 0, abs=1e-3)


def test_tenants_do_not_wait_for_each_other() -> None:
    rates = RateLimiter()
    assert taken(rates, "a", 1, [0.0, 0.0]) == [True, False]
    assert taken(rates, "b", 1, [0.0, 0.0]) == [True, False]


@pytest.mark.parametrize("seed", range(20))
def test_no_stretch_of_time_has_more_than_it_may(seed: int) -> None:
    chance = random.Random(seed)
    rate = chance.choice([0.3, 1.0, 2.5, 10.0])
    rates, now = RateLimiter(), 0.0
    let_in: list[float] = []
    for _ in range(500):
        now += chance.expovariate(2 * rate)
        if rates.take("acme", rate, now) == 0:
            let_in.append(now)
    burst = max(1.0, rate)
    for first, start in enumerate(let_in):
        for last, end in enumerate(let_in[first:], first):
            assert last - first + 1 <= burst + (end - start) * rate + 1e-3


def test_names_that_are_made_up_take_no_more_than_the_room_there_is() -> None:
    rates = RateLimiter(room=100)
    for number in range(10_000):
        assert rates.take(f"made-up-{number}", 1, 0.0) == 0
        assert len(rates) <= 100


def test_those_that_may_send_again_are_forgotten_first() -> None:
    rates = RateLimiter(room=100)
    for number in range(100):
        rates.take(f"past-{number}", 1, 0.0)
    rates.take("busy", 1, 10.0)
    assert len(rates) == 1
    assert rates.take("busy", 1, 10.0) > 0
