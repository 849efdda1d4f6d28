"""The orchestrations that every stack serves. What their activities do is written down where the tests can read it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from holdfast import App, Context, Retry
from holdfast.errors import ActivityFailed, NonRetryable, SubOrchestrationFailed
from holdfast.worker.context import activity_context
from tests.behaviour import crash_points

FOLDER = Path(os.environ["ORCHESTRATED_FOLDER"])

app = App()
crash_points.install(FOLDER)


def effect(what: Any) -> None:
    context = activity_context()
    line = {
        "key": context.idempotency_key,
        "tenant_id": context.tenant_id,
        "instance_id": context.instance_id,
        "what": what,
    }
    with (FOLDER / "effects").open("a") as effects:
        effects.write(json.dumps(line) + "\n")


class Order(BaseModel):
    number: int
    lines: list[str] = []


class Receipt(BaseModel):
    number: int
    shipped: list[str]


# Activities


@app.activity
async def double(number: int) -> int:
    effect(number)
    return 2 * number


@app.activity
def thread_name() -> str:
    return threading.current_thread().name


@app.activity
async def ship(line: str) -> str:
    return f"{line} shipped"


@app.activity
async def fail() -> None:
    effect("failed")
    raise ValueError("it went wrong")


@app.activity
def refuse() -> None:
    effect("refused")
    raise NonRetryable("never")


@app.activity(timeout=0.2)
async def take_too_long() -> None:
    effect("began")
    await asyncio.sleep(3600)


@app.activity
async def give_no_json() -> Any:
    return object()


@app.activity
async def succeed_at_last() -> int:
    attempt = activity_context().attempt
    if attempt < 4:
        raise ValueError(f"attempt {attempt}")
    return attempt


@app.activity(queue="slow", lock_seconds=3)
async def linger() -> None:
    effect("began")
    try:
        await asyncio.sleep(3600)
    finally:
        effect("ended")


@app.activity(queue="held", lock_seconds=120, max_deliveries=1)
async def stay() -> None:
    effect("began")
    await asyncio.sleep(3600)


@app.activity(queue="deadly", lock_seconds=1, max_deliveries=2)
def kill_the_worker() -> None:
    effect("killed")
    os.kill(os.getpid(), signal.SIGKILL)


@app.activity(queue="counted", lock_seconds=5)
async def count(number: int) -> int:
    effect(number)
    return number


@app.activity
async def measure(text: str) -> int:
    return len(text)


@app.activity(queue="refusing")
async def refused_for_now(number: int) -> int:
    effect(number)
    return number


@app.activity(queue="once", lock_seconds=2, idempotent=True)
async def charge() -> str:
    effect("charged")
    return "charged"


@app.activity(queue="acked", lock_seconds=2)
async def hold() -> str:
    """Until the test says so."""
    effect("held")
    released = FOLDER / f"released-{activity_context().instance_id}"
    while not released.exists():
        await asyncio.sleep(0.02)
    return "held"


@app.activity(queue="prioritised")
async def note(text: str) -> None:
    effect(text)


@app.activity(queue="beating", lock_seconds=2)
async def copy() -> Any:
    """Reports how far it is, and fails; the next attempt returns what it finds."""
    context = activity_context()
    if context.heartbeat_details is not None:
        return context.heartbeat_details
    context.heartbeat({"copied": 1})
    context.heartbeat({"copied": 2})
    raise ValueError("the disk is full")


@app.activity(queue="beating", lock_seconds=2)
async def copy_and_stay() -> Any:
    """Reports how far it is, and stays; the next run returns what it finds."""
    context = activity_context()
    effect(context.heartbeat_details)
    if context.heartbeat_details is None:
        context.heartbeat({"copied": 12345678901234567890})
        await asyncio.sleep(3600)
    return context.heartbeat_details


@app.activity(queue="rarely-renewed", lock_seconds=300)
async def beat() -> None:
    effect("began")
    try:
        while True:
            activity_context().heartbeat()
            await asyncio.sleep(0.05)
    finally:
        effect("ended")


@app.activity(queue="rarely-renewed", lock_seconds=300)
def beat_in_thread() -> None:
    effect("began")
    while not activity_context().cancelled:
        activity_context().heartbeat(["still", "here"])
        time.sleep(0.05)
    effect("ended")


# Orchestrations


@app.orchestration
async def echo(ctx: Context, value: Any = None) -> Any:
    return value


@app.orchestration
async def typed(ctx: Context, order: Order) -> Receipt:
    shipped = await asyncio.gather(*(ctx.call(ship, line) for line in order.lines))
    return Receipt(number=order.number, shipped=shipped)


@app.orchestration(name="greeting", version="1")
async def first_greeting(ctx: Context) -> str:
    return "hello"


@app.orchestration(name="greeting", version="2")
async def second_greeting(ctx: Context) -> str:
    return "ahoy"


@app.orchestration
async def everything(ctx: Context) -> list[Any]:
    """Every event that one execution can have."""
    found: list[Any] = [await ctx.call(double, 4)]
    try:
        await ctx.call(refuse)
    except ActivityFailed as error:
        found.append(error.details["type"])
    await asyncio.sleep(0.05)
    found.append(await ctx.sub(echo, "child"))
    try:
        await ctx.sub(broken)
    except SubOrchestrationFailed as error:
        found.append(error.details["type"])
    ctx.set_status("waits")
    found.append(await ctx.event("go"))
    return found


@app.orchestration
async def waiting(ctx: Context) -> Any:
    """For an event of any kind."""
    ctx.set_status({"waits": True})
    return await ctx.event("go")


@app.orchestration
async def approval(ctx: Context) -> Order:
    return await ctx.event("approved", Order)


@app.orchestration(requests={"add-line": Order, "close": int})
async def cart(ctx: Context) -> list[int]:
    """Takes orders until it is closed; the price of an order takes an activity."""
    numbers: list[int] = []

    async def take() -> None:
        while True:
            request = await ctx.request("add-line")
            if request.data.number < 0:
                request.reject("A number is not negative.")
            else:
                numbers.append(request.data.number)
                request.reply({"price": await ctx.call(double, request.data.number)})

    taking = asyncio.create_task(take())
    closing = await ctx.request("close")
    taking.cancel()
    closing.reply(len(numbers))
    return numbers


@app.orchestration(requests=["number"])
async def numbering(ctx: Context, number: int) -> int:
    """Takes one request in each execution, until one is "end"."""
    request = await ctx.request("number")
    request.reply(number)
    if request.data != "end":
        ctx.continue_as_new(number + 1)
    return number


@app.orchestration(requests=["ask"])
async def thinking(ctx: Context) -> None:
    """Answers a request after the event ``go``."""
    request = await ctx.request("ask")
    request.reply(await ctx.event("go"))
    await ctx.event("never")


@app.orchestration(mailboxes={"orders": Order})
async def numbered(ctx: Context, number: int) -> list[int]:
    return [(await ctx.receive("orders")).number for _ in range(number)]


@app.orchestration(mailboxes=["letters"])
async def reading(ctx: Context, number: int) -> list[Any]:
    await ctx.event("go")
    return [await ctx.receive("letters") for _ in range(number)]


@app.orchestration(mailboxes=["letters"])
async def collecting(ctx: Context, collected: list[Any]) -> list[Any]:
    """Receives one letter in each execution, until one is "end"."""
    collected.append(await ctx.receive("letters"))
    if collected[-1] != "end":
        ctx.continue_as_new(collected)
    return collected


@app.orchestration(mailboxes=["letters"])
async def counting(ctx: Context, number: int) -> int:
    """Receives one letter in each execution, in order, until one is "end"."""
    letter = await ctx.receive("letters")
    if letter != "end":
        assert letter[0] == number, f"{letter[0]} came in place of {number}"
        ctx.continue_as_new(number + 1)
    return number


@app.orchestration
async def napping(ctx: Context, seconds: float) -> float:
    began = ctx.now()
    await asyncio.sleep(seconds)
    return (ctx.now() - began).total_seconds()


@app.orchestration
async def impatient(ctx: Context) -> str:
    try:
        async with asyncio.timeout(0.2):
            await ctx.event("never")
    except TimeoutError:
        return "gave up"
    return "got it"


@app.orchestration
async def fan_out(ctx: Context, number: int) -> int:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ctx.call(double, step)) for step in range(number)]
    return sum(task.result() for task in tasks)


@app.orchestration
async def trying(ctx: Context, activity: str) -> Any:
    """Up to four times, with 0.1, 0.2 and 0.4 seconds between."""
    try:
        return await ctx.call(activity, retry=Retry(max_attempts=4, first_delay=0.1, factor=2, jitter=0))
    except ActivityFailed as error:
        return error.details


@app.orchestration
async def calling(ctx: Context, activity: str) -> Any:
    return await ctx.call(activity)


@app.orchestration
async def broken(ctx: Context) -> None:
    raise RuntimeError("broken on purpose")


@app.orchestration
async def parent(ctx: Context, child: str) -> Any:
    return await ctx.sub(child, instance_id=f"{ctx.instance_id}-child")


@app.orchestration
async def starter(ctx: Context, child: str) -> str:
    return await ctx.sub(child, instance_id=f"{ctx.instance_id}-child", detached=True)


@app.orchestration
async def countdown(ctx: Context, left: int) -> dict[str, int]:
    await ctx.call(double, left)
    if left:
        ctx.continue_as_new(left - 1)
    return {"execution_id": ctx.execution_id}


@app.orchestration
async def noting(ctx: Context, text: str) -> None:
    """Three activities: with the priority of the instance, and with two of its own."""
    await asyncio.gather(
        ctx.call(note, text), ctx.call(note, f"{text} first", priority=0), ctx.call(note, f"{text} last", priority=9)
    )


@app.orchestration(mailboxes=["letters"])
async def scheduled(ctx: Context) -> list[Any]:
    return [ctx.now().isoformat(), await ctx.receive("letters")]


@app.activity(idempotent=True)
async def double_once(number: int) -> int:
    return 2 * number


@app.orchestration(retention_seconds=1.5)
async def forgotten(ctx: Context, child: str) -> int:
    ctx.set_status("x" * 2000)
    await ctx.sub("waiting", instance_id=child, detached=True)
    return await ctx.call(double_once, 21)


@app.orchestration
async def abandoning(ctx: Context, child: str) -> Any:
    return await ctx.sub(child, instance_id=f"{ctx.instance_id}-child", on_parent_end="abandon")


@app.orchestration(timeout_seconds=1.5)
async def in_a_hurry(ctx: Context, child: str) -> Any:
    """Cleans up when its time is over."""
    try:
        return await ctx.sub(child, instance_id=f"{ctx.instance_id}-child")
    finally:
        ctx.set_status(await ctx.call(double, 21))


@app.orchestration
async def tagging(ctx: Context) -> None:
    """Sets the tags in each event, and begins its next execution after every second one."""
    for _ in range(2):
        ctx.set_tags(await ctx.event("tags"))
    ctx.continue_as_new()


@app.orchestration
async def cleaning_up(ctx: Context) -> None:
    try:
        await ctx.event("never")
    except asyncio.CancelledError:
        ctx.set_status(await ctx.call(double, 21))
        raise


@app.orchestration
async def without_json(ctx: Context) -> Any:
    return object()


@app.orchestration
async def wrong_type(ctx: Context) -> int:
    return "no number"  # type: ignore[return-value]


@app.orchestration
async def spinning(ctx: Context) -> None:
    while True:
        await asyncio.sleep(0)


@app.activity
async def pack(order: str) -> str:
    """Fails until the test says that it is mended."""
    effect("packs")
    if not (FOLDER / f"mended-{order}").exists():
        raise ValueError("the press is jammed")
    return f"{order} packed"


@app.orchestration
async def packing(ctx: Context, order: str) -> list[Any]:
    ctx.set_tags({"stage": "packing"})
    first = await ctx.call(double, 4)
    return [first, await ctx.call(pack, order), ctx.instance_id]


@app.orchestration
async def steps(ctx: Context, number: int) -> int:
    first = await ctx.call(count, number)
    await asyncio.sleep(0.1)
    return first + sum(await asyncio.gather(ctx.call(count, number), ctx.call(count, number)))


@app.orchestration
async def charging(ctx: Context) -> list[int]:
    """Makes two calls, one to a queue that a test has filled."""
    return await asyncio.gather(ctx.call(count, 1), ctx.call(refused_for_now, 2))


@app.orchestration
async def giving_up(ctx: Context, child: str) -> str:
    try:
        await asyncio.wait_for(ctx.sub(waiting, instance_id=child), 0.2)
    except TimeoutError:
        return "gave up"
    return "got it"


@app.orchestration
async def heavy(ctx: Context, number: int) -> int:
    return sum(await asyncio.gather(*(ctx.call(measure, "x" * 500_000) for _ in range(number))))
