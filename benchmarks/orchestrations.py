"""Orchestrations against Dapr Workflow on PostgreSQL and against DBOS on SQLite, and against themselves.

Five activities in a row, 20 at once: ours are started and waited for over REST; both peers are called inside the
process that runs them, so they save themselves that. Alone is the latency of one after the other. The fan-out is one
orchestration of 1,000 activities. A turn is one letter to an orchestration that takes one after the other, early and
late in its history.
"""

from __future__ import annotations

import json
import secrets
import statistics
import time
from typing import TYPE_CHECKING

import psutil

from benchmarks.load import Load, connect, converse_for, request, send_all
from benchmarks.measure import Figure, rates
from benchmarks.peers import dapr_workflow, dbos_sqlite
from benchmarks.report import Compared, Row
from benchmarks.stacks import dapr_postgresql, embedded

if TYPE_CHECKING:
    from benchmarks.bench import Lab
    from benchmarks.load import Connection, Conversation
    from benchmarks.stacks import Stack

CALLERS = 20
FAN_OUT = 1000
EARLY, LATE = 10, 2000
_TURNS_A_ROUND = 20
_SECONDS = 900.0


async def run(lab: Lab) -> list[Row]:
    [postgresql] = await lab.stacks.get(dapr_postgresql)
    beside = await lab.stacks.start(embedded)
    dbos = await lab.stacks.start(dbos_sqlite)
    workflow = await lab.stacks.start(dapr_workflow)
    on_dapr, here = _five(postgresql.gateway()), _five(beside)
    in_a_row = await rates(
        {
            "ours, daprd + PostgreSQL": lambda seconds: converse_for(
                postgresql.gateway(), [on_dapr] * CALLERS, seconds
            ),
            "Dapr Workflow": lambda seconds: workflow.load(seconds, CALLERS),
            "ours, embedded": lambda seconds: converse_for(beside, [here] * CALLERS, seconds),
            "DBOS on SQLite": lambda seconds: dbos.load(seconds, CALLERS),
        },
        lab.pace,
        lab.tell,
    )
    alone = await rates(
        {
            "ours, embedded": lambda seconds: converse_for(beside, [here], seconds),
            "DBOS on SQLite": lambda seconds: dbos.load(seconds, 1),
        },
        lab.pace,
        lab.tell,
    )

    async def fan_out(seconds: float) -> Load:
        return await _fan_out(postgresql.gateway())

    async def fan_out_workflow(seconds: float) -> Load:
        return Load((await workflow.ask({"fan_out": FAN_OUT}))["rate"], 0.0)

    fans = await rates({"ours": fan_out, "Dapr Workflow": fan_out_workflow}, lab.pace, lab.tell)
    early, late = await _turns(lab, beside)
    return [
        Row(
            "5 activities in a row, 20 at once, Dapr + PostgreSQL",
            in_a_row["ours, daprd + PostgreSQL"],
            in_a_row["Dapr Workflow"],
            floor=2.5,
            goal=5.0,
        ),
        Row(
            "5 activities in a row, 20 at once, embedded",
            in_a_row["ours, embedded"],
            in_a_row["DBOS on SQLite"],
            floor=5.0,
            goal=10.0,
        ),
        Row(
            "one orchestration of 5 activities alone, embedded, latency",
            _as_latency(alone["ours, embedded"]),
            _as_latency(alone["DBOS on SQLite"]),
            Compared.AS_LATENCY,
            floor=0.5,
            goal=0.25,
        ),
        Row(f"fan-out of {FAN_OUT:,} activities", fans["ours"], fans["Dapr Workflow"], floor=5.0, goal=10.0),
        Row(f"turn {LATE:,} against turn {EARLY}, p50", late, early, Compared.AS_LATENCY, floor=1.5, goal=1.1),
        await _idle_memory(lab),
    ]


def _five(stack: Stack) -> Conversation:
    body = json.dumps({"input": 1}).encode()
    start = request(stack, "POST", "/orchestrations/five/start", body)

    async def one(connection: Connection) -> None:
        await _finish(stack, connection, json.loads(await connection.send(start, 202))["instance_id"])

    return one


async def _finish(stack: Stack, connection: Connection, instance_id: str) -> None:
    wait = request(stack, "GET", f"/orchestrations/{instance_id}/wait?timeout_seconds=300")
    ended = json.loads(await connection.send(wait))
    assert ended["status"] == "COMPLETED", ended


async def _fan_out(stack: Stack) -> Load:
    start = request(stack, "POST", "/orchestrations/fan/start", json.dumps({"input": FAN_OUT}).encode())
    async with connect(stack, 1) as [connection]:
        began = time.perf_counter()
        await _finish(stack, connection, json.loads(await connection.send(start, 202))["instance_id"])
        return Load(FAN_OUT / (time.perf_counter() - began), 0.0)


async def _turns(lab: Lab, stack: Stack) -> tuple[Figure, Figure]:
    """Measures a letter's time with a short and with a long history; each round has an instance of its own."""
    early: list[float] = []
    late: list[float] = []
    letters = LATE // 10 if lab.quick else LATE
    async with connect(stack, 1) as [connection]:
        for number in range(lab.pace.rounds):
            lab.tell(f"turns: round {number + 1} of {lab.pace.rounds}")
            instance_id = f"reader-{secrets.token_hex(4)}"
            body = json.dumps({"input": letters + 2 * _TURNS_A_ROUND, "instance_id": instance_id}).encode()
            await connection.send(request(stack, "POST", "/orchestrations/reader/start", body), 202)
            letter = request(stack, "POST", f"/orchestrations/{instance_id}/events/letters", b"1")
            taken = []
            for _ in range(letters + _TURNS_A_ROUND):
                began = time.perf_counter()
                await connection.send(letter, 202)
                taken.append((time.perf_counter() - began) * 1000)
            early.append(statistics.median(taken[EARLY : EARLY + _TURNS_A_ROUND]))
            late.append(statistics.median(taken[-_TURNS_A_ROUND:]))
    return Figure(f"turn {EARLY}", " ms", tuple(early)), Figure(f"turn {letters:,}", " ms", tuple(late))


async def _idle_memory(lab: Lab) -> Row:
    instances = 5_000 if lab.quick else 100_000
    stack = await lab.stacks.start(embedded)
    before = _resident(stack)
    start = request(stack, "POST", "/orchestrations/idle/start", b"{}")
    for begun in range(0, instances, CALLERS * 5):
        if begun % 10_000 == 0:
            lab.tell(f"{begun:,} of {instances:,} idle instances")
        await send_all(stack, [start] * (CALLERS * 5), timeout=_SECONDS, status=202)
    return Row(
        f"memory, {instances:,} idle instances",
        Figure("embedded", " MB", (_resident(stack),)),
        Figure("the same server before", " MB", (before,)),
        Compared.AS_GROWTH,
        floor=150.0,
        goal=50.0,
    )


def _resident(stack: Stack) -> float:
    resident: int = psutil.Process(stack.app.pid).memory_info().rss
    return resident / 2**20


def _as_latency(figure: Figure) -> Figure:
    return Figure(figure.subject, " ms", tuple(1000 / rate for rate in figure.samples), figure.generator_share)
