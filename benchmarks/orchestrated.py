"""The orchestrations and activities of the benchmarks."""

from __future__ import annotations

import asyncio

from holdfast import App, Context

app = App()


@app.activity
async def step(number: int) -> int:
    return number


@app.orchestration
async def five(ctx: Context, number: int) -> int:
    for each in range(5):
        await ctx.call(step, each)
    return number


@app.orchestration
async def fan(ctx: Context, number: int) -> int:
    return len(await asyncio.gather(*(ctx.call(step, each) for each in range(number))))


@app.activity(idempotent=True)
async def once(number: int) -> int:
    return number


@app.orchestration(mailboxes=["notes"])
async def steady(ctx: Context, number: int) -> int:
    """A bit of everything that leaves something in the store."""
    await ctx.call(once, number)
    await ctx.receive("notes")
    return await ctx.sub(five, number)


@app.orchestration(mailboxes=["letters"])
async def reader(ctx: Context, number: int) -> int:
    """Takes one letter after the other: a turn for each."""
    for _ in range(number):
        await ctx.receive("letters")
    return number


@app.orchestration
async def idle(ctx: Context) -> None:
    await ctx.event("never")
