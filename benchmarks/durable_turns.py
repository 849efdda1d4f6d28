"""Turns that save one key, over 1 actor and over 64: what durability costs.

A turn adds one to a counter and is answered when that is saved: a SQLite commit with ``synchronous=FULL`` on the
embedded host and in daprd's SQLite component, a commit with the server's defaults in PostgreSQL. Over 1 actor the
20 callers wait for each other's turns, so it is the latency of one turn; over 64 actors there are 64 callers, one
for each, and the host may save side by side. The calls come over HTTP from the load generator, on all stacks alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.calls import over_http
from benchmarks.measure import rates
from benchmarks.report import Row
from benchmarks.stacks import dapr_postgresql, dapr_sqlite, embedded

if TYPE_CHECKING:
    from benchmarks.bench import Lab

FLOOR = 5.0


async def run(lab: Lab) -> list[Row]:
    stacks = await lab.stacks.get(embedded, dapr_sqlite, dapr_postgresql)
    works = {
        "durable turns of 1 actor, 20 callers": ["one"] * 20,
        "durable turns over 64 actors, 64 callers": [f"one-of-64-{number}" for number in range(64)],
    }
    rows = []
    for work, targets in works.items():
        lab.tell(work)
        figures = await rates({stack.name: over_http(stack, targets, "Save") for stack in stacks}, lab.pace, lab.tell)
        ours, sqlite, postgresql = figures.values()
        rows += [
            Row(work, ours, sqlite, floor=FLOOR if len(set(targets)) > 1 else None),
            Row(work, ours, postgresql),
        ]
    return rows
