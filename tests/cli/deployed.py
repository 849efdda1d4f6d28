"""Orchestrations that wait, as they are deployed first."""

from __future__ import annotations

from holdfast import App, Context

app = App()


@app.activity
async def greet(name: str) -> str:
    return f"hello {name}"


@app.orchestration
async def approval(ctx: Context, name: str) -> str:
    greeting = await ctx.call(greet, name)
    await ctx.event("approved")
    return greeting


@app.orchestration
async def delivery(ctx: Context) -> str:
    await ctx.event("delivered")
    return "delivered"


@app.orchestration
async def reminder(ctx: Context, name: str) -> str:
    return await ctx.call(greet, name)
