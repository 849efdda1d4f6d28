"""Activities that must happen once. What they do is written down beside them, where the tests can read it."""

from __future__ import annotations

import asyncio
import os
from functools import partial
from pathlib import Path
from typing import Any

from holdfast import App, Client, Context, Retry, activity_context

HERE = Path()
EFFECTS = HERE / "effects"

app = App()


def happened(what: str) -> str:
    with EFFECTS.open("a") as effects:
        effects.write(f"{what}\n")
    return what


@app.activity(queue="once", lock_seconds=1, idempotent=True)
async def hold() -> int:
    """Until the test says so."""
    me = os.getpid()
    released = HERE / f"released-{me}"
    happened(f"{me} began")
    try:
        while not released.exists():
            await asyncio.sleep(0.02)
    except asyncio.CancelledError:
        happened(f"{me} stopped")
        raise
    return me


@app.activity(idempotent=True)
async def mail(url: str) -> str:
    """By the key of its call, at the server that it is a part of."""
    async with Client(url) as client:
        outcome = await client.idempotent(key=activity_context().idempotency_key, run=partial(happened, "sent"))
    return outcome.result


@app.activity(idempotent=True, max_deliveries=3, lock_seconds=1)
async def nest(levels: int) -> Any:
    happened("nested")
    value: Any = 1 if levels else object()
    for _ in range(levels):
        value = [value]
    return value


@app.orchestration
async def holding(ctx: Context) -> int:
    return await ctx.call(hold)


@app.orchestration
async def mailing(ctx: Context, url: str) -> str:
    return await ctx.call(mail, url)


@app.orchestration
async def nesting(ctx: Context, levels: int) -> Any:
    return await ctx.call(nest, levels, retry=Retry(max_attempts=3, first_delay=0.1))
