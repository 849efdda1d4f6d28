"""A worker beside the server that is stopped while a pop is under way."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import pytest

from holdfast.errors import Unavailable
from holdfast.kinds import QUEUE_TYPE
from holdfast.pushpop.actor import PushPopActor
from holdfast.pushpop.index import QueueIndexActor
from holdfast.runtime.notifier import NotifierActor
from holdfast.runtime.simulated import VirtualTimeLoop
from holdfast.worker.local_source import LocalWorkSource
from tests.support.simulated import ActorStage

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dapr.actor import Actor

    from holdfast.runtime.in_process.storage import Write

QUEUE = "activities"
#: An activity of an instance.
CALL = {
    "instance_id": "i",
    "incarnation": "1",
    "execution_id": 1,
    "scheduled_seq": 2,
    "name": "pack",
    "attempt": 1,
    "input": None,
}


class _OutOfReach:
    async def call(self, queue: str, method: str, data: bytes) -> dict[str, Any]:
        raise Unavailable


async def test_a_stop_ends_though_what_was_popped_cannot_be_given_back() -> None:
    """Otherwise the error takes the place of the cancellation, and the worker goes on for ever."""
    source = LocalWorkSource.__new__(LocalWorkSource)
    source._queues = cast("Any", _OutOfReach())
    popping: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
    taking = asyncio.create_task(source._received("activities", popping))
    await asyncio.sleep(0)
    taking.cancel()
    popping.set_result({"lock_id": "a-lock", "count": 1})
    with pytest.raises(asyncio.CancelledError):
        await taking


class Stage(ActorStage):
    def actors(self) -> Iterable[type[Actor]]:
        return PushPopActor, QueueIndexActor, NotifierActor


async def _stopped_after(steps: int) -> str:
    """What becomes of an activity when its pop is cancelled so many steps of the event loop after it began."""
    async with Stage() as stage:
        source = LocalWorkSource(stage.host.client, alone=True)
        await source.prepare("default", QUEUE)
        await stage.invoke(QUEUE_TYPE, QUEUE, "Push", {"item": CALL})
        locks = 0

        def committed(writes: Sequence[Write]) -> None:
            nonlocal locks
            locks += any(b'"_active_lock"' in (write.value or b"") for write in writes)

        stage.host.storage.committed = committed
        taking = asyncio.create_task(source.take("default", QUEUE, 1, 30))
        for _ in range(steps):
            await asyncio.sleep(0)
        taking.cancel()
        await asyncio.wait({taking})
        if not taking.cancelled():
            return "too late"
        stats = await stage.invoke(QUEUE_TYPE, QUEUE, "Stats")
        assert (stats["count"], stats["locked"]) == (1, 0), f"after {steps} steps: {stats}"
        [message] = (await stage.invoke(QUEUE_TYPE, QUEUE, "Peek", {"count": 1}))["messages"]
        # Not a delivery: stops must not make an activity poison.
        assert message["delivery_count"] == 0
        return "given back" if locks else "not taken"


def test_what_a_pop_takes_while_the_worker_stops_is_given_back() -> None:
    assert "given back" in [VirtualTimeLoop.run(_stopped_after(steps)) for steps in range(0, 40, 3)]
