"""Which starts are refused after instances did not yield."""

from __future__ import annotations

import pytest

from holdfast.errors import StartsRefused
from holdfast.orchestration.definitions import Orchestration
from holdfast.orchestration.runaways import MAX_OVERRUNS, REFUSAL_SECONDS, Runaways


async def _body(ctx: object) -> None: ...


DEFINITION = Orchestration("spin", _body)
KEY = ("acme", "spin", "1")


def overrun(runaways: Runaways, times: int, now: float = 0.0) -> None:
    for _ in range(times):
        runaways.overran(*KEY, now)


def test_starts_are_refused_after_several_overruns_in_a_row_and_until_their_time() -> None:
    runaways = Runaways()
    overrun(runaways, MAX_OVERRUNS - 1)
    runaways.check_start("acme", DEFINITION, 0.0)
    overrun(runaways, 1)
    with pytest.raises(StartsRefused, match="for another 60 s: its last 3 instances did not yield") as refused:
        runaways.check_start("acme", DEFINITION, 0.0)
    assert refused.value.details == {"retry_after": 60}
    runaways.check_start("acme", DEFINITION, REFUSAL_SECONDS)


def test_only_that_version_of_that_tenant_is_refused() -> None:
    runaways = Runaways()
    overrun(runaways, MAX_OVERRUNS)
    runaways.check_start("umbrella", DEFINITION, 0.0)
    runaways.check_start("acme", Orchestration("spin", _body, "2"), 0.0)
    runaways.check_start("acme", Orchestration("other", _body), 0.0)


def test_an_instance_that_yields_clears_the_count() -> None:
    runaways = Runaways()
    overrun(runaways, MAX_OVERRUNS - 1)
    runaways.yielded(*KEY, 0.0)
    overrun(runaways, MAX_OVERRUNS - 1)
    runaways.check_start("acme", DEFINITION, 0.0)


def test_after_a_refusal_one_is_tried() -> None:
    runaways = Runaways()
    overrun(runaways, MAX_OVERRUNS)
    # Of one that was started before: it does not end a refusal.
    runaways.yielded(*KEY, 1.0)
    with pytest.raises(StartsRefused):
        runaways.check_start("acme", DEFINITION, 1.0)
    runaways.check_start("acme", DEFINITION, REFUSAL_SECONDS)
    overrun(runaways, 1, REFUSAL_SECONDS)
    with pytest.raises(StartsRefused):
        runaways.check_start("acme", DEFINITION, REFUSAL_SECONDS)
    runaways.yielded(*KEY, 2 * REFUSAL_SECONDS)
    overrun(runaways, 1, 2 * REFUSAL_SECONDS)
    runaways.check_start("acme", DEFINITION, 2 * REFUSAL_SECONDS)
