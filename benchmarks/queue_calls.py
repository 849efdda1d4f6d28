"""Pushes, bulk pushes, and pops with acknowledge over REST, on Dapr with PostgreSQL.

20 callers on one queue, items of about 100 bytes. Ours go to the gateway, which calls the queue's actor through daprd.
The peer is an actor in the first layout one would think of (see ``seed_layout``), called through the actor API of the
same daprd, so it saves itself a hop. A cycle is a pop under a lock and its acknowledge, on a queue of one partition and
on one of four; the queues are filled before.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from benchmarks import seed_layout
from benchmarks.load import actor_call, converse_for, repeat_for, request, send_all
from benchmarks.measure import Figure, rates
from benchmarks.report import Row
from benchmarks.stacks import dapr_postgresql

if TYPE_CHECKING:
    from benchmarks.bench import Lab
    from benchmarks.load import Connection, Conversation
    from benchmarks.stacks import Stack

CALLERS = 20
BULK = 100
PARTITIONS = (1, 4)
ITEM = {"order": 123456, "customer": "c-98765", "note": "x" * 40}

_SECONDS_TO_FILL = 300.0


async def run(lab: Lab) -> list[Row]:
    [stack] = await lab.stacks.get(dapr_postgresql)
    gateway = stack.gateway()
    single = request(gateway, "POST", "/queue/bench-single/push", _json({"item": ITEM}))
    bulk = request(gateway, "POST", "/queue/bench-bulk/push", _json({"items": [{"item": ITEM}] * BULK}))
    seed = actor_call(stack, seed_layout.TYPE, "bench", "Push", _json({"item": ITEM, "priority": 0}))
    pushes = await rates(
        {
            "single": lambda seconds: repeat_for(gateway, [single] * CALLERS, seconds),
            "bulk": lambda seconds: repeat_for(gateway, [bulk] * CALLERS, seconds),
            "first layout": lambda seconds: repeat_for(stack, [seed] * CALLERS, seconds),
        },
        lab.pace,
        lab.tell,
    )
    cycles = await _cycles(lab, stack, gateway)
    peer = pushes["first layout"]
    return [
        Row("single pushes, 20 callers, Dapr + PostgreSQL", pushes["single"], peer, floor=4.0, goal=10.0),
        Row(f"items in bulk pushes of {BULK}", _times(pushes["bulk"], BULK), peer, floor=40.0, goal=100.0),
        Row(
            "pop with ack and acknowledge, 20 callers",
            cycles["1 partition"],
            cycles["first layout"],
            floor=4.0,
            goal=10.0,
        ),
        Row("the same on 4 partitions", cycles["4 partitions"], cycles["first layout"]),
        Row("the same on 4 partitions", cycles["4 partitions"], cycles["1 partition"]),
    ]


async def _cycles(lab: Lab, stack: Stack, gateway: Stack) -> dict[str, Figure]:
    lab.tell("filling the queues")
    needed = 10_000 if lab.quick else 60_000
    for partitions in PARTITIONS:
        await _fill(gateway, partitions, needed)
    seed_fill = actor_call(stack, seed_layout.TYPE, "cycles", "Fill", _json({"count": needed, "item": ITEM}))
    await send_all(stack, [seed_fill], timeout=_SECONDS_TO_FILL)
    seed_pop = actor_call(stack, seed_layout.TYPE, "cycles", "PopWithAck", b"{}")

    async def peer(connection: Connection) -> None:
        locked = json.loads(await connection.send(seed_pop))
        body = _json({"lock_id": locked["lock_id"]})
        await connection.send(actor_call(stack, seed_layout.TYPE, "cycles", "Acknowledge", body))

    one, four = (_cycle(gateway, partitions) for partitions in PARTITIONS)
    return await rates(
        {
            "1 partition": lambda seconds: converse_for(gateway, [one] * CALLERS, seconds),
            "4 partitions": lambda seconds: converse_for(gateway, [four] * CALLERS, seconds),
            "first layout": lambda seconds: converse_for(stack, [peer] * CALLERS, seconds),
        },
        lab.pace,
        lab.tell,
    )


async def _fill(gateway: Stack, partitions: int, count: int) -> None:
    config = {"max_locks": 2 * CALLERS, "partitions": partitions}
    queue = f"/queue/bench-cycles-{partitions}"
    await send_all(gateway, [request(gateway, "PUT", f"{queue}/config", _json(config))], timeout=_SECONDS_TO_FILL)
    push = request(gateway, "POST", f"{queue}/push", _json({"items": [{"item": ITEM}] * 1000}))
    for _ in range(count // 1000):
        await send_all(gateway, [push], timeout=_SECONDS_TO_FILL)


def _cycle(gateway: Stack, partitions: int) -> Conversation:
    queue = f"/queue/bench-cycles-{partitions}"
    pop = request(gateway, "POST", f"{queue}/pop?require_ack=true")

    async def cycle(connection: Connection) -> None:
        locked = json.loads(await connection.send(pop))
        body = _json({"lock_id": locked["lock_id"]})
        await connection.send(request(gateway, "POST", f"{queue}/acknowledge", body))

    return cycle


def _times(figure: Figure, factor: int) -> Figure:
    samples = tuple(sample * factor for sample in figure.samples)
    return Figure(figure.subject, figure.unit, samples, figure.generator_share)


def _json(value: object) -> bytes:
    return json.dumps(value).encode()
