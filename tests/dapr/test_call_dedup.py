"""A call that is made again is given what the first one came to."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from holdfast import errors
from holdfast.runtime.dapr.call_dedup import CallDeduplicator

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class Turns:
    """Counts how often it was run. A turn waits until the test sets its result."""

    def __init__(self) -> None:
        self.run = 0
        self.end: asyncio.Queue[bytes | Exception] = asyncio.Queue()

    async def __call__(self) -> bytes:
        self.run += 1
        # As long as one that was held up.
        await asyncio.sleep(0.03)
        outcome = await self.end.get()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


def caller(there: bool) -> Callable[[], Awaitable[bool]]:
    async def is_there() -> bool:
        return there

    return is_there


async def test_while_the_first_runs_the_second_waits_for_it() -> None:
    repeats, turns = CallDeduplicator(), Turns()
    async with asyncio.TaskGroup() as together:
        answers = [together.create_task(repeats.once("call", turns, caller(there=False))) for _ in range(3)]
        turns.end.put_nowait(b"1")
    assert [answer.result() for answer in answers] == [b"1"] * 3
    assert turns.run == 1


async def test_what_nobody_heard_is_told_to_the_second() -> None:
    repeats, turns = CallDeduplicator(), Turns()
    turns.end.put_nowait(b"1")
    assert await repeats.once("call", turns, caller(there=False)) == b"1"
    assert await repeats.once("call", turns, caller(there=True)) == b"1"
    assert turns.run == 1


async def test_what_was_heard_is_not_kept() -> None:
    repeats, turns = CallDeduplicator(), Turns()
    turns.end.put_nowait(b"1")
    turns.end.put_nowait(b"2")
    assert await repeats.once("call", turns, caller(there=True)) == b"1"
    assert await repeats.once("call", turns, caller(there=True)) == b"2"


async def test_a_first_that_changed_nothing_is_tried_again() -> None:
    repeats, turns = CallDeduplicator(), Turns()
    turns.end.put_nowait(errors.ActorMoved())
    turns.end.put_nowait(b"2")
    first, second = await asyncio.gather(
        *(repeats.once("call", turns, caller(there=False)) for _ in range(2)), return_exceptions=True
    )
    assert isinstance(first, errors.ActorMoved)
    assert second == b"2"


async def test_an_error_of_the_actor_is_the_answer_to_both() -> None:
    repeats, turns = CallDeduplicator(), Turns()
    turns.end.put_nowait(errors.NotFound())
    outcomes = await asyncio.gather(
        *(repeats.once("call", turns, caller(there=False)) for _ in range(2)), return_exceptions=True
    )
    assert [type(outcome) for outcome in outcomes] == [errors.NotFound] * 2
    assert turns.run == 1


async def test_a_second_that_gives_up_leaves_the_first_alone() -> None:
    repeats, turns = CallDeduplicator(), Turns()
    first = asyncio.create_task(repeats.once("call", turns, caller(there=True)))
    second = asyncio.create_task(repeats.once("call", turns, caller(there=True)))
    await asyncio.sleep(0)
    second.cancel()
    turns.end.put_nowait(b"1")
    assert await first == b"1"
    with pytest.raises(asyncio.CancelledError):
        await second


async def test_much_that_nobody_heard_does_not_fill_the_memory() -> None:
    repeats = CallDeduplicator()
    run: list[int] = []
    for number in range(40):

        async def answer(number: int = number) -> bytes:
            run.append(number)
            await asyncio.sleep(0.03)
            return bytes(1024 * 1024)

        await repeats.once(number, answer, caller(there=False))

    async def again() -> bytes:
        run.append(-1)
        return b""

    assert await repeats.once(39, again, caller(there=True)) != b""
    assert await repeats.once(0, again, caller(there=True)) == b""
    assert run == [*range(40), -1]
