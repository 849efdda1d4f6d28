"""QueueStats asks a bounded number of queues at bounded intervals, and leaves out queues that do not answer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

from holdfast.gateway.metrics.queue_stats import AT_ONCE, QueueStats
from holdfast.gateway.metrics.recent import FRESH_SECONDS
from holdfast.kinds import QUEUE_TYPE
from holdfast.pushpop.index import SHARDS, shard_of
from holdfast.runtime.serialization import dump, load
from tests.unit.gateway.stage import RecordingClient, Stage, on_stage

if TYPE_CHECKING:
    from holdfast.gateway.metrics.queue_stats import Counted
    from holdfast.runtime.contract import HostClient


class Crowded(RecordingClient):
    """Knows how many calls were under way at once."""

    now = most = 0

    async def invoke_method(self, actor_type: str, actor_id: str, method: str, data: bytes = b"") -> bytes:
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            return await super().invoke_method(actor_type, actor_id, method, data)
        finally:
            self.now -= 1


def stats_of(client: RecordingClient, **options: Any) -> QueueStats:
    return QueueStats(cast("HostClient", client), **options)


async def call(stage: Stage, queue: str, method: str, data: Any = None) -> Any:
    return load(await stage.host.client.invoke_method(QUEUE_TYPE, queue, method, dump(data)))


async def fill(stage: Stage, *queues: str, items: int = 1) -> None:
    for queue in queues:
        await call(stage, queue, "Push", {"items": [{"item": number} for number in range(items)]})
    await asyncio.sleep(10)  # until they are written down


def value(counted: Counted, name: str, **labels: str) -> float | None:
    """None when it is not shown."""
    samples = (sample for metric in counted.collect() for sample in metric.samples)
    return next((sample.value for sample in samples if (sample.name, sample.labels) == (name, labels)), None)


def asked(client: RecordingClient) -> list[str]:
    """Queues and their partitions, not the index."""
    return [actor_id for actor_id, methods in client.calls if methods == ("Stats",)]


@on_stage
async def test_it_adds_up_the_partitions_of_a_queue(stage: Stage) -> None:
    await call(stage, "orders", "SetConfig", {"partitions": 3})
    while (await call(stage, "orders", "PendingConfig"))["partitions"]:
        await asyncio.sleep(0.1)  # until each partition knows that it is one
    await fill(stage, "orders", "orders@1", "orders@2", items=2)
    await call(stage, "orders@2", "Push", {"item": 1, "delay_seconds": 600})
    await call(stage, "orders@1", "PopWithAck", {})
    counted = await stats_of(RecordingClient(stage.host.client)).take()
    assert value(counted, "holdfast_queue_pushed_items_total", queue="orders") == 7
    assert value(counted, "holdfast_queue_popped_items_total", queue="orders") == 1
    depths = [
        value(counted, "holdfast_queue_depth_items", queue="orders", state=state)
        for state in ("waiting", "delayed", "locked")
    ]
    assert depths == [5, 1, 1]
    assert (value(counted, "holdfast_queue_oldest_age_seconds", queue="orders") or 0) >= 10
    assert value(counted, "holdfast_queues") == 1


@on_stage
async def test_the_first_by_name_are_shown_and_the_others_counted(stage: Stage) -> None:
    await fill(stage, *(f"queue-{number:02}" for number in range(30)))
    client = RecordingClient(stage.host.client)
    counted = await stats_of(client, most_queues=20).take()
    assert sorted(asked(client)) == [f"queue-{number:02}" for number in range(20)]
    assert value(counted, "holdfast_queue_pushed_items_total", queue="queue-19") == 1
    assert value(counted, "holdfast_queue_pushed_items_total", queue="queue-20") is None
    assert (value(counted, "holdfast_queues"), value(counted, "holdfast_queues_not_shown")) == (30, 10)


@on_stage
async def test_only_some_are_asked_at_once(stage: Stage) -> None:
    await fill(stage, *(f"queue-{number}" for number in range(3 * AT_ONCE)))
    client = Crowded(stage.host.client)
    await stats_of(client).take()
    assert len(asked(client)) == 3 * AT_ONCE
    assert client.most == AT_ONCE


@on_stage
async def test_all_who_ask_within_some_seconds_share_one_census(stage: Stage) -> None:
    await fill(stage, "orders")
    client = RecordingClient(stage.host.client)
    shared = stats_of(client)
    await asyncio.gather(shared.take(), shared.take())
    await fill(stage, "orders")
    again = await shared.take()
    assert value(again, "holdfast_queue_pushed_items_total", queue="orders") == 2
    await asyncio.sleep(FRESH_SECONDS - 1)
    await shared.take()
    assert asked(client) == ["orders", "orders"]


@on_stage
async def test_a_queue_that_cannot_be_reached_is_counted_and_the_others_are_shown(stage: Stage) -> None:
    await call(stage, "orders", "SetConfig", {"partitions": 2})
    await fill(stage, "orders", "invoices")
    client = RecordingClient(stage.host.client)
    client.away.add("orders@1")
    counted = await stats_of(client).take()
    assert value(counted, "holdfast_queue_pushed_items_total", queue="invoices") == 1
    assert value(counted, "holdfast_queue_pushed_items_total", queue="orders") is None
    assert value(counted, "holdfast_scrape_unreachable", what="queue") == 1
    assert value(counted, "holdfast_scrape_unreachable", what="index") == 0


@on_stage
async def test_queues_that_do_not_answer_hold_it_up_for_some_seconds_only(stage: Stage) -> None:
    names = [f"queue-{number:03}" for number in range(5 * AT_ONCE)]
    await fill(stage, *names, "answers")
    client = RecordingClient(stage.host.client)
    client.held = {name: asyncio.Event() for name in names}
    begun = asyncio.get_running_loop().time()
    counted = await stats_of(client).take()
    assert asyncio.get_running_loop().time() - begun < 8
    assert value(counted, "holdfast_queue_pushed_items_total", queue="answers") == 1
    assert value(counted, "holdfast_scrape_unreachable", what="queue") == len(names)


@on_stage
async def test_without_a_part_of_the_index_the_queues_of_the_others_are_shown(stage: Stage) -> None:
    names = [f"queue-{number}" for number in range(2 * SHARDS)]
    await fill(stage, *names)
    client = RecordingClient(stage.host.client)
    client.away.add(shard_of("queue-0"))
    counted = await stats_of(client).take()
    shown = [name for name in names if value(counted, "holdfast_queue_pushed_items_total", queue=name) is not None]
    assert shown == [name for name in names if shard_of(name) != shard_of("queue-0")]
    assert value(counted, "holdfast_scrape_unreachable", what="index") == 1


@on_stage
async def test_dead_letters_are_shown_with_the_queue_they_came_from(stage: Stage) -> None:
    await call(stage, "orders", "SetConfig", {"dead_letter_queue": "zzz"})
    await fill(stage, "orders", "others")
    lock = await call(stage, "orders", "PopWithAck", {})
    await call(stage, "orders", "DeadLetter", {"lock_id": lock["lock_id"]})
    await asyncio.sleep(10)
    client = RecordingClient(stage.host.client)
    counted = await stats_of(client, most_queues=2).take()
    assert value(counted, "holdfast_queue_dead_lettered_items_total", queue="orders") == 1
    assert value(counted, "holdfast_queue_dead_letter_items", queue="orders") == 1
    # One that never had any has no dead-letter queue that could be asked.
    assert value(counted, "holdfast_queue_dead_letter_items", queue="others") == 0
    assert sorted(asked(client)) == ["orders", "others", "zzz"]
    client.away.add("zzz")
    counted = await stats_of(client, most_queues=2).take()
    assert value(counted, "holdfast_queue_dead_letter_items", queue="orders") is None
    assert value(counted, "holdfast_scrape_unreachable", what="queue") == 1
