"""A million operations, or as many as are asked for, on all cores: ``python -m tests.properties.soak [OPERATIONS]``.

Of ten seeds five are of queues on the simulated host, one of queues against the model, three of orchestrations on the
simulated host, and one is a hundred random programs against asyncio. What counts as an operation: a call of a user, an
activity that ran, a trouble, a program.
"""

from __future__ import annotations

import logging
import os
import sys
import time
import traceback
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from itertools import count
from typing import TYPE_CHECKING

from tests.properties.comparison import compare
from tests.properties.instances.simulation import simulate_instances
from tests.properties.orchestrations.comparison import compare as compare_program
from tests.properties.simulation import simulate
from tests.support.seeds import OPERATIONS_PER_SEED, fresh_seeds, noting_seed

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

MILLION = 1_000_000
_PROGRAMS = 100
_INSTANCES = 25
_EVERY = 50_000


def queues(seed: int) -> int:
    simulate(seed)
    return OPERATIONS_PER_SEED


def model(seed: int) -> int:
    compare(seed)
    return OPERATIONS_PER_SEED


def instances(seed: int) -> int:
    return simulate_instances(seed, _INSTANCES)


def programs(seed: int) -> int:
    for number in range(_PROGRAMS):
        with noting_seed(_PROGRAMS * seed + number, "test_orchestrations.py"):
            compare_program(_PROGRAMS * seed + number)
    return _PROGRAMS


PLAYS: tuple[Callable[[int], int], ...] = (*[queues] * 5, model, *[instances] * 3, programs)


def run(seed: int) -> tuple[str, int, str | None]:
    """Plays one seed. Answers what was played, how many operations it had, and what went wrong."""
    play = PLAYS[seed % len(PLAYS)]
    try:
        return play.__name__, play(seed), None
    except Exception:
        return play.__name__, 0, traceback.format_exc()


def main(operations: int) -> int:
    [first] = fresh_seeds(1)
    print(f"{operations:,} operations, seeds from {first}", flush=True)
    began, told_of, failures = time.monotonic(), 0, 0
    done: dict[str, int] = {}
    seeds = count(first)
    cores = os.cpu_count() or 1
    # Random programs leave failed tasks unretrieved; each is logged.
    with ProcessPoolExecutor(cores, initializer=logging.disable, initargs=(logging.CRITICAL,)) as workers:
        playing: set[Future[tuple[str, int, str | None]]] = set()
        while sum(done.values()) < operations or playing:
            while sum(done.values()) < operations and len(playing) < 2 * cores:
                playing.add(workers.submit(run, next(seeds)))
            ended, playing = wait(playing, return_when=FIRST_COMPLETED)
            for future in ended:
                play, played, failure = future.result()
                done[play] = done.get(play, 0) + played
                if failure:
                    failures += 1
                    print(failure, flush=True)
            total = sum(done.values())
            if total - told_of >= _EVERY or not playing:
                told_of = total
                seconds = time.monotonic() - began
                print(f"{total:,} done in {seconds:.0f} s, {failures} failures: {done}", flush=True)
    print(f"seeds up to {next(seeds) - 1}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else MILLION))
