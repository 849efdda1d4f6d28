"""Timers of the hosts that run actors in this process."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING, Any

from holdfast.runtime.contract import ActorAddress
from holdfast.runtime.in_process.timers import Timers

if TYPE_CHECKING:
    import pytest

ADDRESS = ActorAddress("Some", "one")


async def test_a_callback_that_fails_after_its_timer_was_cancelled_is_told_of_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    begun, goes_on = asyncio.Event(), asyncio.Event()

    async def fire(address: ActorAddress, name: str, body: bytes) -> None:
        begun.set()
        await goes_on.wait()
        raise RuntimeError("of the actor's own")

    loop = asyncio.get_running_loop()
    unheard: list[dict[str, Any]] = []
    handler = loop.get_exception_handler()
    loop.set_exception_handler(lambda _, context: unheard.append(context))
    try:
        timers = Timers(fire=fire, now=loop.time)
        timers.register(ADDRESS, "t", {"dueTime": "0s"})
        await begun.wait()
        timers.unregister(ADDRESS, "t")
        goes_on.set()
        async with asyncio.timeout(10):
            while "timer t of Some one" not in caplog.text:
                await asyncio.sleep(0)
        # An error that was never retrieved is reported when its task is collected.
        await asyncio.sleep(0)
        gc.collect()
    finally:
        loop.set_exception_handler(handler)
    assert unheard == []
