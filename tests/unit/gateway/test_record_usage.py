"""The quota of idempotency records: what is stored counts, whichever process wrote it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.errors import Capacity, SaveFailed
from holdfast.gateway.quotas.quotas import Quota, Quotas
from holdfast.gateway.quotas.record_usage import RecordUsage
from holdfast.idempotency.actor import IdempotencyActor
from holdfast.idempotency.interface import record_id
from holdfast.idempotency.record import RECORD_BYTES
from holdfast.idempotency.usage_actor import RecordUsageActor
from holdfast.idempotency.usage_reports import UsageReports, stored_bytes
from holdfast.kinds import IDEMPOTENCY_TYPE
from holdfast.runtime.simulated import Faults
from tests.support.simulated import ActorStage, on_simulated_host

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dapr.actor import Actor

HOUR = 3600
KEY_BYTES = 5
QUOTA = 3 * (RECORD_BYTES + KEY_BYTES)


class Stage(ActorStage):
    """A host with records, and the quota that a gateway enforces on them."""

    def __init__(self) -> None:
        super().__init__()
        self.usage = self.gateway()

    def actors(self) -> Iterable[type[Actor]]:
        return (IdempotencyActor, RecordUsageActor)

    def gateway(self, *, alone: bool = True) -> RecordUsage:
        return RecordUsage(self.host.client, Quotas({"acme": Quota(max_idempotency_bytes=QUOTA)}), alone=alone)

    async def restart(self) -> None:
        await super().restart()
        self.usage = self.gateway()

    async def call(self, key: str, method: str, **data: Any) -> Any:
        assert len(key) == KEY_BYTES
        named = {"key": key, "tenant": "acme"} if method == "Begin" else {}
        return await self.invoke(IDEMPOTENCY_TYPE, record_id("acme", key), method, named | {"owner": "a"} | data)

    async def stored(self) -> int:
        """Returns the bytes that the usage actor counts once all processes have reported."""
        await UsageReports.of(self.host.client).flush("acme")
        return await stored_bytes(self.host.client, "acme")

    async def full(self, usage: RecordUsage | None = None) -> bool:
        """Returns whether a new record is refused."""

        async def exists() -> bool:
            return False

        try:
            await (usage or self.usage).check("acme", exists)
        except Capacity:
            return True
        return False


on_stage = on_simulated_host(Stage)


@on_stage
async def test_a_record_counts_until_it_expires(stage: Stage) -> None:
    for number in range(3):
        assert not await stage.full()
        await stage.call(f"key-{number}", "Begin")
        await stage.call(f"key-{number}", "Commit", retention_seconds=HOUR)
        await asyncio.sleep(3)
    assert await stage.full()
    await asyncio.sleep(HOUR - 30)
    assert await stage.full()
    await asyncio.sleep(120)
    assert not await stage.full()
    assert await stage.stored() == 0


@on_stage
async def test_a_record_counts_once_with_its_key_its_result_and_its_error(stage: Stage) -> None:
    await stage.call("key-a", "Begin")
    assert await stage.stored() == RECORD_BYTES + KEY_BYTES
    await stage.call("key-a", "Renew", lease_seconds=60)
    await stage.call("key-a", "Fail", error="x" * 100)
    assert await stage.stored() == RECORD_BYTES + KEY_BYTES + 100
    await stage.call("key-a", "Begin")
    await stage.call("key-a", "Commit", result="é" * 100, retention_seconds=30 * 24 * HOUR)
    await stage.call("key-a", "Commit", result="é" * 100)
    assert await stage.stored() == RECORD_BYTES + KEY_BYTES + 202
    assert await stored_bytes(stage.host.client, "umbrella") == 0


@on_stage
async def test_a_deleted_record_counts_no_more(stage: Stage) -> None:
    for key in ("key-a", "key-b"):
        await stage.call(key, "Begin", incarnation="first")
        await stage.call(key, "Commit")
    deleted = await stage.invoke(IDEMPOTENCY_TYPE, record_id("acme", "key-a"), "Delete", {"incarnation": "first"})
    assert deleted["deleted"]
    assert await stage.stored() == RECORD_BYTES + KEY_BYTES + len("null")


@on_stage
async def test_what_is_stored_counts_after_a_restart(stage: Stage) -> None:
    for number in range(3):
        await stage.call(f"key-{number}", "Begin")
    await asyncio.sleep(2)
    stage.host.crash()
    await stage.restart()
    assert await stage.full()


@on_stage
async def test_a_stop_reports_what_is_not_counted_yet(stage: Stage) -> None:
    await stage.call("key-0", "Begin")
    await UsageReports.of(stage.host.client).close()
    stage.host.crash()
    await stage.restart()
    assert await stored_bytes(stage.host.client, "acme") == RECORD_BYTES + KEY_BYTES


@on_stage
async def test_what_another_process_wrote_counts(stage: Stage) -> None:
    another = stage.gateway(alone=False)
    assert not await stage.full(another)
    for number in range(3):
        await stage.call(f"key-{number}", "Begin")
    # A count is refreshed beside the call, so this one may still be accepted.
    await asyncio.sleep(3)
    await stage.full(another)
    await asyncio.sleep(1)
    assert await stage.full(another)


@on_stage
async def test_what_was_just_written_counts_before_it_is_reported(stage: Stage) -> None:
    another = stage.gateway(alone=False)
    for usage in (stage.usage, another):
        assert not await stage.full(usage)
        usage.note("acme", QUOTA)
        assert await stage.full(usage)
    await asyncio.sleep(5)
    # It did not become a record.
    await stage.full()
    await stage.full(another)
    await asyncio.sleep(1)
    assert not await stage.full()
    assert not await stage.full(another)


@on_stage
async def test_a_record_that_exists_can_begin_again(stage: Stage) -> None:
    assert not await stage.full()
    stage.usage.note("acme", QUOTA)

    async def exists() -> bool:
        return True

    await stage.usage.check("acme", exists)
    assert await stage.full()


@on_stage
async def test_a_report_without_an_answer_counts_once(stage: Stage) -> None:
    await stage.call("key-0", "Begin")
    stage.host.faults = Faults(reply_lost=1.0)
    with pytest.raises(SaveFailed):
        await stage.stored()
    stage.host.faults = Faults()
    await stage.call("key-1", "Begin")
    await asyncio.sleep(5)
    assert await stage.stored() == 2 * (RECORD_BYTES + KEY_BYTES)


@on_stage
async def test_a_tenant_without_a_quota_is_not_refused(stage: Stage) -> None:
    async def exists() -> bool:
        raise AssertionError("this is not asked")

    stage.usage.note("umbrella", 10 * QUOTA)
    await stage.usage.check("umbrella", exists)
