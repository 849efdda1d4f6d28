"""The actor of a record: what it costs, and what is left of it when its time is over."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from holdfast.idempotency.actor import IdempotencyActor
from holdfast.idempotency.interface import record_id
from holdfast.idempotency.record import DEFAULT_RETENTION
from holdfast.kinds import IDEMPOTENCY_TYPE
from tests.support.simulated import ActorStage, on_simulated_host

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dapr.actor import Actor

KEY = "invoice-17"


class Stage(ActorStage):
    """A host with one record, which counts what is asked of its storage."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def actors(self) -> Iterable[type[Actor]]:
        return (IdempotencyActor,)

    async def start(self) -> None:
        await super().start()
        before = self.host.storage.before
        assert before is not None

        async def counted(what: str) -> None:
            self.asked.append(what)
            await before(what)

        self.host.storage.before = counted

    async def call(self, method: str, **data: Any) -> Any:
        named = {"key": KEY} if method == "Begin" else {}
        return await self.invoke(IDEMPOTENCY_TYPE, record_id("default", KEY), method, named | data)

    def rows(self) -> int:
        return sum(f"||{IDEMPOTENCY_TYPE}||" in row for row in self.host.storage.rows)


on_stage = on_simulated_host(Stage)


@on_stage
async def test_begin_and_commit_are_two_saves_and_one_reminder(stage: Stage) -> None:
    await stage.call("Begin", owner="a")
    for _ in range(3):
        await stage.call("Renew", owner="a")
    await stage.call("Commit", owner="a")
    assert (stage.asked.count("save"), stage.asked.count("remind")) == (5, 1)
    stage.asked.clear()
    assert (await stage.call("Begin", owner="b"))["outcome"] == "done"
    assert stage.asked == []


@on_stage
async def test_nothing_is_left_when_its_time_is_over(stage: Stage) -> None:
    await stage.call("Begin", owner="a")
    await asyncio.sleep(20)
    await stage.call("Commit", owner="a", result=1)
    await asyncio.sleep(DEFAULT_RETENTION - 1)
    assert (await stage.call("Begin", owner="b"))["outcome"] == "done"
    await asyncio.sleep(100)
    assert stage.rows() == 0


@on_stage
async def test_a_short_retention_is_not_put_off_to_that_of_the_lease(stage: Stage) -> None:
    await stage.call("Begin", owner="a", lease_seconds=3600)
    await stage.call("Commit", owner="a", retention_seconds=5)
    await asyncio.sleep(6)
    assert (await stage.call("Commit", owner="a"))["error_code"] == "LEASE_LOST"
    await asyncio.sleep(100)
    assert stage.rows() == 0


@on_stage
async def test_what_nobody_finished_is_forgotten_too(stage: Stage) -> None:
    await stage.call("Begin", owner="a")
    await asyncio.sleep(DEFAULT_RETENTION + 100)
    assert stage.rows() == 0
    assert (await stage.call("Commit", owner="a"))["error_code"] == "LEASE_LOST"


@on_stage
async def test_a_record_of_another_life_does_not_count(stage: Stage) -> None:
    assert (await stage.call("Begin", owner="a", incarnation="first"))["attempt"] == 1
    await stage.call("Commit", owner="a", result=1)
    assert (await stage.call("Begin", owner="a", incarnation="first"))["outcome"] == "done"
    assert (await stage.call("Begin", owner="b"))["outcome"] == "done"
    begun = await stage.call("Begin", owner="b", incarnation="second")
    assert (begun["outcome"], begun["attempt"]) == ("run", 1)
    # Owners of the first incarnation have lost their lease.
    assert (await stage.call("Commit", owner="a", result=2))["error_code"] == "LEASE_LOST"
    # An owner that takes over continues the same incarnation.
    await stage.call("Fail", owner="b", error="no")
    assert (await stage.call("Begin", owner="c", incarnation="second"))["attempt"] == 2
