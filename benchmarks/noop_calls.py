"""Actor calls that do nothing, with 20 callers at a time: what the host itself costs.

Each caller has an actor of its own and calls it again as soon as it is answered; nothing is saved. Measured on
the embedded host, on daprd + SQLite and on daprd + PostgreSQL (the store plays no part: these two are the same
work twice), in two ways:

- over HTTP: from the load generator, over 20 keep-alive connections, through the actor API of daprd or of the
  embedded host;
- actor to actor: 20 actors, each in a turn of its own, call 20 others. On the embedded host the call stays in the
  process; on Dapr it goes through daprd, over the host's pooled connections.

The floor holds the embedded host's actor-to-actor calls against both of daprd's figures. The app beside daprd is
Holdfast's own Dapr host in one process, on the same cores as daprd and the load generator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.calls import between_actors, over_http
from benchmarks.measure import rates
from benchmarks.report import Row
from benchmarks.stacks import dapr_postgresql, dapr_sqlite, embedded

if TYPE_CHECKING:
    from benchmarks.bench import Lab

CALLERS = 20
FLOOR = 10.0


async def run(lab: Lab) -> list[Row]:
    ours, *peers = await lab.stacks.get(embedded, dapr_sqlite, dapr_postgresql)
    targets = [f"noop-{number}" for number in range(CALLERS)]
    figures = await rates(
        {
            f"{stack.name}, {way}": calls(stack, targets, "Nothing")
            for way, calls in (("actor to actor", between_actors), ("HTTP", over_http))
            for stack in (ours, *peers)
        },
        lab.pace,
        lab.tell,
    )
    in_process, http = figures[f"{ours.name}, actor to actor"], figures[f"{ours.name}, HTTP"]
    rows = []
    for peer in peers:
        through_daprd, from_outside = figures[f"{peer.name}, actor to actor"], figures[f"{peer.name}, HTTP"]
        rows += [
            Row("no-op calls from actor to actor, 20 callers", in_process, through_daprd, floor=FLOOR),
            Row("the same, against daprd called from outside", in_process, from_outside, floor=FLOOR),
            Row("no-op calls over HTTP, 20 callers", http, from_outside),
        ]
    return rows
