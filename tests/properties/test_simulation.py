"""Nothing is lost, doubled, overtaken or forgotten, whatever breaks: the real actors on a simulated host."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.properties.simulation import simulate
from tests.support.checkout import MODULE_PATH
from tests.support.seeds import fresh_seeds

OPERATIONS = 40_000
# Enough for every worker that runs tests.
PARTS = 10


@pytest.mark.parametrize("part", range(PARTS))
def test_everything_is_accounted_for(part: int) -> None:
    for seed in fresh_seeds(OPERATIONS // PARTS):
        simulate(seed)


def test_a_seed_stands_for_one_run_in_every_process() -> None:
    """Whatever the hashes of strings and the addresses of objects: otherwise a seed would be of no use."""
    [seed] = fresh_seeds(1)
    here = simulate(seed)
    code = f"from tests.properties.simulation import simulate; print(simulate({seed}))"
    for hashes in ("1", "2"):
        environment = os.environ | {"PYTHONPATH": MODULE_PATH, "PYTHONHASHSEED": hashes}
        there = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120, check=True
        )
        assert there.stdout.strip() == here
