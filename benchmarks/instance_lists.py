"""Lists of 100,000 instances against lists of 100: their cost must not grow with what exists.

On the embedded host, one caller, over REST: medians of single calls. Two tenants of one server have the instances, so
that both are asked in turn. Each list shows the newest 50 that match: all, those with one tag, one status or one prefix
of their ids, or started in a certain time; and the counts. Of the 100 instances 50 have the tag, of the
100,000 every twentieth.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from benchmarks.latency import median_latencies
from benchmarks.load import connect
from benchmarks.measure import Figure
from benchmarks.report import Compared, Row
from benchmarks.stacks import embedded

if TYPE_CHECKING:
    from benchmarks.bench import Lab
    from benchmarks.load import Connection
    from benchmarks.stacks import Stack

FEW = 100
SHOWN = 50
CALLERS = 20

# The index is written a moment after the instances.
_SECONDS_UNTIL_LISTED = 60.0


async def run(lab: Lab) -> list[Row]:
    many = 5_000 if lab.quick else lab.instances
    stack = await lab.stacks.start(embedded)
    # Every 20th of many.
    await _fill(stack, "few", FEW, FEW // SHOWN, lab)
    await _fill(stack, "many", many, many // 20 // SHOWN * 20, lab)
    calls = {}
    for tenant, count in (("few", FEW), ("many", many)):
        [middle] = (await _list(stack, tenant, f"limit=1&id_prefix=i-{count // 2 - 1:06}"))["orchestrations"]
        lists = {
            "newest": "",
            "newest of one tag": "&tag=group:1",
            "newest of one status": "&status=CANCELLED",
            "newest before a time": f"&started_before={quote(middle['created_at'])}",
        }
        for what, query in lists.items():
            calls[what, tenant] = _get(stack, tenant, f"/orchestrations?limit={SHOWN}{query}")
        calls["counts", tenant] = _get(stack, tenant, "/orchestrations/counts")
    medians = await median_latencies(stack, calls, lab)
    return [
        Row(
            f"{what}, {many:,} instances against {FEW}, p50",
            Figure(f"{many:,} instances", " ms", medians[what, "many"]),
            Figure(f"{FEW} instances", " ms", medians[what, "few"]),
            Compared.AS_LATENCY,
            floor=1.5,
            goal=1.1,
        )
        for what, tenant in medians
        if tenant == "few"
    ]


async def _fill(stack: Stack, tenant: str, count: int, groups: int, lab: Lab) -> None:
    """Starts so many instances, of which some are cancelled."""
    numbers = iter(range(count))

    async def start(connection: Connection) -> None:
        for number in numbers:
            if number % 5_000 == 0:
                lab.tell(f"{number:,} of {count:,} instances")
            body = {"instance_id": f"i-{number:06}", "tags": {"group": str(number % groups)}}
            path = "/orchestrations/idle/start"
            await connection.send(_request(stack, tenant, "POST", path, json.dumps(body).encode()), 202)
            if number % groups == 0:
                path = f"/orchestrations/i-{number:06}/cancel"
                await connection.send(_request(stack, tenant, "POST", path), 202)

    async with connect(stack, CALLERS) as connections, asyncio.TaskGroup() as callers:
        for connection in connections:
            callers.create_task(start(connection))
    cancelled = len(range(0, count, groups))
    async with asyncio.timeout(_SECONDS_UNTIL_LISTED):
        while (await _counts(stack, tenant)) != {"RUNNING": count - cancelled, "CANCELLED": cancelled}:  # noqa: ASYNC110
            await asyncio.sleep(0.5)


async def _counts(stack: Stack, tenant: str) -> Any:
    async with connect(stack, 1) as [connection]:
        return json.loads(await connection.send(_get(stack, tenant, "/orchestrations/counts")))["counts"]


async def _list(stack: Stack, tenant: str, query: str) -> Any:
    async with connect(stack, 1) as [connection]:
        return json.loads(await connection.send(_get(stack, tenant, f"/orchestrations?{query}")))


def _get(stack: Stack, tenant: str, path: str) -> bytes:
    return _request(stack, tenant, "GET", path)


def _request(stack: Stack, tenant: str, verb: str, path: str, body: bytes = b"") -> bytes:
    head = (
        f"{verb} {path} HTTP/1.1\r\nHost: {stack.address}:{stack.port}\r\nHoldfast-Tenant: {tenant}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode("ascii") + body
