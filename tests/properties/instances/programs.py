"""The orchestrations and activities that the simulation runs, and other code deployed under the same names."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random
from typing import Any

from holdfast import App, Context, Retry
from holdfast.errors import SubOrchestrationFailed
from holdfast.orchestration.registry import Registry
from holdfast.worker.context import activity_context

#: The queue of the activity ``triple``, which refuses items for a while in some runs.
REFUSING_QUEUE = "refusing"
#: How long the activity ``slow`` takes, in seconds, and how many of its deliveries may come to no end.
SLOW_SECONDS = 40.0
SLOW_DELIVERIES = 5
#: Of all others: runs with many kills must not make them poison.
DELIVERIES = 10_000


class Record:
    """The activity calls of a run."""

    def __init__(self) -> None:
        #: How often each activity ran, by its idempotency key.
        self.ran: Counter[str] = Counter()
        #: The number of the process: code that iterates over a set sees another order in another process.
        self.process = 0

    def clear(self) -> None:
        self.ran.clear()
        self.process = 0


record = Record()

steady = App()
changing = App()
departed = App()
undeclared = App()
foreign = App()


@steady.activity(max_deliveries=DELIVERIES)
async def double(number: int) -> int:
    record.ran[activity_context().idempotency_key] += 1
    await asyncio.sleep(0.01 * number)
    return 2 * number


@steady.activity(queue=REFUSING_QUEUE, max_deliveries=DELIVERIES)
async def triple(number: int) -> int:
    record.ran[activity_context().idempotency_key] += 1
    return 3 * number


@steady.activity(max_deliveries=SLOW_DELIVERIES)
async def slow(number: int) -> int:
    record.ran[activity_context().idempotency_key] += 1
    await asyncio.sleep(SLOW_SECONDS)
    return number


@steady.activity(max_deliveries=DELIVERIES)
async def fail_at_first(number: int) -> int:
    if activity_context().attempt < 3:
        raise ValueError(f"not yet: {number}")
    return number


@steady.activity(max_deliveries=DELIVERIES)
async def fail(number: int) -> int:
    raise RuntimeError(f"never: {number}")


@steady.orchestration
async def in_a_row(ctx: Context, number: int) -> int:
    total = 0
    for step in range(number):
        total += await ctx.call(double, step)
        ctx.set_status({"step": step})
    return total


@steady.orchestration
async def side_by_side(ctx: Context, number: int) -> list[int]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ctx.call(double, step)) for step in range(number)]
    return [task.result() for task in tasks]


@steady.orchestration
async def on_two_queues(ctx: Context, number: int) -> list[int]:
    """Calls activities on two queues: a refusal of one must not repeat calls on the other."""
    calls = [call for step in range(number) for call in (ctx.call(double, step), ctx.call(triple, step))]
    return list(await asyncio.gather(*calls))


@steady.orchestration
async def patient(ctx: Context, number: int) -> list[Any]:
    began = ctx.now()
    await asyncio.sleep(number)
    try:
        async with asyncio.timeout(number):
            await ctx.event("never")
    except TimeoutError:
        pass
    waited = (ctx.now() - began).total_seconds()
    return [round(waited) >= 2 * number, await ctx.call(fail_at_first, number, retry=Retry(max_attempts=3))]


@steady.orchestration
async def family(ctx: Context, number: int) -> list[Any]:
    results = await asyncio.gather(
        *(ctx.sub(in_a_row, size) for size in range(number)), ctx.sub(failing, number), return_exceptions=True
    )
    return [type(result).__name__ if isinstance(result, Exception) else result for result in results]


@steady.orchestration
async def failing(ctx: Context, number: int) -> int:
    return await ctx.call(fail, number)


@steady.orchestration
async def again_and_again(ctx: Context, number: int) -> int:
    await ctx.call(double, number)
    if number:
        ctx.continue_as_new(number - 1)
    return ctx.execution_id


@steady.orchestration
async def long_winded(ctx: Context, number: int) -> int:
    """Waits for an activity that takes longer than many a worker lives."""
    return await ctx.call(slow, number)


@steady.orchestration(mailboxes=["letters"])
async def reader(ctx: Context, number: int) -> list[int]:
    return [await ctx.receive("letters", int) for _ in range(number)]


@steady.orchestration(mailboxes=["letters"])
async def delayed(ctx: Context, number: int) -> list[Any]:
    """Begins later, with a letter that came with its start, and sets tags in two executions."""
    if ctx.execution_id == 1:
        ctx.set_tags({"given": None, "first": "yes"})
        await ctx.call(double, number, priority=number)
        ctx.continue_as_new(number, version="latest")
    ctx.set_tags({"second": str(ctx.patched("second"))})
    return [await ctx.receive("letters", int) for _ in range(number + 1)]


@steady.orchestration(timeout_seconds=90)
async def limited(ctx: Context, number: int) -> None:
    """Waits for longer than it may; with an odd number it swallows the cancellation as well."""
    while True:
        try:
            await ctx.event("never")
        except asyncio.CancelledError:
            await ctx.call(double, number)
            if number % 2 == 0:
                raise


@steady.orchestration(retention_seconds=30)
async def forgotten(ctx: Context, number: int) -> int:
    return await ctx.call(double, number)


@steady.orchestration(mailboxes=["letters"])
async def collector(ctx: Context, given: dict[str, Any]) -> list[int]:
    """Takes one letter in each execution."""
    letters = [*given["letters"], (await ctx.receive("letters", dict))["number"]]
    if len(letters) < given["wanted"]:
        ctx.continue_as_new({"wanted": given["wanted"], "letters": letters})
    return letters


@steady.orchestration(requests=["number"])
async def asked(ctx: Context, given: dict[str, Any]) -> list[int]:
    """Answers numbers: in one execution, or each in one of its own."""
    numbers: list[int] = given["numbers"]
    while len(numbers) < given["wanted"]:
        request = await ctx.request("number", int)
        numbers.append(request.data)
        request.reply({"place": len(numbers), "number": request.data})
        if given["one_each"]:
            ctx.continue_as_new(given | {"numbers": numbers})
    return numbers


@steady.orchestration(mailboxes=["letters"])
async def perpetual(ctx: Context, number: int) -> None:
    """Goes on for ever, one execution for each letter."""
    await ctx.receive("letters")
    ctx.continue_as_new(number + 1)


@steady.orchestration
async def parent_of_perpetual(ctx: Context, children: list[str]) -> None:
    await asyncio.gather(*(ctx.sub(perpetual, 0, instance_id=child) for child in children))


@steady.orchestration
async def careless(ctx: Context, foreign_id: str) -> str:
    """Asks for a child under the id of an instance that is not its own, and ends soon."""
    child = asyncio.create_task(ctx.sub(reader, 1, instance_id=foreign_id))
    await asyncio.wait({child}, timeout=0.05)
    return SubOrchestrationFailed.__name__ if child.done() and child.exception() else "ended"


@steady.orchestration
async def unordered(ctx: Context, number: int) -> dict[str, list[Any]]:
    """Makes its calls in an order that each process has for itself, as code does that iterates over a set."""
    began = ctx.now()

    async def nap(seconds: int) -> bool:
        await asyncio.sleep(seconds)
        return (ctx.now() - began).total_seconds() >= seconds

    steps = list(range(number))
    Random(f"{record.process}:{ctx.instance_id}").shuffle(steps)
    async with asyncio.TaskGroup() as group:
        doubles = {step: group.create_task(ctx.call(double, step)) for step in steps}
        naps = {step: group.create_task(nap(10 * step)) for step in steps}
        children = {
            step: group.create_task(ctx.sub(in_a_row, step, instance_id=f"{ctx.instance_id[:240]}-{step}"))
            for step in steps
        }
    tasks = (doubles, naps, children)
    return {
        name: [answers[step].result() for step in range(number)]
        for name, answers in zip(("doubles", "naps", "children"), tasks, strict=True)
    }


@steady.orchestration
async def napper(ctx: Context, number: int) -> float:
    """Sleeps after two events: the sender of the events checks how long, by its own clock."""
    await ctx.event("first")
    await ctx.event("second")
    await asyncio.sleep(60)
    return 60.0


# Code that other deployments change


@changing.orchestration(mailboxes=["letters"])
async def settled(ctx: Context, number: int) -> list[int]:
    """Waits for an activity, then for letters."""
    return [await ctx.call(slow, number), *[await ctx.receive("letters", int) for _ in range(number)]]


@changing.orchestration(mailboxes=["letters"])
async def sleeper(ctx: Context, number: int) -> list[int]:
    """Waits for a timer, then for letters."""
    await asyncio.sleep(30)
    return [await ctx.receive("letters", int) for _ in range(number)]


@changing.orchestration(mailboxes=["letters"])
async def mailed(ctx: Context, number: int) -> list[int]:
    """Waits for letters from the beginning."""
    return [await ctx.receive("letters", int) for _ in range(number)]


@departed.orchestration(name="settled", mailboxes=["letters"])
async def departed_settled(ctx: Context, number: int) -> list[int]:
    await asyncio.sleep(1)
    return [await ctx.call(slow, number)]


@departed.orchestration(name="sleeper", mailboxes=["letters"])
async def departed_sleeper(ctx: Context, number: int) -> list[int]:
    return [await ctx.call(double, number)]


@undeclared.orchestration(name="mailed")
async def undeclared_mailed(ctx: Context, number: int) -> list[int]:
    return await mailed(ctx, number)


@foreign.activity
async def of_another_app(number: int) -> int:
    return number


@foreign.activity(queue=REFUSING_QUEUE)
async def of_another_app_too(number: int) -> int:
    return number


def _only(app: App, *names: str) -> Registry:
    chosen = Registry()
    for definition in app.registry.orchestrations:
        if definition.name in names:
            chosen.add_orchestration(definition)
    return chosen


FITTING = Registry.of([steady.registry, changing.registry])
#: Code that does not fit, and the orchestrations whose instances cannot go on under it.
UNFIT: dict[str, tuple[Registry, tuple[str, ...]]] = {
    "departed": (
        Registry.of([steady.registry, departed.registry, _only(changing, "mailed")]),
        ("settled", "sleeper"),
    ),
    "undeclared": (
        Registry.of([steady.registry, undeclared.registry, _only(changing, "settled", "sleeper")]),
        ("mailed",),
    ),
    "missing": (steady.registry, ("settled", "sleeper", "mailed")),
}
