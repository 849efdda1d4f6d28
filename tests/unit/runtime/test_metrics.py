"""The metrics of a process about its own work."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.errors import SaveFailed
from holdfast.kinds import QUEUE_INDEX_TYPE, QUEUE_TYPE
from holdfast.pushpop.actor import PushPopActor
from holdfast.pushpop.index import QueueIndexActor
from holdfast.runtime.background import BackgroundTasks
from holdfast.runtime.notifier import NotifierActor, notify
from holdfast.runtime.simulated import Faults, VirtualTimeLoop
from tests.support.simulated import ActorStage

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable

    from dapr.actor import Actor


class Stage(ActorStage):
    def actors(self) -> Iterable[type[Actor]]:
        return (PushPopActor, QueueIndexActor, NotifierActor)

    async def call(self, method: str, data: Any = None) -> Any:
        return await self.invoke(QUEUE_TYPE, "orders", method, data)

    def value(self, name: str, **labels: str) -> float | None:
        return self.host.client.metrics.registry.get_sample_value(name, labels)

    async def push(self, *items: Any) -> None:
        await self.call("Push", {"items": [{"item": item} for item in items]})
        await asyncio.sleep(10)  # the first time, the queue is written down after that


def run(test: Coroutine[Any, Any, None]) -> None:
    VirtualTimeLoop.run(test)


def test_each_turn_is_measured_by_the_type_of_its_actor() -> None:
    async def body() -> None:
        async with Stage() as stage:
            await stage.push(1)
            before = stage.value("holdfast_turn_duration_seconds_count", actor_type=QUEUE_TYPE)
            await stage.call("Pop")
            await stage.call("Pop")
            assert before is not None
            assert stage.value("holdfast_turn_duration_seconds_count", actor_type=QUEUE_TYPE) == before + 2
            assert stage.value("holdfast_turn_duration_seconds_count", actor_type=QUEUE_INDEX_TYPE) == 1

    run(body())


def test_a_save_that_failed_is_counted_and_one_that_did_not_is_not() -> None:
    async def body() -> None:
        async with Stage() as stage:
            await stage.push(1)
            assert stage.value("holdfast_append_failures_total", actor_type=QUEUE_TYPE) == 0
            stage.host.faults = Faults(save_fails=1.0)
            with pytest.raises(SaveFailed):
                await stage.call("Push", {"item": 2})
            stage.host.faults = Faults()
            assert stage.value("holdfast_append_failures_total", actor_type=QUEUE_TYPE) == 1

    run(body())


def test_the_time_from_pop_to_acknowledgement_is_measured_once_it_is_saved() -> None:
    async def body() -> None:
        async with Stage() as stage:
            await stage.push(1, 2)
            lock = await stage.call("PopWithAck", {"count": 2})
            await asyncio.sleep(7)
            stage.host.faults = Faults(save_fails=1.0)
            with pytest.raises(SaveFailed):
                await stage.call("Acknowledge", {"lock_id": lock["lock_id"]})
            stage.host.faults = Faults()
            assert stage.value("holdfast_processing_seconds_count") == 0
            await stage.call("Acknowledge", {"lock_id": lock["lock_id"]})
            assert stage.value("holdfast_processing_seconds_count") == 1
            assert stage.value("holdfast_processing_seconds_sum") == pytest.approx(7, abs=0.5)
            await stage.call("Stats")
            assert stage.value("holdfast_processing_seconds_count") == 1

    run(body())


def test_a_wakeup_of_long_polls_is_counted() -> None:
    async def body() -> None:
        async with Stage() as stage:
            notify(stage.host.client, BackgroundTasks("a queue"), ["notifier"], "orders")
            async with asyncio.timeout(10):
                while not stage.value("holdfast_long_poll_wakeups_total"):
                    await asyncio.sleep(0)
            assert stage.value("holdfast_long_poll_wakeups_total") == 1

    run(body())


def test_two_hosts_count_each_for_itself() -> None:
    async def body() -> None:
        async with Stage() as stage, Stage() as other:
            await stage.push(1)
            assert other.value("holdfast_turn_duration_seconds_count", actor_type=QUEUE_TYPE) is None

    run(body())
