"""Random programs come to the same as on ordinary asyncio, and make the same history however often they are rebuilt."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.properties.orchestrations.comparison import compare, deploy
from tests.properties.orchestrations.on_asyncio import CANCELLED, WAITS
from tests.properties.orchestrations.reruns import rerun_everywhere
from tests.support.checkout import ROOT
from tests.support.seeds import fresh_seeds, noting_seed

PROGRAMS = 4_000
DEPLOYS = 2_000
RERUNS = 2_000
# Enough for every worker that runs tests.
PARTS = 4


@pytest.mark.parametrize("part", range(PARTS))
def test_programs_do_the_same_in_all_ways(part: int) -> None:
    seeds = fresh_seeds(1000 * PROGRAMS // PARTS)
    outcomes: dict[str, int] = {}
    for seed in seeds:
        with noting_seed(seed, "test_orchestrations.py"):
            outcome = compare(seed)
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
    if len(seeds) > 1:
        # The programs are worth something: most come to an end, some are cancelled, some wait for ever.
        assert outcomes["ended"] > len(seeds) / 4
        assert min(outcomes[CANCELLED], outcomes[WAITS]) > 0


@pytest.mark.parametrize("part", range(PARTS))
def test_patched_code_replays_old_and_new_histories(part: int) -> None:
    seeds = fresh_seeds(1000 * DEPLOYS // PARTS)
    marked = 0
    for seed in seeds:
        with noting_seed(seed, "test_orchestrations.py"):
            marked += deploy(seed)
    if len(seeds) > 1:
        assert marked > len(seeds) / 25


@pytest.mark.parametrize("part", range(PARTS))
def test_a_rerun_with_the_same_answers_has_the_same_history(part: int) -> None:
    seeds = fresh_seeds(1000 * RERUNS // PARTS)
    reruns = 0
    for seed in seeds:
        with noting_seed(seed, "test_orchestrations.py"):
            reruns += rerun_everywhere(seed)
    if len(seeds) > 1:
        assert reruns > 4 * len(seeds)


def test_a_history_is_the_same_in_every_process() -> None:
    [seed] = fresh_seeds(1)
    code = (
        "from tests.properties.orchestrations.on_engine import *\n"
        f"print([World(Author(seed).write(), Way()).run().history for seed in range({seed}, {seed} + 20)])"
    )
    outputs = []
    for hashes in ("1", "2"):
        path = os.pathsep.join([str(ROOT), *sys.path])
        environment = os.environ | {"PYTHONPATH": path, "PYTHONHASHSEED": hashes}
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120, check=True
        )
        outputs.append(done.stdout)
    assert outputs[0] == outputs[1]
