"""Work that computes for long is admitted one piece at a time, and tenants take turns."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.gateway.turnstile import Turnstile


async def test_one_piece_runs_in_each_pass_of_the_event_loop() -> None:
    turnstile = Turnstile()
    passes = 0
    admitted_in: list[int] = []

    async def work() -> None:
        await turnstile.wait("acme")
        admitted_in.append(passes)

    tasks = [asyncio.create_task(work()) for _ in range(5)]
    while not all(task.done() for task in tasks):
        await asyncio.sleep(0)
        passes += 1
    assert len(set(admitted_in)) == 5


async def test_a_tenant_with_one_piece_does_not_wait_for_all_of_another() -> None:
    turnstile = Turnstile()
    admitted: list[str] = []

    async def work(tenant: str) -> None:
        await turnstile.wait(tenant)
        admitted.append(tenant)

    async with asyncio.TaskGroup() as group:
        for tenant in ("attacker",) * 10 + ("honest",) * 2:
            group.create_task(work(tenant))
    assert admitted == ["attacker", "honest"] * 2 + ["attacker"] * 8


async def test_those_that_have_gone_away_take_no_turn() -> None:
    turnstile = Turnstile()
    gone = [asyncio.create_task(turnstile.wait("acme")) for _ in range(3)]
    await asyncio.sleep(0)
    for task in gone:
        task.cancel()
    async with asyncio.timeout(10):
        await turnstile.wait("umbrella")
    for task in gone:
        with pytest.raises(asyncio.CancelledError):
            await task
    await turnstile.wait("acme")
    await asyncio.sleep(0)
    assert not turnstile._waiting
