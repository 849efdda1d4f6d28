"""Orchestrations of the tests of traces."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from holdfast import App, Context, Retry
from holdfast.errors import ActivityFailed
from holdfast.worker.context import activity_context

app = App()


@app.activity
async def add(number: int) -> int:
    return number + 1


@app.activity
async def fail() -> None:
    raise ValueError("the card of ann")


@app.activity
def traced(how: str) -> dict[str, Any]:
    """Returns the trace context that the activity sees, in its own context and in OpenTelemetry's."""
    from opentelemetry import trace

    span = trace.get_current_span().get_span_context()
    return {"given": activity_context().traceparent, "current": f"{span.trace_id:032x}-{span.span_id:016x}"}


@app.activity(queue="held", lock_seconds=1)
async def wait_for_file(name: str) -> str:
    """Runs until the file exists. A worker that is killed meanwhile loses its lock within a second."""
    file = Path(os.environ["ORCHESTRATED_FOLDER"]) / name
    file.with_suffix(".began").touch()
    while not file.exists():
        await asyncio.sleep(0.05)
    return name


@app.orchestration
async def child(ctx: Context, number: int) -> int:
    return await ctx.call(add, number)


@app.orchestration
async def order(ctx: Context, file: str) -> list[int]:
    """Activities in a row and in parallel, a retried failure, a child, a wait, an event, and more of them after it."""
    first = await ctx.call(add, 1)
    several = await asyncio.gather(*(ctx.call(add, first + number) for number in range(2)))
    with suppress(ActivityFailed):
        await ctx.call(fail, retry=Retry(max_attempts=2, first_delay=0.01, jitter=0))
    of_child = await ctx.sub(child, 10)
    await ctx.call(wait_for_file, file)
    approved = await ctx.event("approved")
    return [first, *several, of_child, await ctx.call(add, approved), await ctx.sub(child, 20)]


@app.orchestration
async def looks(ctx: Context) -> dict[str, Any]:
    return await ctx.call(traced, "")


@app.orchestration
async def fails(ctx: Context) -> None:
    raise ValueError("the card of ann")


@app.orchestration
async def rounds(ctx: Context, left: int) -> int:
    await ctx.call(add, left)
    if left:
        ctx.continue_as_new(left - 1)
    return left


@app.orchestration(requests=["price"])
async def answers(ctx: Context) -> None:
    asked = await ctx.request("price")
    asked.reply(7)
