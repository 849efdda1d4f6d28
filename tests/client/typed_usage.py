"""A caller's code for the type checker. Checked, never run."""

from __future__ import annotations

from typing import Any, assert_type

from holdfast import App, Client, Context, SyncClient
from holdfast.client import (
    Batch,
    Completion,
    DeadLetter,
    HistoryEvent,
    Idempotency,
    LockInfo,
    Message,
    OrchestrationStatus,
    OrchestrationSummary,
    Outcome,
    Queue,
    QueueStats,
    QueueSummary,
    Run,
)
from holdfast.client.sync import SyncBatch, SyncQueue, SyncRun, SyncSchedule

app = App()


@app.orchestration
async def checkout(ctx: Context, order: int) -> str:
    return str(order)


@app.orchestration(version="2")
async def tick(ctx: Context) -> list[int]:
    return []


async def handle(message: Message) -> int:
    return message.priority


async def number() -> int:
    return 7


async def use() -> None:
    async with Client("http://127.0.0.1:8080", token=None) as client:
        assert_type(client, Client)
        queue = client.queue("orders")
        assert_type(queue, Queue)
        assert_type(await queue.push({"id": 1}, priority=2), str)
        assert_type(await queue.push_many([1, "two", None], priority=0), list[str])
        assert_type(await queue.push(1, dedup_id="a", delay_seconds=0.5, ttl_seconds=60, idempotency_key="k"), str)
        assert_type(await queue.push_many([{"id": "a"}], dedup_id=lambda item: str(item["id"])), list[str])
        assert_type(await queue.pop(count=2, wait_seconds=0.5), list[Message])
        async with queue.lock(ttl_seconds=30, count=10, wait_seconds=20) as batch:
            assert_type(batch, Batch)
            for message in batch:
                assert_type(message, Message)
                assert_type(message.item, Any)
                assert_type(message.last_error, str | None)
            assert_type(batch[0], Message)
            assert_type(batch.lock_id, str | None)
            assert_type(batch.lost.is_set(), bool)
        assert_type(await queue.stats(), QueueStats)
        assert_type((await queue.stats()).priorities, dict[int, int])
        assert_type(await queue.in_flight(), list[LockInfo])
        assert_type(await queue.acknowledge("id"), int)
        assert_type(await queue.extend("id", 30), float)
        assert_type(await queue.complete(["0-0-0-0"]), Completion)
        assert_type(await queue.requeue("kX3vQ1", "gone", delay_seconds=5), int)
        assert_type(await queue.redrive(limit=5), int)
        async for letter in queue.dead_letters():
            assert_type(letter, DeadLetter)
        assert_type(await queue.purge(), int)
        async for summary in client.queues():
            assert_type(summary, QueueSummary)
        await queue.consume(handle, concurrency=8)
        await queue.consume(handle, idempotency=True)
        await queue.consume(handle, idempotency=lambda message: message.dedup_id)
        await queue.consume(handle, idempotency=Idempotency(lambda message: message.id, lease_seconds=60))
        assert_type(await client.idempotent(key="k", run=number), Outcome[int])
        assert_type(await client.idempotent(key="k", run=lambda: "text", tenant_id="acme"), Outcome[str])
        run = await client.start(checkout, 1, instance_id="o-1", version="1")
        assert_type(run, Run[str])
        assert_type(await run.result(timeout=60), str)
        assert_type(await (await client.start(tick)).result(), list[int])
        assert_type(await client.start("checkout", {"any": "thing"}), Run[Any])
        assert_type(client.orchestration("o-1"), Run[Any])
        assert_type(client.orchestration("o-1", checkout), Run[str])
        assert_type(await run.status(), OrchestrationStatus)
        async for event in run.history():
            assert_type(event, HistoryEvent)
        async for found in client.orchestrations(status="RUNNING", name="checkout"):
            assert_type(found, OrchestrationSummary)


async def misuse(client: Client) -> None:
    queue = client.queue("orders")
    await queue.push({"id": 1}, priority="2")  # type: ignore[arg-type]
    await queue.consume(lambda message: None)  # type: ignore[arg-type, return-value]
    await queue.push(1, dedup_id=7)  # type: ignore[arg-type]
    await queue.push_many([1], dedup_id="the same for all")  # type: ignore[arg-type]
    queue.lock(ttl_seconds=0.5)  # type: ignore[arg-type]
    Client(url=8080)  # type: ignore[arg-type]
    await client.start(checkout, "one")  # type: ignore[arg-type]
    await client.start(handle, 1)  # type: ignore[arg-type]


def synchronous(client: SyncClient) -> None:
    queue = client.queue("orders")
    assert_type(queue, SyncQueue)
    assert_type(queue.push({"id": 1}, priority=2, dedup_id="a"), str)
    queue.push()  # type: ignore[call-arg]
    queue.push({}, priority="high")  # type: ignore[arg-type]
    assert_type(queue.push_many([1, 2]), list[str])
    assert_type(queue.pop(2), list[Message])
    with queue.lock(count=10, wait_seconds=1) as batch:
        assert_type(batch, SyncBatch)
        assert_type(batch[0], Message)
        batch.abandon("later", delay_seconds=1)
    for letter in queue.dead_letters():
        assert_type(letter, DeadLetter)
    for listed in client.queues(page_size=5):
        assert_type(listed, QueueSummary)
    run = client.start(checkout, 1, tags={"a": "b"})
    assert_type(run, SyncRun[str])
    assert_type(run.result(timeout=1), str)
    assert_type(run.status(), OrchestrationStatus)
    assert_type(client.start(tick).result(), list[int])
    client.start(checkout, "1")  # type: ignore[arg-type]
    for found in client.orchestrations(status="RUNNING", name="checkout"):
        assert_type(found, OrchestrationSummary)
    client.orchestrations(stat="RUNNING")  # type: ignore[call-arg]
    assert_type(client.idempotent(key="a", run=lambda: 1), Outcome[int])
    assert_type(client.schedule("nightly"), SyncSchedule)
