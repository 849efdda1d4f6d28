"""Memory that 100,000 actors leave behind once they are idle: it must follow what is active, not what exists.

A fresh embedded server is asked to save one key in each of 100,000 actors, through 20 actors of the same server that
call them. They go idle and are deactivated: most when they have been idle for a minute, the default, and some sooner,
as the host keeps a limited number of idle ones. What counts is the resident memory of the server's process when none is
active any more, as it is, compared with what it was when the server had just started and answered its first call.
"""

from __future__ import annotations

import asyncio
import functools
import json
from typing import TYPE_CHECKING

import psutil

from benchmarks.actors import DRIVER, TARGET
from benchmarks.load import actor_call, call_once, get, send_all
from benchmarks.measure import Figure
from benchmarks.report import Compared, Row
from benchmarks.stacks import embedded

if TYPE_CHECKING:
    from benchmarks.bench import Lab
    from benchmarks.stacks import Stack

DRIVERS = 20
FLOOR = 50.0

_SECONDS_TO_TOUCH = 600.0
_SECONDS_TO_LEAVE = 120.0


async def run(lab: Lab) -> list[Row]:
    actors, idle_timeout = (10_000, 10.0) if lab.quick else (100_000, 60.0)
    stack = await lab.stacks.start(functools.partial(embedded, idle_timeout=idle_timeout))
    await call_once(stack, TARGET, "first", "Save")
    start = _resident(stack)
    lab.tell(f"{actors:,} actors save a key")
    await _touch(stack, actors)
    active = await _active(stack)
    busy = _resident(stack)
    lab.tell(f"{active:,} actors go idle")
    async with asyncio.timeout(idle_timeout + _SECONDS_TO_LEAVE):
        while await _active(stack):  # noqa: ASYNC110, the event is in another process
            await asyncio.sleep(0.5)
    left = _resident(stack)
    await call_once(stack, DRIVER, "trim", "Trim")
    trimmed = _resident(stack)
    at_start = _figure("the same server, started", start)

    def row(work: str, megabytes: float, floor: float | None = None) -> Row:
        return Row(work, _figure("embedded", megabytes), at_start, Compared.AS_GROWTH, floor=floor)

    return [
        row(f"memory, {actors:,} actors touched and idle", left, FLOOR),
        row("the same, what Python keeps given back", trimmed),
        row(f"the same, at the end of the calls, {active:,} active", busy),
    ]


async def _touch(stack: Stack, actors: int) -> None:
    share = actors // DRIVERS
    requests = [
        actor_call(
            stack,
            DRIVER,
            f"driver-{number}",
            "CallEach",
            json.dumps(
                {"prefix": "idle-", "method": "Save", "first": number * share, "last": (number + 1) * share}
            ).encode(),
        )
        for number in range(DRIVERS)
    ]
    await send_all(stack, requests, timeout=_SECONDS_TO_TOUCH)


async def _active(stack: Stack) -> int:
    metadata = json.loads(await get(stack, "/v1.0/metadata"))
    return sum(entry["count"] for entry in metadata["actorRuntime"]["activeActors"])


def _resident(stack: Stack) -> float:
    resident: int = psutil.Process(stack.app.pid).memory_info().rss
    return resident / 2**20


def _figure(subject: str, megabytes: float) -> Figure:
    return Figure(subject, " MB", (megabytes,))
