"""Bulkheads: the concurrent work of one tenant is bounded, and delays no other tenant."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.errors import RateLimited
from holdfast.gateway.bulkhead import Bulkhead


async def test_one_tenant_waits_for_itself_alone() -> None:
    bulkhead = Bulkhead(2)
    inside: list[str] = []
    leave = asyncio.Event()

    async def call(tenant: str) -> None:
        async with bulkhead.enter(tenant):
            inside.append(tenant)
            await leave.wait()

    async with asyncio.TaskGroup() as group:
        for tenant in ("attacker",) * 5 + ("honest",):
            group.create_task(call(tenant))
        await asyncio.sleep(0)
        assert inside == ["attacker", "attacker", "honest"]
        leave.set()
    assert inside.count("attacker") == 5


async def test_what_would_wait_too_is_refused_and_may_come_back() -> None:
    bulkhead = Bulkhead(1, waiting=1)

    async def wait() -> None:
        async with bulkhead.enter("acme"):
            pass

    async with bulkhead.enter("acme"):
        waiting = asyncio.create_task(wait())
        await asyncio.sleep(0)
        with pytest.raises(RateLimited) as refused:
            await wait()
        assert refused.value.details["retry_after"] == 1
    await waiting
    await wait()


async def test_whoever_gives_up_waiting_leaves_no_trace() -> None:
    bulkhead = Bulkhead(1, waiting=0)
    with pytest.raises(TimeoutError):
        async with bulkhead.enter("acme"), asyncio.timeout(0):
            await asyncio.sleep(1)
    assert not bulkhead._compartments


async def test_a_call_may_need_the_room_of_several_and_is_not_passed_by_smaller_ones() -> None:
    bulkhead = Bulkhead(10)
    entered: list[int] = []

    async def call(room: int, leave: asyncio.Event) -> None:
        async with bulkhead.enter("acme", room):
            entered.append(room)
            await leave.wait()

    first, others = asyncio.Event(), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(call(6, first))
        for room in (7, 1, 100):
            group.create_task(call(room, others))
        await asyncio.sleep(0)
        assert entered == [6]
        first.set()
        while len(entered) < 3:
            await asyncio.sleep(0)
        # What needs more than there is, needs all of it.
        assert entered == [6, 7, 1]
        others.set()
    assert entered == [6, 7, 1, 100]
    assert not bulkhead._compartments


async def test_smaller_ones_enter_when_a_larger_one_before_them_gives_up() -> None:
    bulkhead = Bulkhead(10)
    async with bulkhead.enter("acme", 6):
        large = asyncio.create_task(_enter(bulkhead, 7))
        small = asyncio.create_task(_enter(bulkhead, 2))
        await asyncio.sleep(0)
        assert not small.done()
        large.cancel()
        async with asyncio.timeout(10):
            await small
    assert not bulkhead._compartments


async def _enter(bulkhead: Bulkhead, room: int) -> None:
    async with bulkhead.enter("acme", room):
        pass
