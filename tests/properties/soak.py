"""A million operations, or as many as are asked for, on all cores: ``python -m properties.soak [OPERATIONS]``.

Of ten seeds six are of queues on the simulated host, two of queues against the model, one of orchestrations on the
simulated host, and one is a hundred random programs against asyncio.
"""

from __future__ import annotations

import logging
import os
import sys
import time
import traceback
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import TYPE_CHECKING

from properties.comparison import compare
from properties.instances import simulate_instances
from properties.orchestrations.comparison import compare as compare_program
from properties.seeds import OPERATIONS_PER_SEED, fresh_seeds, told
from properties.simulation import simulate

if TYPE_CHECKING:
    from collections.abc import Callable

MILLION = 1_000_000
_PROGRAMS = 100
_INSTANCES = 25


def programs(seed: int) -> None:
    for number in range(_PROGRAMS):
        with told(_PROGRAMS * seed + number, "test_orchestrations.py"):
            compare_program(_PROGRAMS * seed + number)


def instances(seed: int) -> None:
    simulate_instances(seed, _INSTANCES)


PLAYS: tuple[Callable[[int], object], ...] = (*[simulate] * 6, *[compare] * 2, instances, programs)


def run(seed: int) -> str | None:
    """Plays one seed; answers what went wrong."""
    try:
        PLAYS[seed % len(PLAYS)](seed)
    except Exception:
        return traceback.format_exc()
    return None


def main(operations: int) -> int:
    seeds = fresh_seeds(operations)
    print(f"{operations:,} operations, seeds {seeds[0]} to {seeds[-1]}", flush=True)
    began, done, failures = time.monotonic(), 0, 0
    # Random programs forget tasks that fail, which is told to the log each time.
    with ProcessPoolExecutor(os.cpu_count(), initializer=logging.disable, initargs=(logging.CRITICAL,)) as workers:
        for future in as_completed([workers.submit(run, seed) for seed in seeds]):
            done += OPERATIONS_PER_SEED
            if failure := future.result():
                failures += 1
                print(failure, flush=True)
            if done % 50_000 == 0 or done >= operations:
                print(f"{done:,} done in {time.monotonic() - began:.0f} s, {failures} failures", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else MILLION))
