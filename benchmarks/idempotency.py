"""``begin`` and ``commit`` of effects that must happen once, and what the client's helper adds to a call.

A cycle is a begin and a commit over REST, each time with a new key, by 20 callers; its peer is two turns that save one
key on the same stack, by callers that have an actor each: what those two saves cost at least, without a new actor and
its reminder. A repetition is a begin of what was done. The helper runs a push, one after the other, beside the same
push alone: two saves more, on a way that is walked three times instead of once.
"""

from __future__ import annotations

import itertools
import secrets
import statistics
import time
from typing import TYPE_CHECKING

from benchmarks.calls import over_http
from benchmarks.load import Load, converse_for, repeat_for, request, send_all
from benchmarks.measure import Figure, rates
from benchmarks.report import Compared, Row
from benchmarks.stacks import dapr_postgresql, embedded
from holdfast import Client

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from benchmarks.bench import Lab
    from benchmarks.load import Connection, Conversation
    from benchmarks.stacks import Stack

CALLERS = 20
_CALLS_A_ROUND = 100
_SECONDS = 60.0
_OWNER = b'{"owner": "bench"}'
_COMMIT = b'{"owner": "bench", "result": {"invoice": 17}}'


async def run(lab: Lab) -> list[Row]:
    rows = []
    for stack in await lab.stacks.get(embedded, dapr_postgresql):
        rows += await _calls(lab, stack)
        rows.append(await _helper(lab, stack))
    return rows


async def _calls(lab: Lab, stack: Stack) -> list[Row]:
    gateway = stack.gateway()
    done = request(gateway, "POST", "/idempotency/bench/done/begin", _OWNER)
    await send_all(gateway, [done], timeout=_SECONDS)
    await send_all(gateway, [request(gateway, "POST", "/idempotency/bench/done/commit", _COMMIT)], timeout=_SECONDS)
    turns = over_http(stack, [f"once-{number}" for number in range(CALLERS)], "Save")
    figures = await rates(
        {
            "begin and commit": lambda seconds: converse_for(gateway, [_cycle(gateway)] * CALLERS, seconds),
            "two durable turns": _half(turns),
            "begin again": lambda seconds: repeat_for(gateway, [done] * CALLERS, seconds),
        },
        lab.pace,
        lab.tell,
    )
    cycles = figures["begin and commit"]
    return [
        Row(f"begin and commit, {CALLERS} callers, {stack.name}", cycles, figures["two durable turns"]),
        Row(f"begin of what was done, {CALLERS} callers, {stack.name}", figures["begin again"], cycles),
    ]


def _cycle(stack: Stack) -> Conversation:
    run, numbers = secrets.token_hex(4), itertools.count()

    async def cycle(connection: Connection) -> None:
        record = f"/idempotency/bench/{run}-{next(numbers)}"
        await connection.send(request(stack, "POST", f"{record}/begin", _OWNER))
        await connection.send(request(stack, "POST", f"{record}/commit", _COMMIT))

    return cycle


def _half(work: Callable[[float], Awaitable[Load]]) -> Callable[[float], Awaitable[Load]]:
    async def counted_in_pairs(seconds: float) -> Load:
        load = await work(seconds)
        return Load(load.rate / 2, load.generator_share)

    return counted_in_pairs


async def _helper(lab: Lab, stack: Stack) -> Row:
    gateway = stack.gateway()
    run, numbers = secrets.token_hex(4), itertools.count()
    async with Client(f"http://{gateway.address}:{gateway.port}") as client:
        queue = client.queue(f"bench-once-{run}")

        async def bare() -> object:
            return await queue.push(17)

        async def helped() -> object:
            return await client.idempotent(key=f"{run}-{next(numbers)}", run=bare)

        medians: dict[str, list[float]] = {"client.idempotent": [], "the push alone": []}
        for number in range(lab.pace.rounds):
            lab.tell(f"helper: round {number + 1} of {lab.pace.rounds}")
            medians["client.idempotent"].append(await _median(helped))
            medians["the push alone"].append(await _median(bare))
    ours, peer = (Figure(name, " ms", tuple(samples)) for name, samples in medians.items())
    return Row(f"client.idempotent around a push, {stack.name}, p50", ours, peer, Compared.AS_LATENCY)


async def _median(call: Callable[[], Awaitable[object]]) -> float:
    taken = []
    for _ in range(_CALLS_A_ROUND):
        began = time.perf_counter()
        await call()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken) * 1000
