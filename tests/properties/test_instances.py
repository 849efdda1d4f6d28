"""Orchestrations end as if nothing had happened, whatever breaks: the real actors and a worker on a simulated host."""

from __future__ import annotations

import pytest

from tests.properties.instances.simulation import Focus, simulate_instances
from tests.support.seeds import fresh_seeds

SEEDS = 24
INSTANCES = 25
# Enough for every worker that runs tests.
PARTS = 4

#: Short runs for one kind of fault each, with the seeds that have found one.
FOUND = {
    "mail for one that is suspended and continues as new": (Focus(("collector",), ()), (1, 2)),
    "a cancel of one that is suspended and continues as new": (Focus(("perpetual",), ()), (1, 2)),
    "a queue that refuses some of what is sent": (Focus(("on_two_queues",), ("refuse",)), (3, 12)),
    "long ids and a crash between save and send": (Focus(("side_by_side",), ("kill",)), (1, 2)),
    "orderly stops, and workers of another app": (Focus(("long_winded",), ("stop",)), (3, 4)),
    "a child under the id of another's instance": (Focus(("collision",), ()), (1, 3)),
    "a clock that is ahead for one turn": (Focus(("napper",), ()), (1, 2)),
    "an id that is given again in the turn that deletes it": (Focus(("replaced",), ()), (1, 2)),
    "children of a parent that is deleted": (Focus(("parent_of_perpetual",), ()), (1, 2)),
    "mail in bulk": (Focus(("collector",), ("stop", "kill")), (4, 5)),
    "later starts, limits of time, and deletions, in processes that end": (
        Focus(("delayed", "limited", "forgotten"), ("kill", "stop")),
        (2, 4),
    ),
    "requests that are repeated over crashes": (Focus(("asked",), ("stop", "kill")), (1, 2, 3)),
    "calls in another order in each process": (Focus(("unordered",), ("stop",)), (2, 3)),
    "code that has departed, or is missing, or declares less": (
        Focus(("settled", "sleeper", "mailed"), ("unfit",)),
        (2, 3, 4),
    ),
}


@pytest.mark.parametrize("part", range(PARTS))
def test_everything_comes_to_its_end(part: int) -> None:
    for seed in fresh_seeds(1000 * SEEDS // PARTS):
        simulate_instances(seed, INSTANCES)


@pytest.mark.parametrize("fault", FOUND)
def test_what_found_a_fault_finds_none(fault: str) -> None:
    focus, seeds = FOUND[fault]
    for seed in seeds:
        for saves_reminders in (False, True):
            simulate_instances(seed, 6, focus, saves_reminders=saves_reminders)
