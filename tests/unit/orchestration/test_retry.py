"""Failed activities are tried again, at moments that are in the history."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import App, Retry
from holdfast.errors import NonRetryable
from holdfast.orchestration.core.effects import RunActivity
from holdfast.orchestration.core.failures import Failure
from holdfast.orchestration.status import Status
from tests.unit.orchestration.driver import Driver

if TYPE_CHECKING:
    from holdfast import Context


class Declined(ValueError):
    pass


def an_app(retry: Retry | None) -> App:
    app = App()

    @app.orchestration
    async def buying(ctx: Context) -> str:
        return str(await ctx.call("charge", retry=retry))

    return app


@pytest.mark.parametrize("cold", [False, True], ids=["kept", "rebuilt"])
def test_it_is_tried_again_later_and_later(cold: bool) -> None:
    driver = Driver(an_app(Retry(max_attempts=4, first_delay=1, factor=10, max_delay=50, jitter=0)), cold=cold)
    driver.start("buying")
    for delay in (1, 10, 50):
        begin = driver.now
        driver.fail(driver.history[-1].seq, OSError("down"))
        driver.wait()
        assert driver.now - begin == delay
    assert driver.complete(driver.history[-1].seq, "paid")
    assert driver.output == "paid"
    calls = [effect for effect in driver.effects if isinstance(effect, RunActivity)]
    assert [call.attempt for call in calls] == [1, 2, 3, 4]
    assert len({call.scheduled_seq for call in calls}) == 4


def test_the_last_failure_is_raised() -> None:
    driver = Driver(an_app(Retry(max_attempts=2, jitter=0)))
    driver.start("buying")
    driver.fail(2, OSError("first"))
    driver.wait()
    driver.fail(driver.history[-1].seq, OSError("last"))
    assert "last" in driver.error.message


@pytest.mark.parametrize(
    ("retry", "error", "kind"),
    [
        (None, OSError("down"), "error"),
        (Retry(max_attempts=1), OSError("down"), "error"),
        (Retry(non_retryable=(ValueError,)), Declined("no money"), "error"),
        (Retry(non_retryable=(KeyError, Declined)), Declined("no money"), "error"),
        (Retry(), NonRetryable("never"), "error"),
        (Retry(), OSError("its workers died"), "poison"),
    ],
)
def test_some_failures_are_final(retry: Retry | None, error: Exception, kind: Any) -> None:
    driver = Driver(an_app(retry))
    driver.start("buying")
    driver.fail(2, error, kind)
    assert driver.status is Status.FAILED


def test_other_failures_are_not() -> None:
    for error, kind in ((Declined("no"), "error"), (TimeoutError("slow"), "timeout")):
        driver = Driver(an_app(Retry(non_retryable=(KeyError,))))
        driver.start("buying")
        driver.fail(2, error, kind)
        assert driver.status is Status.RUNNING


def test_jitter_is_around_the_delay_and_the_same_on_a_replay() -> None:
    retry = Retry(first_delay=10, jitter=0.2)
    delays = [retry.delay(1, Random(seed)) for seed in range(200)]
    assert 8 <= min(delays) < 9 < 11 < max(delays) <= 12
    moments = []
    for cold in (False, True):
        driver = Driver(an_app(retry), cold=cold)
        driver.start("buying")
        driver.fail(2, OSError())
        driver.rebuild()
        moments.append(driver.instance.next_moment)
    assert moments[0] == moments[1]


def test_delays_have_an_end() -> None:
    assert Retry(max_attempts=10**6, factor=1e10, jitter=0).delay(10**5, Random(0)) == 60


@pytest.mark.parametrize(
    "wrong", [{"max_attempts": 0}, {"first_delay": -1}, {"max_delay": -1}, {"factor": 0}, {"jitter": 1.5}]
)
def test_what_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Retry(**wrong)


def test_a_failure_survives_its_way_through_json() -> None:
    failure = Failure.of(Declined("no money"), "timeout")
    assert Failure.load(failure.dump()) == failure
    assert failure.is_a(ValueError)
    assert failure.is_a(Exception)
    assert not failure.is_a(KeyError)
    assert str(failure) == "Declined: no money"
