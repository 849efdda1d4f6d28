"""``kill -9`` in the middle of a storm of writes: what was acknowledged is there, and no turn is half saved."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.conformance.hosts import DAPR, on_every_host, on_hosts
from tests.support.stacks.actors import PARTS
from tests.support.stacks.base import CallFailed
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.support.stacks.base import Stack
    from tests.support.stacks.daprd import DaprStack

ROUNDS = 3


@dataclass
class Writer:
    """Writes 1, 2, 3, … into one ledger, whatever happens to the calls."""

    stack: Stack
    ledger: str
    tried: int = 0
    acknowledged: int = 0

    async def run(self) -> None:
        while True:
            self.tried += 1
            try:
                self.acknowledged = await self.stack.call("Ledger", self.ledger, "write", self.tried)
            except CallFailed:
                await asyncio.sleep(0.05)

    async def check(self) -> None:
        read = await self.stack.call("Ledger", self.ledger, "read")
        assert len(set(read)) == 1, f"{self.ledger} reads {read}"
        assert self.acknowledged <= (read[0] or 0) <= self.tried
        stored = await self.stack.stored("Ledger", self.ledger)
        assert stored == (dict(zip(PARTS, read, strict=True)) if read[0] else {})


async def storm(stack: Stack, kill: Callable[[], Awaitable[None]], start: Callable[[], Awaitable[None]]) -> None:
    writers = [Writer(stack, f"{kill.__name__}-{n}") for n in range(6)]
    for _ in range(ROUNDS):
        before = [writer.acknowledged for writer in writers]
        tasks = [asyncio.create_task(writer.run()) for writer in writers]
        try:
            await eventually(_all_past(writers, [count + 10 for count in before]), within=60)
            await kill()
            await start()
            await eventually(_all_past(writers, [writer.acknowledged + 1 for writer in writers]), within=60)
        finally:
            for task in tasks:
                task.cancel()
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes), outcomes
        for writer in writers:
            # A call given up by its caller still counts among those tried.
            await eventually(_settled(writer))
            await writer.check()


def _all_past(writers: list[Writer], marks: list[int]) -> Callable[[], Awaitable[bool]]:
    async def reached() -> bool:
        return all(writer.acknowledged >= mark for writer, mark in zip(writers, marks, strict=True))

    return reached


def _settled(writer: Writer) -> Callable[[], Awaitable[bool]]:
    async def answers() -> bool:
        return bool(await writer.stack.call("Ledger", writer.ledger, "read"))

    return answers


@on_every_host
async def test_transactions_are_whole_when_the_app_is_killed(stack: Stack) -> None:
    await storm(stack, stack.kill_app, stack.start_app)


@on_hosts(*DAPR)
async def test_transactions_are_whole_when_daprd_is_killed(stack: DaprStack) -> None:
    await storm(stack, stack.kill_daprd, stack.start_daprd)


@on_every_host
async def test_a_writer_that_counts_in_its_own_state_never_goes_back(stack: Stack) -> None:
    acknowledged = 0
    for _ in range(2):
        for _ in range(5):
            count = await stack.call("Ledger", "counting", "add", 1)
            assert count == acknowledged + 1
            acknowledged = count
        await stack.kill_app()
        await stack.start_app()
    assert await stack.stored("Ledger", "counting") == dict.fromkeys(PARTS, acknowledged)
