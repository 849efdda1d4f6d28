"""A million operations, or as many as are asked for, on all cores: ``python -m properties.soak [OPERATIONS]``."""

from __future__ import annotations

import os
import sys
import time
import traceback
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import TYPE_CHECKING

from properties.comparison import compare
from properties.seeds import OPERATIONS_PER_SEED, fresh_seeds
from properties.simulation import simulate

if TYPE_CHECKING:
    from collections.abc import Callable

MILLION = 1_000_000
# One seed in so many is played against the model, the others on the simulated host.
MODEL_EVERY = 5


def run(seed: int) -> str | None:
    """Plays one seed; answers what went wrong."""
    play: Callable[[int], object] = simulate if seed % MODEL_EVERY else compare
    try:
        play(seed)
    except Exception:
        return traceback.format_exc()
    return None


def main(operations: int) -> int:
    seeds = fresh_seeds(operations)
    print(f"{operations:,} operations, seeds {seeds[0]} to {seeds[-1]}", flush=True)
    began, done, failures = time.monotonic(), 0, 0
    with ProcessPoolExecutor(os.cpu_count()) as workers:
        for future in as_completed([workers.submit(run, seed) for seed in seeds]):
            done += OPERATIONS_PER_SEED
            if failure := future.result():
                failures += 1
                print(failure, flush=True)
            if done % 50_000 == 0:
                print(f"{done:,} done in {time.monotonic() - began:.0f} s, {failures} failures", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else MILLION))
