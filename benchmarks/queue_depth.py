"""A queue of 1,000,000 items against one of 100: what a push and a pop take, and what memory it costs.

On the embedded host, one caller, single items over REST: medians of single calls, the two queues in turn. The memory is
the server's resident memory with the million items queued, against what it was before the first of them.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import psutil

from benchmarks.latency import median_latencies
from benchmarks.load import request, send_all
from benchmarks.measure import Figure
from benchmarks.queue_calls import ITEM
from benchmarks.report import Compared, Row
from benchmarks.stacks import embedded

if TYPE_CHECKING:
    from benchmarks.bench import Lab
    from benchmarks.stacks import Stack

SHALLOW = 100
_SECONDS_TO_FILL = 60.0


async def run(lab: Lab) -> list[Row]:
    deep = 50_000 if lab.quick else 1_000_000
    stack = await lab.stacks.start(embedded)
    await _fill(stack, "shallow", SHALLOW)
    before = _resident(stack)
    for filled in range(0, deep, 1000):
        if filled % 50_000 == 0:
            lab.tell(f"{filled:,} of {deep:,} items")
        await _fill(stack, "deep", 1000)
    after = _resident(stack)
    calls = {
        (what, queue): request(stack, "POST", f"/queue/{queue}/{path}", body)
        for queue in ("shallow", "deep")
        for what, path, body in (("push", "push", json.dumps({"item": ITEM}).encode()), ("pop", "pop", b""))
    }
    medians = await median_latencies(stack, calls, lab)
    rows = [
        Row(
            f"{what} at depth {deep:,} against {SHALLOW}, p50",
            Figure(f"depth {deep:,}", " ms", medians[what, "deep"]),
            Figure(f"depth {SHALLOW}", " ms", medians[what, "shallow"]),
            Compared.AS_LATENCY,
            floor=1.2,
            goal=1.05,
        )
        for what in ("push", "pop")
    ]
    rows.append(
        Row(
            f"memory, {deep:,} items queued",
            Figure("embedded", " MB", (after,)),
            Figure("the same server before", " MB", (before,)),
            Compared.AS_GROWTH,
            floor=150.0,
            goal=50.0,
        )
    )
    return rows


async def _fill(stack: Stack, queue: str, count: int) -> None:
    sent = request(stack, "POST", f"/queue/{queue}/push", json.dumps({"items": [{"item": ITEM}] * count}).encode())
    await send_all(stack, [sent], timeout=_SECONDS_TO_FILL)


def _resident(stack: Stack) -> float:
    resident: int = psutil.Process(stack.app.pid).memory_info().rss
    return resident / 2**20
