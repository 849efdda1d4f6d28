"""Calls from one turn to another end, whatever the other does."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from holdfast.errors import Unavailable
from holdfast.runtime.contract import ActorAddress
from holdfast.runtime.in_process.turns import Turns
from holdfast.runtime.simulated import VirtualTimeLoop

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

A, B = ActorAddress("Actor", "a"), ActorAddress("Actor", "b")


async def nothing(_address: ActorAddress) -> None:
    pass


def with_turns(body: Callable[[Turns], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    async def run() -> None:
        turns = Turns(deactivate=nothing, is_needed=lambda _: False, idle_timeout=1e6, call_timeout=60.0)
        await body(turns)
        await turns.stop(1000)

    return lambda: VirtualTimeLoop.run(run())


def passed() -> float:
    return asyncio.get_running_loop().time()


@with_turns
async def test_two_that_call_each_other_at_once_hear_of_it(turns: Turns) -> None:
    begun: list[ActorAddress] = []

    async def answer() -> None:
        begun.append(A)

    def call(other: ActorAddress) -> Callable[[], Coroutine[Any, Any, None]]:
        async def action() -> None:
            await asyncio.sleep(1)
            await turns.run(other, answer)

        return action

    outcomes = await asyncio.gather(turns.run(A, call(B)), turns.run(B, call(A)), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [Unavailable, Unavailable]
    assert "did not reply within 60 s" in str(outcomes[0])
    assert passed() == 61
    assert begun == []  # neither was begun, so both were taken back
    assert await turns.run(A, lambda: asyncio.sleep(0, "goes on")) == "goes on"


@with_turns
async def test_a_turn_that_has_begun_is_finished(turns: Turns) -> None:
    ended: list[float] = []

    async def slow() -> None:
        await asyncio.sleep(100)
        ended.append(passed())

    with pytest.raises(Unavailable):
        await turns.run(A, lambda: turns.run(B, slow))
    assert passed() == 60
    await turns.run(B, lambda: asyncio.sleep(0))
    assert ended == [100]


@with_turns
async def test_each_call_waits_for_as_long_as_the_others(turns: Turns) -> None:
    def wait(seconds: float) -> Coroutine[Any, Any, float]:
        return asyncio.sleep(seconds, seconds)

    async def action() -> tuple[Any, ...]:
        async def later() -> Any:
            await asyncio.sleep(30)
            return await turns.run(ActorAddress("Actor", "later"), lambda: wait(59))

        return await asyncio.gather(
            turns.run(ActorAddress("Actor", "short"), lambda: wait(1)),
            turns.run(ActorAddress("Actor", "long"), lambda: wait(1000)),
            later(),
            return_exceptions=True,
        )

    short, long, later = await turns.run(A, action)
    assert (short, later) == (1, 59)
    assert isinstance(long, Unavailable)


@with_turns
async def test_a_call_from_outside_waits_for_as_long_as_it_takes(turns: Turns) -> None:
    assert await turns.run(A, lambda: asyncio.sleep(1000, "done")) == "done"
