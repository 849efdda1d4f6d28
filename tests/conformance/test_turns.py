"""Calls to one actor run one at a time, in order of arrival; different actors run side by side."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.conformance.hosts import on_every_host
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.stacks.base import Stack


@on_every_host
async def test_turns_of_one_actor_never_overlap(stack: Stack) -> None:
    await asyncio.gather(*(stack.call("Recorder", "overlap", "record", str(n)) for n in range(20)))
    log = await stack.call("Recorder", "overlap", "log")
    begun, ended = log[0::2], log[1::2]
    assert [entry.removeprefix("begin ") for entry in begun] == [entry.removeprefix("end ") for entry in ended]
    assert sorted(begun) == sorted(f"begin {n}" for n in range(20))


@on_every_host
async def test_calls_run_in_order_of_arrival(stack: Stack) -> None:
    held = asyncio.create_task(stack.call("Recorder", "order", "hold", "order"))
    await eventually(lambda: stack.call("Porter", "order", "awaited", "order"))
    waiting = []
    for n in range(8):
        waiting.append(asyncio.create_task(stack.call("Recorder", "order", "record", str(n))))
        # When a request has arrived cannot be seen from outside while the actor is busy.
        await asyncio.sleep(0.1)
    await stack.call("Porter", "order", "open", "order")
    await asyncio.gather(held, *waiting)
    log = await stack.call("Recorder", "order", "log")
    assert log == [f"{edge} {name}" for name in ("order", *map(str, range(8))) for edge in ("begin", "end")]


@on_every_host
async def test_different_actors_run_side_by_side(stack: Stack) -> None:
    party = {"name": "everyone", "size": 16}
    await asyncio.gather(*(stack.call("Guest", f"guest-{n}", "meet", party) for n in range(16)))


@on_every_host
async def test_actors_of_one_id_and_different_types_are_different_actors(stack: Stack) -> None:
    await stack.call("Shelf", "same", "put", {"value": "a shelf's"})
    await stack.call("Keeper", "same", "put", {"value": "a keeper's"})
    assert await stack.call("Shelf", "same", "get", "value") == ["a shelf's"]
    assert await stack.call("Keeper", "same", "get", "value") == ["a keeper's"]


@on_every_host
async def test_an_actor_calls_another(stack: Stack) -> None:
    add = {"type": "Counter", "id": "called", "method": "Add", "data": 5}
    assert await stack.call("Caller", "calling", "relay", add) == 5
    get = {"type": "Counter", "id": "called", "method": "Get"}
    relay = {"type": "Caller", "id": "between", "method": "relay", "data": get}
    assert await stack.call("Caller", "calling", "relay", relay) == 5


@on_every_host
async def test_an_increment_is_never_lost_between_callers(stack: Stack) -> None:
    replies = await asyncio.gather(*(stack.call("Counter", "shared", "Add", 1) for _ in range(25)))
    assert sorted(replies) == list(range(1, 26))
    replies = await asyncio.gather(*(stack.call("Ledger", "shared", "add", 1) for _ in range(25)))
    assert sorted(replies) == list(range(1, 26))
