"""A tenant's latency while another attacks the same server in every known way at once, and the server's memory.

An embedded server with two tenants. One of them (``attackers.py``, in a process of its own) sends what was found to
hurt: numbers that take long to read, 16 MiB of mistakes, large bodies on 50 connections, 150 connections that never
read, all of a long history, lists over thousands of partitions, false outcomes, bodies nested too deep, and calls for
what is not its own. Its process is niced: what is measured is the server, not how long that waits for a processor. The
other tenant pushes, takes, acknowledges and runs orchestrations, one call after the other, first alone and then beside
the attack. What counts is the 99th percentile of its calls, against the second that is promised, and the most memory
the server had, against the limit that ``deploy/`` sets. When the attacker gets to see anything it must not, or the
server answers with a fault or with too much, there is no figure.
"""

from __future__ import annotations

import functools
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp

from benchmarks.load import CallFailed
from benchmarks.measure import Figure
from benchmarks.report import Compared, Row
from benchmarks.stacks import guarded
from benchmarks.tenants import APP, VIOLATION, Honest, memory_limit, peak_memory, write_tokens
from holdfast.local import ChildProcess

if TYPE_CHECKING:
    from benchmarks.bench import Lab
    from benchmarks.stacks import Stack

_ROOT = Path(__file__).parents[1]
_MEGABYTE = 1_000_000
_PROMISED = Figure("what is promised", " ms", (1000.0,))
_SECONDS_TO_PREPARE = 300.0


async def run(lab: Lab) -> list[Row]:
    seconds = 10.0 if lab.quick else 60.0
    stack = await lab.stacks.start(functools.partial(guarded, app=APP, tokens=write_tokens))
    lab.tell("the honest tenant alone")
    alone = await _work(stack, seconds / 2)
    lab.tell("the attacker prepares")
    url = f"http://127.0.0.1:{stack.port}"
    command = [sys.executable, "-m", "benchmarks.attackers", url, str(_SECONDS_TO_PREPARE + seconds), "--nice", "10"]
    log = stack.app.log.with_name("attackers.log")
    async with ChildProcess("attackers", command, log=log, folder=_ROOT) as attackers:

        async def prepared() -> bool:
            return "ready" in attackers.logged()

        await attackers.wait_ready(prepared, timeout=_SECONDS_TO_PREPARE)
        lab.tell("all attacks at once")
        attacked = await _work(stack, seconds)
    if violations := [line for line in log.read_text().splitlines() if line.startswith(VIOLATION)]:
        raise CallFailed(violations[0])
    limit = Figure("the limit in deploy/", " MB", (memory_limit() / _MEGABYTE,))
    memory = Figure("embedded", " MB", (peak_memory(stack.app.pid) / _MEGABYTE,))
    return [
        Row("a tenant's calls beside all attacks, p99", _p99(attacked), _PROMISED, Compared.AS_LATENCY, floor=1.0),
        Row("the same, p50, against the tenant alone", _p50(attacked), _p50(alone), Compared.AS_LATENCY),
        Row("memory of the server, the most of it", memory, limit, Compared.AS_LATENCY, floor=1.0),
    ]


async def _work(stack: Stack, seconds: float) -> list[float]:
    """Returns the duration of each call of the honest tenant, in milliseconds."""
    until = time.monotonic() + seconds
    honest = Honest(f"http://127.0.0.1:{stack.port}")
    try:
        await honest.run(until=lambda: time.monotonic() >= until)
    except (AssertionError, aiohttp.ClientError) as error:
        raise CallFailed(f"The honest tenant: {error}") from error
    if honest.received != list(range(honest.pushed)):
        raise CallFailed("The honest tenant did not get what it pushed.")
    return [taken * 1000 for taken in honest.taken]


def _p99(taken: list[float]) -> Figure:
    return Figure("embedded", " ms", (statistics.quantiles(taken, n=100)[98],))


def _p50(taken: list[float]) -> Figure:
    return Figure("embedded", " ms", (statistics.median(taken),))
