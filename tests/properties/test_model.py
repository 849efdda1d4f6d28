"""The core answers and holds what the model says, whatever is asked, in whatever order, with restarts at any point."""

from __future__ import annotations

import pytest

from tests.properties.comparison import compare
from tests.support.seeds import fresh_seeds

OPERATIONS = 30_000
# Enough for every worker that runs tests.
PARTS = 3
#: An item with a TTL that was given back before its lock ended was overlooked until then.
FOUND = (777000119, 4142063229)


@pytest.mark.parametrize("part", range(PARTS))
def test_the_core_does_as_the_model_does(part: int) -> None:
    for seed in fresh_seeds(OPERATIONS // PARTS):
        compare(seed)


@pytest.mark.parametrize("seed", FOUND)
def test_what_found_a_fault_finds_none(seed: int) -> None:
    compare(seed)
