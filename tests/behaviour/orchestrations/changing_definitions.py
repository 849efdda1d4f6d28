"""Orchestrations whose code changes between two starts, as named in a file that the tests write."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

from pydantic import BaseModel, create_model

from holdfast import App, Context
from holdfast.worker.context import activity_context
from tests.behaviour.orchestrations.redeployment import FILE

FOLDER = Path(os.environ["ORCHESTRATED_FOLDER"])
DEPLOYED: dict[str, Any] = json.loads((FOLDER / FILE).read_text()) if (FOLDER / FILE).exists() else {}
WITHOUT: list[str] = DEPLOYED.get("without", [])
MAILBOXES: list[str] = DEPLOYED.get("mailboxes", ["parcels"])
REQUESTS: list[str] = DEPLOYED.get("requests", ["ask"])

app = App()


@app.activity(queue="deployed", lock_seconds=2)
async def price(item: Any) -> str:
    """The price of an item, when the test says so."""
    released = FOLDER / f"released-{activity_context().instance_id}"
    while not released.exists():
        await asyncio.sleep(0.02)
    return f"price of {item}"


@app.activity(queue="deployed", lock_seconds=2)
async def quick(item: Any) -> str:
    return f"price of {item}"


def orchestration(function: Any) -> Any:
    """Declares it, unless this deploy does not have it."""
    return (
        function
        if function.__name__ in WITHOUT
        else app.orchestration(mailboxes=MAILBOXES, requests=REQUESTS)(function)
    )


@orchestration
async def quote(ctx: Context, item: str) -> str:
    """Makes one slow call; another deploy makes another call."""
    return await ctx.call("quick" if "departed" in DEPLOYED else price, item)


@orchestration
async def quote_set(ctx: Context, items: list[str]) -> dict[str, str]:
    unordered = set(items)
    prices = await asyncio.gather(*(ctx.call(price, item) for item in unordered))
    return dict(zip(unordered, prices, strict=True))


@orchestration
async def quote_set_in_turn(ctx: Context, items: list[str]) -> dict[str, str]:
    return {item: await ctx.call(price, item) for item in set(items)}


@orchestration
async def quote_model(ctx: Context, numbers: list[int]) -> dict[str, str]:
    """Another deploy has a model with one field more."""
    new = {"currency": "EUR"} if "field" in DEPLOYED else {}
    prices = await asyncio.gather(*(ctx.call(price, {"number": number, **new}) for number in numbers))
    return dict(zip(map(str, numbers), prices, strict=True))


@orchestration
async def quote_patched(ctx: Context, item: str) -> str:
    """Makes one slow call; a patched deploy makes a quick one before it."""
    if "patched" in DEPLOYED and ctx.patched("2026-12-quick"):
        item = await ctx.call(quick, item)
    return await ctx.call(price, item)


#: Another deploy has a field more, which has no default.
Order: Any = create_model("Order", item=(str, ...), **{"day": (str, ...)} if "required" in DEPLOYED else {})


@orchestration
async def order(ctx: Context, given: Order) -> str:
    await ctx.event("go")
    return str(given.item)


class State(BaseModel):
    number: int


@app.orchestration(name="perpetual", version="1")
async def perpetual(ctx: Context, number: int) -> None:
    version = await ctx.event("go")
    ctx.continue_as_new({"number": number}, version=version)


if "perpetual" not in WITHOUT:

    @app.orchestration(name="perpetual", version="2")
    async def perpetual_next(ctx: Context, given: State) -> list[Any]:
        return [2, given.number, ctx.execution_id]


@orchestration
async def collect(ctx: Context, number: int) -> list[Any]:
    await ctx.event("ready")
    return [await ctx.receive("parcels") for _ in range(number)]


@orchestration
async def offspring(ctx: Context) -> Any:
    return await ctx.event("enough")


@orchestration
async def ancestor(ctx: Context) -> Any:
    return await ctx.sub("offspring", instance_id=f"{ctx.instance_id}-child")


@orchestration
async def answering(ctx: Context) -> None:
    number = 0
    while True:
        request = await ctx.request("ask")
        request.reply(number)
        number += 1
