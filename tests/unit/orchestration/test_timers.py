"""Timers are ordered by their due times; cancelled timers are removed."""

from __future__ import annotations

import asyncio
import weakref

import pytest

from holdfast.orchestration.core.history import TimerCreated
from holdfast.orchestration.core.timers import Timers


@pytest.fixture
def loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


def handle(loop: asyncio.AbstractEventLoop) -> asyncio.TimerHandle:
    return asyncio.TimerHandle(0.0, print, (), loop)


def created(seq: int, fire_at: float) -> TimerCreated:
    return TimerCreated(seq=seq, execution_id=1, timestamp=0.0, fire_at=fire_at)


def test_those_of_one_moment_fire_together_in_the_order_they_were_made_in(loop: asyncio.AbstractEventLoop) -> None:
    timers = Timers()
    handles = {seq: handle(loop) for seq in range(1, 6)}
    for seq, moment in ((1, 20.0), (2, 10.0), (3, 20.0), (4, 10.0), (5, 10.0)):
        timers.add(created(seq, moment), handles[seq])
    handles[4].cancel()
    assert timers.next_moment() == 10
    assert timers.pop_due(9.9) == []
    assert timers.pop_due(30) == [2, 5]
    assert [timers.take(seq) for seq in (2, 5)] == [handles[2], handles[5]]
    assert timers.moment_of(2) is None
    assert timers.moment_of(4) is None
    assert timers.moment_of(1) == 20
    assert timers.pop_due(30) == [1, 3]
    assert timers.next_moment() is None


def test_cancelled_ones_do_not_pile_up_until_their_hour(loop: asyncio.AbstractEventLoop) -> None:
    timers = Timers()
    kept: weakref.WeakSet[asyncio.TimerHandle] = weakref.WeakSet()
    timers.add(created(1, 5.0), lasting := handle(loop))
    for seq in range(2, 2000):
        cancelled = handle(loop)
        timers.add(created(seq, 1e9), cancelled)
        kept.add(cancelled)
        cancelled.cancel()
    assert len(kept) < 200
    assert timers.pop_due(5) == [1]
    assert timers.take(1) is lasting
