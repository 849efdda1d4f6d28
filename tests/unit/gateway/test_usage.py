"""Quotas of tenants over several gateways: what each knows of the others' pushes, and what it costs to know."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import pytest

from holdfast.errors import Capacity, InvalidRequest, TooLarge, Unavailable
from holdfast.gateway.quotas.quotas import Quota, Quotas
from holdfast.gateway.quotas.usage import AGAIN_SECONDS, FRESH_SECONDS, LISTED_WITHIN, STALE_SECONDS, TenantUsages
from holdfast.names import partition_id, qualify
from holdfast.pushpop.index import shard_of
from holdfast.runtime.serialization import dump
from holdfast.wire.errors import raise_for_refusal
from tests.unit.gateway.stage import on_stage

if TYPE_CHECKING:
    from holdfast.runtime.contract import HostClient
    from tests.unit.gateway.stage import Gateway, Stage

QUOTAS = Quotas(
    {
        "acme": Quota(max_items=10),
        "few": Quota(max_queues=2),
        "both": Quota(max_items=10, max_queues=2),
        "small": Quota(max_bytes=1000),
    }
)


class Limited:
    """A gateway that keeps to quotas."""

    def __init__(self, gateway: Gateway) -> None:
        self.client = gateway.client
        self._gateway = gateway
        self._allowances = TenantUsages(cast("HostClient", gateway.client), gateway.partitions, QUOTAS)
        gateway.partitions.listeners.append(self._allowances.observe)

    async def push(self, count: int, queue: str = "orders", tenant: str = "acme", payload: str = "") -> None:
        data: dict[str, Any] = {"items": [{"item": payload or number} for number in range(count)]}
        name = qualify(tenant, queue)
        body = dump(data)
        async with self._allowances.pushing(name, count, len(body)):
            raise_for_refusal(await self._gateway.pushes.push(name, body, data))

    async def configure(self, queue: str, tenant: str = "few", **changes: Any) -> None:
        name = qualify(tenant, queue)
        async with self._allowances.configuring(name):
            await self._gateway.configuration.change(name, dump(changes), changes)

    async def pop(self, count: int, queue: str = "orders", tenant: str = "acme") -> None:
        answer = await self._gateway.partitions.pop(qualify(tenant, queue), "Pop", dump({"count": count}))
        assert answer["count"] == count


@on_stage
async def test_one_gateway_is_exact_and_asks_nobody_for_that(stage: Stage) -> None:
    gateway = Limited(stage.gateway())
    await gateway.push(1)
    asked = len(gateway.client.calls)
    results = await asyncio.gather(*(gateway.push(1) for _ in range(20)), return_exceptions=True)
    assert sum(result is None for result in results) == 9
    assert all(result is None or isinstance(result, Capacity) for result in results)
    # The pushes themselves, gathered; nothing was counted in between.
    assert {what for _, calls in gateway.client.calls[asked:] for what in calls} == {"Push"}
    await gateway.pop(4)
    await gateway.push(4)
    with pytest.raises(Capacity):
        await gateway.push(1)


@on_stage
async def test_a_push_that_never_has_room_is_not_told_to_try_again(stage: Stage) -> None:
    gateway = Limited(stage.gateway())
    with pytest.raises(TooLarge, match="10 items in all queues together, and this push alone has 11") as told:
        await gateway.push(11)
    assert not told.value.retryable
    await gateway.push(10)


@on_stage
async def test_bytes_of_all_queues_count(stage: Stage) -> None:
    gateway = Limited(stage.gateway())
    with pytest.raises(TooLarge, match="1000 bytes in all queues together, and this push alone has 1"):
        await gateway.push(1, tenant="small", payload="x" * 1000)
    await gateway.push(1, tenant="small", payload="x" * 400)
    await gateway.push(1, "other", tenant="small", payload="x" * 300)
    # 64 beside the payload of each, and its quotation marks.
    with pytest.raises(Capacity, match=f"1000 bytes in all queues together, and has {2 * 66 + 700}"):
        await gateway.push(1, tenant="small", payload="x" * 200)
    await gateway.pop(1, tenant="small")
    await gateway.push(1, tenant="small", payload="x" * 200)


@on_stage
async def test_what_went_through_another_is_heard_of_soon(stage: Stage) -> None:
    one, other = Limited(stage.gateway()), Limited(stage.gateway())
    await one.push(1)
    await other.push(8, "elsewhere")
    # Not yet known here, and still let in: that is what is approximate.
    await one.push(3)
    await asyncio.sleep(STALE_SECONDS + 1)
    with pytest.raises(Capacity, match="has 12"):
        await other.push(1)
    # There is room again, through the other one: before anybody is refused, it is looked.
    await one.pop(4)
    await asyncio.sleep(AGAIN_SECONDS + 1)
    await other.push(2, "elsewhere")


@on_stage
async def test_a_queue_that_is_away_stops_nobody_else(stage: Stage) -> None:
    gateway = Limited(stage.gateway())
    await gateway.push(3, "a")
    await gateway.push(3, "b")
    await asyncio.sleep(FRESH_SECONDS + 1)
    gateway.client.away.add(qualify("acme", "a"))
    await gateway.push(4, "b")
    await asyncio.sleep(FRESH_SECONDS + 1)
    with pytest.raises(Capacity):
        await gateway.push(1, "b")


@on_stage
async def test_partitions_count_together(stage: Stage) -> None:
    made = stage.gateway()
    gateway = Limited(made)
    await made.configuration.change(qualify("acme", "orders"), dump({"partitions": 3}), {"partitions": 3})
    for _ in range(5):
        await gateway.push(2)
    with pytest.raises(Capacity):
        await gateway.push(1)
    stored = await made.stored(qualify("acme", "orders"))
    assert (len(stored), sum(stored)) == (3, 10)
    # A process that has just begun has to ask for it.
    late = Limited(stage.gateway())
    with pytest.raises(Capacity):
        await late.push(1)
    assert (partition_id(qualify("acme", "orders"), 2), ("Stats",)) in late.client.calls


@on_stage
async def test_queues_are_counted_before_one_more_is_made(stage: Stage) -> None:
    one, other = Limited(stage.gateway()), Limited(stage.gateway())
    await one.push(1, "a", "few")
    await other.push(1, "b", "few")
    await asyncio.sleep(AGAIN_SECONDS + 1)
    for gateway in (one, other):
        with pytest.raises(Capacity, match="2 queues"):
            await gateway.push(1, "c", "few")
        await gateway.push(1, "a", "few")
    asked = len(one.client.calls)
    await one.push(1, "b", "few")
    assert one.client.calls[asked:] == [(qualify("few", "b"), ("Push",))]


@on_stage
async def test_a_push_that_failed_makes_no_queue(stage: Stage) -> None:
    gateway = Limited(stage.gateway())
    gateway.client.away.add(qualify("few", "a"))
    for _ in range(3):
        with pytest.raises(Unavailable):
            await gateway.push(1, "a", "few")
    await gateway.push(1, "b", "few")
    await gateway.push(1, "c", "few")
    # A shard of the index is unreachable, so the queues cannot be counted: a new queue is refused for now.
    gateway.client.away.add(shard_of("b", "few"))
    await asyncio.sleep(AGAIN_SECONDS + 1)
    with pytest.raises(Unavailable):
        await gateway.push(1, "d", "few")
    await gateway.push(1, "b", "few")


@on_stage
async def test_nor_does_one_that_was_refused(stage: Stage) -> None:
    gateway = Limited(stage.gateway())
    for queue in ("a", "b", "c"):
        with pytest.raises(TooLarge, match="10 items"):
            await gateway.push(11, queue, "both")
    await gateway.push(1, "d", "both")
    await gateway.push(1, "e", "both")


@on_stage
async def test_a_queue_that_is_only_configured_counts_and_stays(stage: Stage) -> None:
    gateway = Limited(stage.gateway())
    await gateway.configure("a", max_locks=2)
    with pytest.raises(InvalidRequest):
        await gateway.configure("wrong", max_locks=-1)
    await gateway.configure("b", max_locks=2)
    # After an admitted queue is forgotten here, and in a process that never knew it.
    await asyncio.sleep(LISTED_WITHIN + 1)
    for one in (gateway, Limited(stage.gateway())):
        with pytest.raises(Capacity, match="2 queues"):
            await one.configure("c", max_locks=2)
        await one.configure("a", max_locks=3)
        await one.push(1, "b", "few")


@on_stage
async def test_what_was_just_stored_is_not_counted_twice(stage: Stage) -> None:
    made = stage.gateway()
    gateway = Limited(made)
    await gateway.push(1, "other")
    next_one: list[asyncio.Task[None]] = []

    def observe(actor_id: str, load: int, size: int) -> None:
        # Before those who pushed are told.
        if load == 8:
            next_one.append(asyncio.create_task(gateway.push(1, "other")))

    made.partitions.listeners.append(observe)
    await gateway.push(8)
    await next_one[0]
    with pytest.raises(Capacity, match="has 10"):
        await gateway.push(1)


@on_stage
async def test_who_has_no_quota_is_not_counted(stage: Stage) -> None:
    gateway = Limited(stage.gateway())
    for tenant in ("default", "umbrella"):
        await gateway.push(50, tenant=tenant)
    assert {what for _, calls in gateway.client.calls for what in calls} == {"Push"}
