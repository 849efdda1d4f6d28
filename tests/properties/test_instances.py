"""Orchestrations end as if nothing had happened, whatever breaks: the real actors and a worker on a simulated host."""

from __future__ import annotations

import pytest

from properties.instances import simulate_instances
from properties.seeds import fresh_seeds

SEEDS = 40
INSTANCES = 25
# Enough for every worker that runs tests.
PARTS = 4


@pytest.mark.parametrize("part", range(PARTS))
def test_everything_comes_to_its_end(part: int) -> None:
    for seed in fresh_seeds(1000 * SEEDS // PARTS):
        simulate_instances(seed, INSTANCES)
