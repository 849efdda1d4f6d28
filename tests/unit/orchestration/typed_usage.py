"""An orchestration for the type checker; checked, never run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, assert_type

from holdfast import App, Context, Request, Retry

app = App()


@dataclass
class Order:
    id: int


@app.activity
async def charge(order: Order) -> str: ...
@app.activity(queue="gpu")
def draw(n: int) -> bytes: ...
@app.activity
async def tick() -> float: ...
@app.activity
def tock() -> int: ...
@app.orchestration
async def child(ctx: Context, n: int) -> list[int]: ...
@app.orchestration(mailboxes={"m": int}, requests={"r": Order})
async def main(ctx: Context) -> str:
    assert_type(await ctx.call(charge, Order(1), retry=Retry()), str)
    assert_type(await ctx.call(draw, 1), bytes)
    assert_type(await ctx.call(tick), float)
    assert_type(await ctx.call(tock), int)
    assert_type(await ctx.call("x", 1), Any)
    assert_type(await ctx.sub(child, 3), list[int])
    assert_type(await ctx.sub(child, 3, detached=True), str)
    assert_type(await ctx.sub("child", 3), Any)
    assert_type(await ctx.event("e", Order), Order)
    assert_type(await ctx.event("e"), Any)
    assert_type(await ctx.receive("m", int), int)
    assert_type(await ctx.request("r"), Request[Any])
    request = await ctx.request("r", Order)
    assert_type(request.data, Order)
    request.reply({"id": request.data.id})
    await ctx.call(charge, 5)  # type: ignore[arg-type]
    await ctx.call(charge)  # type: ignore[arg-type]
    await ctx.sub(child, "x")  # type: ignore[arg-type]
    ctx.continue_as_new(3)
