"""A record does as its model does, and nothing happens again that was told to have happened."""

from __future__ import annotations

from tests.properties.effects import compare, simulate
from tests.support.seeds import fresh_seeds

OPERATIONS = 50_000
SIMULATED = 15_000


def test_the_record_does_as_the_model_does() -> None:
    for seed in fresh_seeds(OPERATIONS):
        compare(seed)


def test_effects_of_workers_that_die_on_a_host_that_crashes() -> None:
    for seed in fresh_seeds(SIMULATED):
        simulate(seed)
