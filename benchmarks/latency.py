"""Latency of single calls, one after the other: medians of each round, the subjects in turn."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, TypeVar

from benchmarks.load import connect

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks.bench import Lab
    from benchmarks.stacks import Stack

Name = TypeVar("Name")

_CALLS_A_ROUND = 200


async def median_latencies(stack: Stack, calls: Mapping[Name, bytes], lab: Lab) -> dict[Name, tuple[float, ...]]:
    """Milliseconds, for each of these calls a median of every round."""
    medians: dict[Name, list[float]] = {name: [] for name in calls}
    async with connect(stack, 1) as [connection]:
        for number in range(lab.pace.rounds):
            lab.tell(f"round {number + 1} of {lab.pace.rounds}")
            for name, sent in calls.items():
                taken = []
                for _ in range(_CALLS_A_ROUND):
                    began = time.perf_counter()
                    await connection.send(sent)
                    taken.append(time.perf_counter() - began)
                medians[name].append(statistics.median(taken) * 1000)
    return {name: tuple(samples) for name, samples in medians.items()}
