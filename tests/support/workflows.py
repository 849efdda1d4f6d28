"""Orchestrations for the tests: run by the server, and started by their functions."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time

from pydantic import BaseModel

from holdfast import App, Context, activity_context
from holdfast.errors import NonRetryable

app = App()
log = logging.getLogger(__name__)

BEGUN = "an activity has begun that lasts"


class Order(BaseModel):
    number: int
    lines: list[str]


class Receipt(BaseModel):
    number: int
    shipped: list[str]


@app.activity
async def ship(line: str) -> str:
    return f"{line} shipped"


@app.activity
def refuse(reason: str) -> None:
    raise NonRetryable(reason)


@app.activity
def block(seconds: float) -> None:
    log.warning(BEGUN)
    time.sleep(seconds)


@app.activity
async def linger() -> None:
    log.warning(BEGUN)
    await asyncio.sleep(3600)


@app.activity
async def ignore_cancellation() -> None:
    log.warning(BEGUN)
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(3600)


@app.activity
async def report(row: int) -> object:
    """Reports a row, and stays; the next run returns what it finds."""
    context = activity_context()
    if context.heartbeat_details is not None:
        return context.heartbeat_details
    context.heartbeat({"row": row})
    return await asyncio.sleep(3600)


@app.activity(queue="rarely-renewed", lock_seconds=300)
def report_in_thread() -> None:
    log.warning(BEGUN)
    while not activity_context().cancelled:
        activity_context().heartbeat()
        time.sleep(0.05)
    log.warning("an activity was cancelled")


@app.orchestration
async def reporting(ctx: Context, row: int) -> object:
    return await ctx.call(report, row)


@app.orchestration
async def reporting_in_thread(ctx: Context) -> None:
    await ctx.call(report_in_thread)


@app.orchestration
async def deaf(ctx: Context) -> None:
    await ctx.call(ignore_cancellation)


@app.orchestration
async def checkout(ctx: Context, order: Order) -> Receipt:
    return Receipt(number=order.number, shipped=await asyncio.gather(*(ctx.call(ship, line) for line in order.lines)))


@app.orchestration
async def failing(ctx: Context, reason: str) -> None:
    await ctx.call(refuse, reason)


@app.orchestration
async def approval(ctx: Context) -> str:
    ctx.set_status("waits")
    answer: str = await ctx.event("approved", str)
    return answer


@app.orchestration(mailboxes=["numbers"])
async def adding(ctx: Context, count: int) -> int:
    return sum([await ctx.receive("numbers", int) for _ in range(count)])


@app.orchestration(requests={"add": int})
async def cart(ctx: Context) -> int:
    """Takes numbers up to ten in all; after a zero it waits to be told what to reply."""
    total = 0
    while total < 10:
        request = await ctx.request("add")
        if request.data < 0:
            request.reject("Nothing can be taken out.")
        elif request.data == 0:
            request.reply(await ctx.event("go"))
        else:
            total += request.data
            request.reply({"total": total})
    return total


@app.orchestration
async def counting(ctx: Context, left: int = 3) -> int:
    if left:
        ctx.continue_as_new(left - 1)
    return ctx.execution_id


@app.orchestration
async def patience(ctx: Context) -> None:
    await ctx.call(linger)


@app.orchestration
async def stubborn(ctx: Context) -> None:
    await ctx.call(block, 3600.0)


@app.orchestration(name="greeting", version="1")
async def greeting_of_old(ctx: Context, name: str) -> str:
    return f"hello {name}"


@app.orchestration(version="2")
async def greeting(ctx: Context, name: str) -> str:
    return f"ahoy {name}"
