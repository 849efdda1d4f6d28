"""The probe of the event loop sees callbacks that compute, and not a machine that is busy with others."""

from __future__ import annotations

import asyncio
import gc
import time
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry

from holdfast.gateway.metrics.event_loop import IDLE_INTERVAL_SECONDS, INTERVAL_SECONDS, EventLoopProbe
from holdfast.runtime.simulated import VirtualTimeLoop

if TYPE_CHECKING:
    import pytest


def _value(registry: CollectorRegistry, name: str, **labels: str) -> float:
    return registry.get_sample_value(f"holdfast_event_loop_{name}", labels) or 0.0


async def test_a_callback_that_computes_is_seen() -> None:
    registry = CollectorRegistry()
    probe = asyncio.create_task(EventLoopProbe(registry).run())
    async with asyncio.timeout(20):
        while not _value(registry, "held_seconds_count"):
            await asyncio.sleep(0)
        seen = _value(registry, "held_seconds_count")
        until = time.thread_time() + 0.15
        while time.thread_time() < until:
            pass
        while _value(registry, "held_seconds_count") == seen:
            await asyncio.sleep(0)
    probe.cancel()
    assert _value(registry, "held_max_seconds") >= 0.15 - INTERVAL_SECONDS
    assert _value(registry, "held_seconds_count") > _value(registry, "held_seconds_bucket", le="0.1")


async def test_looking_for_garbage_is_told_apart(caplog: pytest.LogCaptureFixture) -> None:
    registry = CollectorRegistry()
    probe = asyncio.create_task(EventLoopProbe(registry).run())
    lists: list[object] = [[] for _ in range(1_000_000)]
    async with asyncio.timeout(20):
        while not caplog.records:
            until = time.thread_time() + 0.15
            while time.thread_time() < until:
                gc.collect()
            await asyncio.sleep(2 * INTERVAL_SECONDS)
    probe.cancel()
    del lists
    held, garbage = caplog.records[0].args or (0, 0)
    assert 0 < float(garbage) <= float(held)
    assert float(garbage) > 0.8 * float(held)
    assert _value(registry, "collecting_max_seconds") > 0


async def test_a_thread_that_does_not_run_holds_nothing() -> None:
    registry = CollectorRegistry()
    probe = asyncio.create_task(EventLoopProbe(registry).run())
    async with asyncio.timeout(20):
        while not _value(registry, "held_seconds_count"):
            await asyncio.sleep(0)
        seen = _value(registry, "lag_seconds_count")
        # As a machine does that is busy with other processes: time passes in which the thread computes nothing.
        time.sleep(0.15)  # noqa: ASYNC251
        while _value(registry, "lag_seconds_count") == seen:
            await asyncio.sleep(0)
    probe.cancel()
    assert _value(registry, "lag_seconds_sum") >= 0.15 - INTERVAL_SECONDS
    assert _value(registry, "held_max_seconds") < 0.1


def test_it_probes_less_often_while_the_event_loop_is_idle() -> None:
    """On a virtual clock the time between two probes costs nothing, so the thread is as idle as it can be."""
    registry = CollectorRegistry()

    async def probes_in(seconds: float, callback_seconds: float) -> float:
        before = _value(registry, "lag_seconds_count")
        for _ in range(round(seconds / 0.1)):
            until = time.thread_time() + callback_seconds
            while time.thread_time() < until:
                pass
            await asyncio.sleep(0.1)
        return _value(registry, "lag_seconds_count") - before

    async def main() -> tuple[float, float]:
        probe = asyncio.create_task(EventLoopProbe(registry).run())
        await asyncio.sleep(10)
        idle = await probes_in(10, callback_seconds=0)
        busy = await probes_in(10, callback_seconds=0.005)
        probe.cancel()
        return idle, busy

    idle, busy = VirtualTimeLoop.run(main())
    assert idle < 1.5 * 10 / IDLE_INTERVAL_SECONDS
    assert busy > 0.5 * 10 / INTERVAL_SECONDS
