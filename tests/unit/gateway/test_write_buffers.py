"""Answers that are not read: how long and how much of them is kept, and whose are dropped first."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.gateway.middleware.write_buffers import CHECK_SECONDS, MIN_TAKEN, WriteBuffers

SECONDS = 30.0
MOST = 1000 * MIN_TAKEN


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Reader:
    """A connection, by what its peer has left unread."""

    def __init__(self, unsent: int, tenant: str = "acme") -> None:
        self.unsent = unsent
        self.tenant = tenant
        self.reason: str | None = None

    def break_off(self, reason: str) -> None:
        self.reason = reason


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def buffers(clock: Clock) -> WriteBuffers:
    return WriteBuffers(SECONDS, MOST, clock)


async def test_a_peer_that_takes_nothing_is_left_after_a_while(buffers: WriteBuffers, clock: Clock) -> None:
    reader = Reader(10 * MIN_TAKEN)
    buffers.add(reader)
    clock.now += SECONDS - 1
    buffers.check()
    assert reader.reason is None
    clock.now += 1
    buffers.check()
    assert reader.reason == "its client read less than 65536 bytes in 30 s"


async def test_so_is_one_that_takes_a_byte_now_and_then(buffers: WriteBuffers, clock: Clock) -> None:
    reader = Reader(10 * MIN_TAKEN)
    buffers.add(reader)
    while clock.now < SECONDS:
        clock.now += 1
        reader.unsent -= 1
        buffers.check()
    assert reader.reason is not None


async def test_a_slow_peer_gets_all_of_it(buffers: WriteBuffers, clock: Clock) -> None:
    reader = Reader(10 * MIN_TAKEN)
    buffers.add(reader)
    while reader.unsent:
        clock.now += SECONDS - 1
        reader.unsent -= MIN_TAKEN
        buffers.check()
    assert reader.reason is None
    buffers.discard(reader)
    clock.now += 10 * SECONDS
    buffers.check()
    assert reader.reason is None


async def test_what_is_too_much_together_is_dropped_where_it_is_read_most_slowly(
    buffers: WriteBuffers, clock: Clock
) -> None:
    quick, stuck, new = (Reader(400 * MIN_TAKEN) for _ in range(3))
    buffers.add(quick)
    clock.now += 1
    buffers.add(stuck)
    clock.now += 1
    quick.unsent -= MIN_TAKEN
    buffers.add(new)
    assert stuck.reason == f"all unread answers together had more than {MOST} bytes"
    assert (quick.reason, new.reason) == (None, None)


async def test_a_tenant_with_little_loses_nothing_to_one_with_much(buffers: WriteBuffers, clock: Clock) -> None:
    honest = Reader(100 * MIN_TAKEN, "honest")
    buffers.add(honest)
    readers = [Reader(90 * MIN_TAKEN, "attacker") for _ in range(100)]
    for reader in readers:
        clock.now += 0.1
        buffers.add(reader)
    assert honest.reason is None
    assert [reader.reason is None for reader in readers] == [False] * 90 + [True] * 10


async def test_they_are_looked_at_without_being_asked() -> None:
    buffers = WriteBuffers(0.0)
    reader = Reader(MIN_TAKEN)
    buffers.add(reader)
    async with asyncio.timeout(20 * CHECK_SECONDS):
        while reader.reason is None:
            await asyncio.sleep(0.01)
