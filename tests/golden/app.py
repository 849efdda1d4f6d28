"""The app whose instances are in the golden store. Recorded instances replay this code: do not change what it does.

``GOLDEN_CHANGED`` deploys code that does not fit the instance ``blocked``. ``GOLDEN_HELD`` keeps the activity
``count_on`` from ending.
"""

from __future__ import annotations

import asyncio
import os

from pydantic import BaseModel

from holdfast import App, Context, Retry, activity_context

app = App()

LONG_SECONDS = 10 * 365 * 86400


class Order(BaseModel):
    id: int
    lines: list[str] = []


@app.activity
async def double(number: int) -> int:
    return 2 * number


@app.activity
async def fail(reason: str) -> None:
    raise ValueError(reason)


@app.activity(queue="full")
async def never_runs(text: str) -> None:
    pass


@app.activity
async def count_on() -> object:
    reported = activity_context().heartbeat_details
    if reported is None:
        activity_context().heartbeat({"counted": 1})
        raise ConnectionError("counts on later")
    if os.environ.get("GOLDEN_HELD"):
        activity_context().heartbeat({"counted": 2})
        await asyncio.Event().wait()
    return reported


@app.orchestration
async def child(ctx: Context, number: int) -> int:
    if number < 0:
        raise ValueError("negative")
    return await ctx.call(double, number)


@app.orchestration(mailboxes=["notes"], requests=["price"])
async def everything(ctx: Context, order: Order) -> dict[str, object]:
    ctx.set_status({"step": "begun"})
    ctx.set_tags({"customer": "acme", "batch": None})
    assert ctx.patched("golden")
    doubled = await asyncio.gather(*(ctx.call(double, number) for number in range(3)))
    failures = []
    try:
        await ctx.call(fail, "no stock", retry=Retry(max_attempts=2, first_delay=0.01, jitter=0))
    except Exception as error:
        failures.append(str(error))
    for number in (order.id, -1):
        try:
            doubled.append(await ctx.sub(child, number))
        except Exception as error:
            failures.append(str(error))
    await asyncio.sleep(0.01)
    approved = await ctx.event("approved")
    asked = await ctx.request("price")
    asked.reply({"price": 7})
    asked = await ctx.request("price")
    asked.reject("It is sold.")
    try:
        await ctx.receive("notes", int)
    except Exception as error:
        failures.append(type(error).__name__)
    note = await ctx.receive("notes")
    return {"doubled": doubled, "failures": failures, "approved": approved, "note": note}


@app.orchestration(mailboxes=["steps"])
async def rounds(ctx: Context, done: int) -> int:
    step = await ctx.receive("steps")
    if step != "stop":
        ctx.continue_as_new(done + 1)
    return done


@app.orchestration
async def large(ctx: Context, text: str) -> str:
    ctx.set_status(text)
    return text


@app.orchestration
async def broken(ctx: Context) -> None:
    try:
        await ctx.call(fail, "no stock")
    except Exception as error:
        raise ValueError("cannot ship") from error


@app.orchestration
async def crowded(ctx: Context, count: int) -> None:
    await asyncio.gather(*(ctx.call(never_runs, str(number) * 200) for number in range(count)))


@app.orchestration(mailboxes=["notes"])
async def waits(ctx: Context) -> list[object]:
    if os.environ.get("GOLDEN_CHANGED"):
        await asyncio.sleep(1)
    first = await ctx.event("first")
    async with asyncio.timeout(LONG_SECONDS):
        return [first, await ctx.receive("notes")]


@app.orchestration
async def reporting(ctx: Context) -> object:
    return await ctx.call(count_on, retry=Retry(max_attempts=2, first_delay=0.01, jitter=0))


@app.orchestration(timeout_seconds=1)
async def overdue(ctx: Context) -> None:
    await ctx.event("never")


@app.orchestration(version="1", timeout_seconds=LONG_SECONDS, retention_seconds=LONG_SECONDS)
async def varied(ctx: Context, started: list[str]) -> None:
    started.append(await ctx.sub(child, 1, detached=True))
    left = asyncio.create_task(ctx.sub(waits, instance_id="abandoned", on_parent_end="abandon"))
    await asyncio.wait([left], timeout=0.01)
    ctx.continue_as_new(started, version="2")


@app.orchestration(name="varied", version="2", timeout_seconds=LONG_SECONDS, retention_seconds=LONG_SECONDS)
async def varied_again(ctx: Context, started: list[str]) -> int:
    return len(started)
