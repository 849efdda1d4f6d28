"""The two ways to call actors that are measured: from outside over HTTP, and from one actor to another."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from benchmarks.actors import DRIVER, TARGET
from benchmarks.load import Load, actor_call, repeat_for, send_all

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from benchmarks.stacks import Stack

_SECONDS_BEYOND = 60.0


def over_http(stack: Stack, targets: Sequence[str], method: str) -> Callable[[float], Awaitable[Load]]:
    """Runs a caller for each target named, through the actor API: daprd's own, or the embedded host's."""
    requests = [actor_call(stack, TARGET, target, method) for target in targets]
    return lambda seconds: repeat_for(stack, requests, seconds)


def between_actors(stack: Stack, targets: Sequence[str], method: str) -> Callable[[float], Awaitable[Load]]:
    """Runs a caller for each target named, and each caller is an actor in the middle of a turn of its own.

    On the embedded host such a call stays in the process. On Dapr it goes through daprd and back, over the Dapr
    host's pooled connections. What starts the callers is one request each, whatever they do then.
    """

    async def work(seconds: float) -> Load:
        requests = [
            actor_call(
                stack,
                DRIVER,
                f"driver-{number}",
                "CallFor",
                json.dumps({"target": target, "method": method, "seconds": seconds}).encode(),
            )
            for number, target in enumerate(targets)
        ]
        began, cpu = time.perf_counter(), time.process_time()
        counts = await send_all(stack, requests, timeout=seconds + _SECONDS_BEYOND)
        elapsed, used = time.perf_counter() - began, time.process_time() - cpu
        return Load(sum(map(int, counts)) / elapsed, used / elapsed)

    return work
