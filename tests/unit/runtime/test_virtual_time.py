"""The simulated clock."""

from __future__ import annotations

import asyncio

from holdfast.runtime.simulated import VirtualTimeLoop

# A number of seconds whose distance to the next larger float is less than the resolution of the clock.
LATE = 60.0104872148168
DISTANCE = 7.105427357601002e-15


def test_a_deadline_nearer_than_the_resolution_is_reached() -> None:
    async def wait_until_the_moment() -> int:
        clock = asyncio.get_running_loop().time
        await asyncio.sleep(LATE)
        until, waits = clock() + DISTANCE, 0
        while clock() < until and waits < 1000:
            # A task that is new is ready at once, so that the clock has no reason to jump.
            never = asyncio.ensure_future(asyncio.Event().wait())
            await asyncio.wait({never}, timeout=until - clock())
            never.cancel()
            waits += 1
        return waits

    assert VirtualTimeLoop.run(wait_until_the_moment()) <= 2


def test_the_clock_goes_on_where_its_times_are_rounded_to_more_than_a_nanosecond() -> None:
    async def sleep() -> float:
        clock = asyncio.get_running_loop().time
        await asyncio.sleep(2.0**24)
        began = clock()
        for _ in range(1000):
            await asyncio.sleep(0.1)
        return clock() - began

    assert 99.9 < VirtualTimeLoop.run(sleep()) < 100.1
