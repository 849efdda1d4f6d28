"""An app with the things that the page shows: retries, children, waits, requests, tags, failures, kinds of input."""

from __future__ import annotations

import asyncio
from typing import Literal

from pydantic import BaseModel, Field

from holdfast import App, Context, Retry

app = App()

HTML = '<img src=x onerror="window.stolen = 1"><script>window.stolen = 1</script><b>bold</b>'


class Order(BaseModel):
    customer: str = Field(description="Who ordered it.")
    many: int = 1
    speed: Literal["slow", "fast"] = "slow"
    gift: bool = False
    note: str | None = None
    lines: list[str] = []


_attempts: dict[str, int] = {}
_mended: set[str] = set()


@app.activity
def fails_once(key: str) -> str:
    _attempts[key] = _attempts.get(key, 0) + 1
    if _attempts[key] == 1:
        raise ConnectionError(f"refused {HTML}")
    return "done"


@app.activity
def fails(customer: str) -> str:
    if customer in _mended:
        return f"{customer} is there"
    try:
        raise KeyError(customer)
    except KeyError as error:
        raise ValueError(f"no customer {customer}") from error


@app.activity
async def hold(seconds: float) -> None:
    await asyncio.sleep(seconds)


@app.activity
async def rent_car(customer: str) -> str:
    await asyncio.sleep(1.3)
    return f"a car for {customer}"


@app.orchestration
async def hotel(ctx: Context, customer: str) -> str:
    await ctx.call(hold, 0.6)
    return f"a room for {customer}"


@app.orchestration
async def part(ctx: Context, name: str) -> str:
    return f"{name} is ready"


@app.orchestration(mailboxes=["notes"], requests=["add-line"])
async def cart(ctx: Context, order: Order) -> list[str]:
    """Waits for requests until a line is called "end"."""
    ctx.set_tags({"customer": order.customer})
    retry = Retry(max_attempts=3, first_delay=0.01)
    await asyncio.gather(ctx.call(fails_once, ctx.instance_id, retry=retry), ctx.sub(part, "wheel"))
    lines: list[str] = []
    while "end" not in lines:
        request = await ctx.request("add-line", str)
        if request.data in lines:
            request.reject(f"{request.data} is there")
        else:
            lines.append(request.data)
            request.reply({"lines": len(lines)})
    return lines


@app.orchestration
async def travel(ctx: Context, order: Order) -> None:
    """Books several things at once, one of them at the second attempt, and waits for a person."""
    ctx.set_tags({"customer": order.customer, "team": "blue"})
    await ctx.call(hold, 0.4)
    flight = ctx.call(fails_once, f"{ctx.instance_id} flight", retry=Retry(first_delay=0.8))
    await asyncio.gather(flight, ctx.call(rent_car, order.customer), ctx.sub(hotel, order.customer))
    ctx.set_status("waits for the traveller")
    async with asyncio.timeout(86400):
        await ctx.event("confirmed")


@app.activity
def mend(customer: str) -> None:
    _mended.add(customer)


@app.orchestration
async def mending(ctx: Context, customer: str) -> None:
    """Makes the activity `fails` succeed for this customer from now on."""
    await ctx.call(mend, customer)


@app.orchestration
async def failing(ctx: Context, order: Order) -> str:
    return await ctx.call(fails, order.customer)


@app.orchestration
async def holding(ctx: Context, seconds: float) -> None:
    await ctx.call(hold, seconds)


@app.orchestration
async def report(ctx: Context, order: Order | None) -> None: ...
