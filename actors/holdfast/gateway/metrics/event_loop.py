"""Measures how long callbacks block the event loop. While one does, no request of any tenant is served."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import time
from typing import TYPE_CHECKING, Any

from prometheus_client import Gauge, Histogram

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

log = logging.getLogger(__name__)

#: The interval of the probe in seconds, which is also its precision.
INTERVAL_SECONDS = 0.01
#: The interval while the event loop is idle. An idle server that is probed 100 times a second uses 1.4 % of a core.
IDLE_INTERVAL_SECONDS = 0.05
# The event loop is idle after this many intervals in which its thread used less than this share of the time: a probe
# alone uses about a hundredth.
_QUIET_INTERVALS = 100
_QUIET_SHARE = 0.04
#: No request may block the event loop for longer than this.
LONGEST_HOLD_SECONDS = 0.1

_BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class EventLoopProbe:
    """Measures by how much a periodic timer runs late.

    The timer is slower while the event loop is idle, so the first hold after that can be measured too short by the
    difference of the two intervals.

    uvloop (0.22) runs callbacks in C and has no hook around them, so their durations cannot be measured one by one.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._lag = Histogram(
            "holdfast_event_loop_lag_seconds",
            "How late a timer of the event loop ran; measured 100 times a second, 20 times while idle.",
            buckets=_BUCKETS,
            registry=registry,
        )
        self._held = Histogram(
            "holdfast_event_loop_held_seconds",
            "The part of that delay in which the event loop's own thread computed.",
            buckets=_BUCKETS,
            registry=registry,
        )
        self._longest = Gauge(
            "holdfast_event_loop_held_max_seconds",
            "The longest such delay since the process started.",
            registry=registry,
        )
        self._longest_seen = 0.0
        self._collecting = Collecting(registry)

    async def run(self) -> None:
        """Probes the running event loop until it is cancelled."""
        quiet = 0
        with self._collecting:
            while True:
                interval = INTERVAL_SECONDS if quiet < _QUIET_INTERVALS else IDLE_INTERVAL_SECONDS
                due = time.perf_counter() + interval
                began, collecting = time.thread_time(), self._collecting.seconds
                await asyncio.sleep(interval)
                used = time.thread_time() - began
                quiet = quiet + 1 if used < _QUIET_SHARE * interval else 0
                self._look(time.perf_counter() - due, used, self._collecting.seconds - collecting)

    def _look(self, lag: float, used: float, collected: float) -> None:
        self._lag.observe(max(0.0, lag))
        # Bounded by the thread's CPU time: a machine that is busy with other processes delays the timer, too, without
        # any callback at fault.
        held = max(0.0, min(lag, used))
        self._held.observe(held)
        if held > self._longest_seen:
            self._longest_seen = held
            self._longest.set(held)
        if held > LONGEST_HOLD_SECONDS:
            garbage = min(held, collected)
            log.warning(
                "the event loop was held for %.0f ms, %.0f ms of it by garbage collection", held * 1000, garbage * 1000
            )


class Collecting:
    """Measures how long garbage collection ran in the thread that enters this context.

    A full collection of Python (3.11 to 3.13) scans all objects at once, so it takes longer the more actors are active.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self.seconds = 0.0
        self._thread = 0
        self._began = 0.0
        self._longest = Gauge(
            "holdfast_event_loop_collecting_max_seconds",
            "The longest garbage collection in the event loop's thread since the process started.",
            registry=registry,
        )
        self._longest_seen = 0.0

    def __enter__(self) -> None:
        self._thread = threading.get_ident()
        gc.callbacks.append(self._on_collection)

    def __exit__(self, *error: object) -> None:
        gc.callbacks.remove(self._on_collection)

    def _on_collection(self, phase: str, _details: dict[str, Any]) -> None:
        if threading.get_ident() != self._thread:
            return
        if phase == "start":
            self._began = time.thread_time()
            return
        seconds = time.thread_time() - self._began
        self.seconds += seconds
        if seconds > self._longest_seen:
            self._longest_seen = seconds
            self._longest.set(seconds)
