"""Steady load with retention: neither the file nor the memory of a server may grow.

On the embedded host with ``--retention 30``, at most 25 times a second: an orchestration with a tag, an idempotent
activity, a mailbox and a child of five activities, and an item that is pushed with a dedup id, locked and acknowledged.
The size of all files of the data folder and the resident memory of the server are read once a second. The last quarter
of the run is compared with the second; in the first the caches fill. ``--minutes`` sets the length: 5 minutes by
default. On a machine that is busy with other work the pace, and so what is kept, varies: the figures then say nothing.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import json
import time
from typing import TYPE_CHECKING, NamedTuple

import psutil

from benchmarks.load import connect, request, send_all
from benchmarks.measure import Figure
from benchmarks.report import Compared, Row
from benchmarks.stacks import embedded

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.bench import Lab
    from benchmarks.load import Connection
    from benchmarks.stacks import Stack

RETENTION_SECONDS = 30
PER_SECOND = 25
CALLERS = 40
FLOOR = 1.1

_SECONDS_FOR_AN_ANSWER = 60.0
_CONFIG = {"max_locks": CALLERS, "dedup_window_seconds": RETENTION_SECONDS}


class Sample(NamedTuple):
    """The size of the server at one moment, in MB."""

    files: float
    memory: float


async def run(lab: Lab) -> list[Row]:
    stack = await lab.stacks.start(functools.partial(embedded, retention=RETENTION_SECONDS))
    configure = request(stack, "PUT", "/queue/steady/config", json.dumps(_CONFIG).encode())
    await send_all(stack, [configure], timeout=_SECONDS_FOR_AN_ANSWER)
    seconds = 60.0 if lab.quick else 60.0 * lab.minutes
    samples: list[Sample] = []
    numbers = itertools.count()
    load = asyncio.create_task(_load(stack, numbers, seconds))
    while not load.done():
        samples.append(_sample(stack))
        lab.tell(f"{len(samples)} s of {seconds:.0f} s: files {samples[-1].files:.0f} MB")
        await asyncio.wait({load}, timeout=1)
    await load
    work = f"{next(numbers):,} orchestrations in {seconds / 60:g} minutes, retention {RETENTION_SECONDS} s"
    quarter = len(samples) // 4
    early, late = samples[quarter : 2 * quarter], samples[-quarter:]
    return [
        _row(lab, f"files, {work}", [sample.files for sample in late], [sample.files for sample in early]),
        _row(lab, f"memory, {work}", [sample.memory for sample in late], [sample.memory for sample in early]),
    ]


async def _load(stack: Stack, numbers: Iterator[int], seconds: float) -> None:
    began = time.monotonic()

    async def caller(connection: Connection, position: int) -> None:
        due = began + position / PER_SECOND
        while due < began + seconds:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            # What a busy machine delays is not made up for: more would be kept for a while.
            due = max(due, time.monotonic()) + CALLERS / PER_SECOND
            number = next(numbers)
            await _orchestration(stack, connection, number)
            await _item(stack, connection, number)

    try:
        async with connect(stack, CALLERS) as connections, asyncio.TaskGroup() as callers:
            for position, connection in enumerate(connections):
                callers.create_task(caller(connection, position))
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None


async def _orchestration(stack: Stack, connection: Connection, number: int) -> None:
    body = {"instance_id": f"steady-{number}", "input": number, "tags": {"group": str(number % 10)}}
    await connection.send(request(stack, "POST", "/orchestrations/steady/start", json.dumps(body).encode()), 202)
    path = f"/orchestrations/steady-{number}"
    await connection.send(request(stack, "POST", f"{path}/events/notes", b'"a note"'), 202)
    ended = json.loads(await connection.send(request(stack, "GET", f"{path}/wait?timeout_seconds=60")))
    assert ended["status"] == "COMPLETED", ended


async def _item(stack: Stack, connection: Connection, number: int) -> None:
    item = {"item": {"number": number, "text": "x" * 200}, "dedup_id": str(number)}
    await connection.send(request(stack, "POST", "/queue/steady/push", json.dumps(item).encode()))
    popped = json.loads(await connection.send(request(stack, "POST", "/queue/steady/pop?require_ack=true")))
    lock = json.dumps({"lock_id": popped["lock_id"]}).encode()
    await connection.send(request(stack, "POST", "/queue/steady/acknowledge", lock))


def _sample(stack: Stack) -> Sample:
    assert stack.data is not None
    files = sum(file.stat().st_size for file in stack.data.iterdir() if file.is_file())
    return Sample(files / 2**20, psutil.Process(stack.app.pid).memory_info().rss / 2**20)


def _row(lab: Lab, work: str, late: Sequence[float], early: Sequence[float]) -> Row:
    return Row(
        work,
        Figure("last quarter", " MB", tuple(late)),
        Figure("second quarter", " MB", tuple(early)),
        Compared.AS_LATENCY,
        # A quick run ends before the caches are full.
        floor=None if lab.quick else FLOOR,
    )
