"""A push to a queue that has 100,000 delayed items against one to a queue that has none.

On the embedded host, one caller, single items over REST: medians of single calls, the two queues in turn. The delayed
items fall due at as many moments of the coming day as there are tenths of a second in it.
"""

from __future__ import annotations

import json
from random import Random
from typing import TYPE_CHECKING

from benchmarks.latency import median_latencies
from benchmarks.load import request, send_all
from benchmarks.measure import Figure
from benchmarks.queue_calls import ITEM
from benchmarks.report import Compared, Row
from benchmarks.stacks import embedded

if TYPE_CHECKING:
    from benchmarks.bench import Lab

_DAY = 24 * 60 * 60
_SECONDS_TO_FILL = 60.0


async def run(lab: Lab) -> list[Row]:
    delayed = 5_000 if lab.quick else 100_000
    stack = await lab.stacks.start(embedded)
    generator = Random(1)
    for filled in range(0, delayed, 100):
        if filled % 10_000 == 0:
            lab.tell(f"{filled:,} of {delayed:,} delayed items")
        # Not before an hour from now: none is to fall due while this is measured.
        items = [{"item": ITEM, "delay_seconds": generator.uniform(3600, _DAY)} for _ in range(100)]
        push = request(stack, "POST", "/queue/crowded/push", json.dumps({"items": items}).encode())
        await send_all(stack, [push], timeout=_SECONDS_TO_FILL)
    calls = {
        queue: request(stack, "POST", f"/queue/{queue}/push", json.dumps({"item": ITEM}).encode())
        for queue in ("empty", "crowded")
    }
    medians = await median_latencies(stack, calls, lab)
    return [
        Row(
            f"push beside {delayed:,} delayed items, p50",
            Figure(f"{delayed:,} delayed", " ms", medians["crowded"]),
            Figure("none", " ms", medians["empty"]),
            Compared.AS_LATENCY,
            floor=1.2,
            goal=1.05,
        )
    ]
