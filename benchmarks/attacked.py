"""Orchestrations that an attacker and an honest tenant run on one server."""

from __future__ import annotations

import asyncio

from holdfast import App, Context

app = App()


@app.activity(queue="slow")
async def slow() -> None:
    """Runs so long that an attacker can report a false outcome first."""
    await asyncio.sleep(600)


@app.activity
async def repeat(text: str) -> str:
    return text


@app.orchestration
async def echo(ctx: Context, text: str) -> str:
    return await ctx.call(repeat, text)


@app.orchestration
async def waiting(ctx: Context) -> None:
    await ctx.call(slow)
    await ctx.event("never")


@app.orchestration
async def idle(ctx: Context, text: str) -> None:
    await ctx.event("never")


@app.orchestration
async def typed(ctx: Context, numbers: list[int]) -> int:
    return sum(numbers)


@app.orchestration(mailboxes=["letters"])
async def hoarder(ctx: Context) -> None:
    """Receives nothing of what it is sent."""
    await ctx.event("never")


@app.orchestration(mailboxes=["letters"])
async def reader(ctx: Context, letters: int) -> int:
    """Receives so many letters, of whatever size."""
    received = 0
    while received < letters:
        await ctx.receive("letters")
        received += 1
    return received
