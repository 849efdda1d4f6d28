"""Whatever one tenant's queues and instances do, the actors they call are that tenant's."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast import App, Context, activity_context
from holdfast.errors import ActivityFailed, NonRetryable
from holdfast.gateway.metrics.queue_stats import QueueStats
from holdfast.gateway.queues.config import Configuration
from holdfast.gateway.queues.dead_letters import DeadLetters
from holdfast.gateway.queues.partitions import Partitions
from holdfast.gateway.queues.push_routing import Pushes
from holdfast.kinds import NOTIFIER_TYPE, ORCHESTRATION_TYPE, RESCUER_TYPE, TENANT_INDEX_TYPE
from holdfast.names import qualify
from holdfast.orchestration.actor.actor import orchestration_actor
from holdfast.orchestration.index.tenant_index import REGISTER
from holdfast.pushpop.api.requests import SelectDeadLetters
from holdfast.runtime.serialization import dump, load
from holdfast.runtime.simulated import SimulatedHost, VirtualTimeLoop
from holdfast.server import OWN_ACTORS
from holdfast.wire.errors import raise_for_refusal
from holdfast.worker.local_source import LocalWorkSource
from holdfast.worker.worker import Worker

app = App()


@app.activity(idempotent=True)
async def charge(number: int) -> str:
    return f"{activity_context().tenant_id}-{number}"


@app.activity(queue="elsewhere")
async def refuse() -> None:
    raise NonRetryable("never")


@app.orchestration
async def child(ctx: Context, number: int) -> str:
    return await ctx.call(charge, number)


@app.orchestration
async def patient(ctx: Context) -> None:
    await ctx.event("never")


@app.orchestration
async def busy(ctx: Context) -> list[str]:
    try:
        await ctx.call(refuse)
    except ActivityFailed as error:
        found = [error.details["type"]]
    await ctx.sub(child, 1, instance_id="detached", detached=True)
    try:
        async with asyncio.timeout(5):
            await ctx.sub(patient, instance_id="patient")
    except TimeoutError:
        found.append("cancelled")
    return found + await asyncio.gather(*(ctx.sub(child, number) for number in range(3)))


class World:
    """Where everything that is called is written down."""

    def __init__(self) -> None:
        self.host = SimulatedHost()
        self.called: set[tuple[str, str]] = set()

    async def start(self) -> None:
        for actor_class in (*OWN_ACTORS, orchestration_actor(app.registry)):
            await self.host.register(actor_class)
        await self.host.start()
        invoke = self.host.client.invoke_method

        async def noted(actor_type: str, actor_id: str, method: str, data: bytes = b"") -> bytes:
            self.called.add((actor_type, actor_id))
            return await invoke(actor_type, actor_id, method, data)

        self.host.client.invoke_method = noted  # type: ignore[method-assign]

    async def ask(self, actor_type: str, actor_id: str, method: str, data: Any = None) -> Any:
        return load(await self.host.client.invoke_method(actor_type, actor_id, method, dump(data)))


async def use_queues(world: World, tenant: str) -> None:
    """Partitions, dedup ids, dead letters of all kinds, redrive, what is shown."""
    partitions = Partitions(world.host.client)
    queue = qualify(tenant, "orders")
    config = {"partitions": 3, "max_deliveries": 1, "dead_letter_queue": "graves", "max_locks": 9}
    await Configuration(partitions).change(queue, dump(config), config)
    for number in range(6):
        data = {"item": number, "dedup_id": str(number)}
        raise_for_refusal(await Pushes(partitions).push(queue, dump(data), data))
    locks = [await partitions.pop(queue, "PopWithAck", dump({"count": 1, "ttl_seconds": 5})) for _ in range(6)]
    for lock in locks[:2]:
        raise_for_refusal(
            await partitions.call_holder(queue, lock["lock_id"], "DeadLetter", dump({"lock_id": lock["lock_id"]}))
        )
    # Some are moved by the queue itself, when their locks expire.
    await asyncio.sleep(20)
    letters = DeadLetters(partitions)
    assert len((await letters.page(queue, 100, None))["dead_letters"]) == 6
    assert (await letters.redrive(queue, SelectDeadLetters()))["redriven"] == 6
    counted = await QueueStats(world.host.client).take(tenant)
    assert set(counted.queues) == {"orders", "graves"}
    assert counted.queues["orders"]["count"] == 6
    await partitions.close()


async def use_orchestrations(world: World, tenant: str) -> Any:
    worker = asyncio.create_task(Worker(LocalWorkSource(world.host.client, alone=True), app.registry).run())
    try:
        instance = qualify(tenant, "run")
        raise_for_refusal(await world.ask(ORCHESTRATION_TYPE, instance, "Start", {"name": "busy"}))
        async with asyncio.timeout(300):
            while (status := await world.ask(ORCHESTRATION_TYPE, instance, "Status"))["ended_at"] is None:
                await asyncio.sleep(1)
        assert (await world.ask(ORCHESTRATION_TYPE, qualify(tenant, "patient"), "Status"))["status"] == "CANCELLED"
        assert (await world.ask(ORCHESTRATION_TYPE, qualify(tenant, "detached"), "Status"))["ended_at"]
    finally:
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
    return status["output"]


@pytest.mark.parametrize("tenant", ["acme", "default", "orders"])
def test_everything_that_is_called_is_of_the_tenant(tenant: str) -> None:
    async def run() -> None:
        world = World()
        await world.start()
        try:
            await use_queues(world, tenant)
            alone = set(world.called)
            output = await use_orchestrations(world, tenant)
            assert output == ["NonRetryable", "cancelled", f"{tenant}-0", f"{tenant}-1", f"{tenant}-2"]
            # The worker looks after the queues of the default tenant all the time.
            waited_for = {("PushPopActor", "activities"), ("PushPopActor", "elsewhere")}
            check(alone, tenant)
            check(world.called - waited_for, tenant)
        finally:
            await world.host.stop()

    VirtualTimeLoop.run(run())


def check(called: set[tuple[str, str]], tenant: str) -> None:
    shared = {TENANT_INDEX_TYPE, NOTIFIER_TYPE, RESCUER_TYPE}
    for actor_type, actor_id in called:
        if actor_type == "IdempotencyActor":
            assert actor_id.startswith(f"{tenant}@")
        elif actor_type in shared:
            assert actor_id == REGISTER or actor_type in (NOTIFIER_TYPE, RESCUER_TYPE)
        elif tenant == "default":
            assert not actor_id.startswith("@"), (actor_type, actor_id)
        else:
            assert actor_id.startswith(f"@{tenant}@"), (actor_type, actor_id)
    assert {"PushPopActor", "QueueIndexActor"} <= {actor_type for actor_type, _ in called}
