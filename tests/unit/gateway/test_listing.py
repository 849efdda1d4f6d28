"""The list of queues: bounded in the partitions it asks, fair to other tenants, and cheap where nothing has changed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

from holdfast.gateway.metrics import queue_stats
from holdfast.gateway.queues import listing
from holdfast.gateway.queues.listing import QueueListing
from holdfast.gateway.queues.partitions import FAN_OUT, Partitions
from holdfast.gateway.queues.stats_cache import ALONE_SECONDS, SHARED_SECONDS, StatsCache
from holdfast.kinds import QUEUE_TYPE
from holdfast.names import qualify
from holdfast.runtime.serialization import dump, load
from tests.unit.gateway.stage import RecordingClient, Stage, on_stage
from tests.unit.gateway.test_queue_stats import Crowded, fill, stats_of

if TYPE_CHECKING:
    import pytest

    from holdfast.runtime.contract import HostClient

ATTACKER, HONEST = "attacker", "honest"
PARTITIONS = 16


class Lists:
    """``GET /queues`` of one process."""

    def __init__(self, stage: Stage, *, alone: bool = True, client: RecordingClient | None = None) -> None:
        self.client = client or RecordingClient(stage.host.client)
        self._partitions = Partitions(cast("HostClient", self.client))
        # Actors tell their own client of changes.
        remembered = StatsCache(stage.host.client, alone=alone)
        self._listing = QueueListing(cast("HostClient", self.client), self._partitions, remembered)

    async def page(self, tenant: str = ATTACKER, limit: int = 100, cursor: str | None = None) -> dict[str, Any]:
        return await self._listing.page(tenant, limit, cursor)

    async def names(self, tenant: str = ATTACKER) -> list[list[str]]:
        """The names of the queues on each page."""
        pages = []
        cursor = None
        while True:
            page = await self.page(tenant, cursor=cursor)
            pages.append([queue["queue"] for queue in page["queues"]])
            cursor = page.get("next_cursor")
            if cursor is None:
                return pages

    def asked(self) -> int:
        """How many calls to queues and their partitions there were since the last time."""
        asked = sum("Stats" in methods for _, methods in self.client.calls)
        self.client.calls.clear()
        return asked


async def call(stage: Stage, queue: str, method: str, data: Any = None, tenant: str = ATTACKER) -> Any:
    return load(await stage.host.client.invoke_method(QUEUE_TYPE, qualify(tenant, queue), method, dump(data)))


async def make(stage: Stage, queues: int, partitions: int = PARTITIONS) -> list[str]:
    names = [f"queue-{number:02}" for number in range(queues)]
    for name in names:
        await call(stage, name, "SetConfig", {"partitions": partitions})
    await asyncio.sleep(10)  # until all partitions know, and they are listed
    return names


def test_a_page_ends_when_enough_partitions_were_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "MAX_PARTITIONS", 3 * (PARTITIONS + 1))

    @on_stage
    async def body(stage: Stage) -> None:
        names = await make(stage, 8)
        lists = Lists(stage)
        await lists.page()
        # One call for the partition count of each queue that is asked concurrently.
        assert lists.asked() <= 3 * (PARTITIONS + 1) + listing.AT_ONCE
        # The partition counts of the first page's queues are cached now.
        pages = await lists.names()
        assert [name for page in pages for name in page] == names
        assert [len(page) for page in pages] == [6, 2]

    body()


def test_one_queue_of_many_partitions_is_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "MAX_PARTITIONS", 1)

    @on_stage
    async def body(stage: Stage) -> None:
        names = await make(stage, 2)
        assert await Lists(stage).names() == [[name] for name in names]

    body()


@on_stage
async def test_a_queue_that_was_not_touched_is_not_asked_again(stage: Stage) -> None:
    names = await make(stage, 3)
    lists = Lists(stage)
    first = await lists.page()
    assert lists.asked() >= 3 * PARTITIONS
    assert await lists.page() == first
    assert lists.asked() == 0
    await call(stage, f"{names[1]}@5", "Push", {"item": 1})
    page = await lists.page()
    assert [queue["count"] for queue in page["queues"]] == [0, 1, 0]
    assert lists.asked() == PARTITIONS


@on_stage
async def test_a_queue_that_changes_while_it_is_asked_is_asked_again(stage: Stage) -> None:
    [name] = await make(stage, 1)
    last = qualify(ATTACKER, f"{name}@{PARTITIONS - 1}")
    lists = Lists(stage)
    held = lists.client.held[last] = asyncio.Event()
    page = asyncio.create_task(lists.page())
    while (last, ("Stats",)) not in lists.client.calls:
        await asyncio.sleep(0.01)
    await asyncio.sleep(1)  # the others have answered
    await call(stage, name, "Push", {"item": 1})
    held.set()
    assert (await page)["queues"][0]["count"] == 0
    assert (await lists.page())["queues"][0]["count"] == 1


@on_stage
async def test_what_changes_by_itself_is_asked_again(stage: Stage) -> None:
    [name] = await make(stage, 1)
    await call(stage, name, "Push", {"items": [{"item": 1}, {"item": 2}]})
    lock = await call(stage, name, "PopWithAck", {"ttl_seconds": 300})
    lists = Lists(stage)
    for _ in range(2):
        assert (await lists.page())["queues"][0]["locked"] == 1
        assert lists.asked() >= PARTITIONS
    await call(stage, name, "Acknowledge", {"lock_id": lock["lock_id"]})
    assert (await lists.page())["queues"][0] == {"queue": name, "count": 1, "locked": 0, "dead_letters": 0}


@on_stage
async def test_what_is_remembered_has_an_end(stage: Stage) -> None:
    await make(stage, 1)
    for alone, seconds in ((True, ALONE_SECONDS), (False, SHARED_SECONDS)):
        lists = Lists(stage, alone=alone)
        await lists.page()
        lists.asked()
        await lists.page()
        assert lists.asked() <= 1  # of the dead-letter queue, which is cheap to ask
        await asyncio.sleep(seconds + 1)
        await lists.page()
        assert lists.asked() >= PARTITIONS


@on_stage
async def test_where_others_change_queues_too_a_small_one_is_always_asked(stage: Stage) -> None:
    await make(stage, 1, partitions=2)
    lists = Lists(stage, alone=False)
    for _ in range(2):
        await lists.page()
        assert lists.asked() >= 2


@on_stage
async def test_one_tenant_asks_only_so_many_partitions_at_once(stage: Stage) -> None:
    await make(stage, 8)
    crowded = Crowded(stage.host.client)
    lists = Lists(stage, client=crowded)
    # Twice, as the first time it is not known how many partitions there are.
    for _ in range(2):
        await asyncio.gather(*(lists.page() for _ in range(5)))
        for name in ("queue-00", "queue-01"):
            await call(stage, name, "Push", {"item": 1})
    assert crowded.most <= 2 * FAN_OUT + 5 * listing.AT_ONCE


@on_stage
async def test_whoever_waits_for_partitions_keeps_no_other_tenant_waiting(stage: Stage) -> None:
    await make(stage, 2)
    await call(stage, "orders", "SetConfig", {"partitions": PARTITIONS}, tenant=HONEST)
    await asyncio.sleep(10)
    lists = Lists(stage)
    stuck = {qualify(ATTACKER, f"queue-00@{number}"): asyncio.Event() for number in range(1, PARTITIONS)}
    lists.client.held |= stuck
    attacks = [asyncio.create_task(lists.page()) for _ in range(100)]
    await asyncio.sleep(1)
    assert await lists.names(HONEST) == [["orders"]]
    assert not any(attack.done() for attack in attacks)
    for event in stuck.values():
        event.set()
    await asyncio.gather(*attacks)


def test_the_metrics_ask_only_so_many_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_stats, "MOST_PARTITIONS", 2 * PARTITIONS)

    @on_stage
    async def body(stage: Stage) -> None:
        for number in range(4):
            await call(stage, f"queue-{number}", "SetConfig", {"partitions": PARTITIONS}, tenant="default")
        await fill(stage, *(f"queue-{number}" for number in range(4)))
        client = RecordingClient(stage.host.client)
        counted = await stats_of(client).take()
        assert list(counted.queues) == ["queue-0", "queue-1"]
        assert (counted.total, counted.not_shown, counted.unreachable_queues) == (4, 2, 0)
        assert sum("Stats" in methods for _, methods in client.calls) <= 2 * PARTITIONS + 4

    body()
