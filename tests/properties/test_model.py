"""The core answers and holds what the model says, whatever is asked, in whatever order, with restarts at any point."""

from __future__ import annotations

import pytest

from properties.comparison import compare
from properties.seeds import fresh_seeds

OPERATIONS = 30_000
# Enough for every worker that runs tests.
PARTS = 3


@pytest.mark.parametrize("part", range(PARTS))
def test_the_core_does_as_the_model_does(part: int) -> None:
    for seed in fresh_seeds(OPERATIONS // PARTS):
        compare(seed)
