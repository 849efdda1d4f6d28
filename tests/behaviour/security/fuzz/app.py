"""The orchestrations of a server that is fuzzed."""

from __future__ import annotations

import logging
from typing import Any

from holdfast import App, Context
from holdfast.gateway.metrics import event_loop
from tests.behaviour.security.fuzz.server import PAUSED
from tests.behaviour.security.fuzz.stacks import StackSampler

app = App()
StackSampler().start(logging.getLogger(event_loop.__name__))


@app.activity
async def repeat(value: Any) -> Any:
    return value


@app.activity(queue=PAUSED)
async def never_run(value: Any) -> Any:
    """Its queue is paused: it is awaited until a request reports an outcome."""
    return value


@app.orchestration
async def echo(ctx: Context, value: Any = None) -> Any:
    return await ctx.call(repeat, value)


@app.orchestration
async def waiting(ctx: Context, value: Any = None) -> Any:
    """Ends after the event ``go``."""
    return [value, await ctx.event("go")]


@app.orchestration
async def beating(ctx: Context, value: Any = None) -> Any:
    """Calls an activity as the second event of its history, for which requests send heartbeats."""
    return await ctx.call(never_run, value)


@app.orchestration
async def failing(ctx: Context, value: Any = None) -> None:
    raise ValueError(value)


@app.orchestration
async def parent(ctx: Context, value: Any = None) -> Any:
    return await ctx.sub(waiting, value)


@app.orchestration(requests=["add"])
async def serving(ctx: Context, value: Any = None) -> int:
    """Answers requests with what they sent, and refuses null, until one is the string ``stop``."""
    answered = 0
    while True:
        request = await ctx.request("add")
        if request.data is None:
            request.reject("There is nothing to add.")
        else:
            request.reply(request.data)
        answered += 1
        if request.data == "stop":
            return answered


@app.orchestration(mailboxes=["letters"])
async def reader(ctx: Context, value: Any = None) -> int:
    """Receives letters until one is the string ``stop``."""
    received = 0
    while await ctx.receive("letters") != "stop":
        received += 1
    return received
