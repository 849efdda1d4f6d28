"""daprd is killed and comes back on the same ports while the app runs on."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import errors
from tests.dapr.actors import gates, reached
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from tests.dapr.cluster import Cluster, Replica

# One worker starts what they share.
pytestmark = pytest.mark.xdist_group("dapr-recovery")


@pytest.fixture(autouse=True)
async def ready(replica: Replica) -> None:
    await replica.ready()


async def fails(call: Coroutine[Any, Any, Any]) -> None:
    with pytest.raises(errors.Unavailable):
        await call


async def stored(replica: Replica, actor: str) -> int:
    """Past the actor's memory."""
    return int((await replica.client.load_state("Tally", actor, ["count"]))["count"])


def change_behind_the_host(cluster: Cluster, actor: str, value: int) -> None:
    """As another host does that has the actor meanwhile."""
    with closing(sqlite3.connect(cluster.database)) as database, database:
        changed = database.execute("UPDATE state SET value = ? WHERE key LIKE ?", (str(value), f"%||{actor}||count"))
        assert changed.rowcount == 1


async def test_a_turn_of_before_changes_nothing_after(replica: Replica) -> None:
    assert await replica.call("Tally", "before", "add", 1) == 1
    old = asyncio.create_task(replica.call("Tally", "before", "add_at_gate", "before"))
    await reached["before"].wait()
    await replica.sidecar.kill()
    await fails(old)
    await replica.sidecar.start()
    assert await replica.call("Tally", "before", "add", 10) == 11
    gates["before"].set()
    await eventually(lambda: not replica.host.busy)
    assert await stored(replica, "before") == 11


async def test_a_save_that_waits_for_the_sidecar_is_not_made_with_the_next_one(replica: Replica) -> None:
    assert await replica.call("Tally", "waiting", "add", 1) == 1
    old = asyncio.create_task(replica.call("Tally", "waiting", "add_at_gate", "waiting"))
    await reached["waiting"].wait()
    await replica.sidecar.kill()
    await fails(old)
    gates["waiting"].set()
    await replica.sidecar.start()
    assert await replica.call("Tally", "waiting", "add", 10) == 11
    await eventually(lambda: not replica.host.busy)
    assert await stored(replica, "waiting") == 11


@pytest.mark.parametrize("actor_type", ["Tally", "Plain"])
async def test_nothing_in_memory_outlives_the_sidecar(cluster: Cluster, replica: Replica, actor_type: str) -> None:
    assert await replica.call(actor_type, f"memory-{actor_type}", "add", 1) == 1
    await replica.sidecar.kill()
    change_behind_the_host(cluster, f"memory-{actor_type}", 50)
    await replica.sidecar.start()
    assert await replica.call(actor_type, f"memory-{actor_type}", "add", 1) == 51


async def test_what_was_acknowledged_stays(replica: Replica) -> None:
    acknowledged = dict.fromkeys((f"storm-{number}" for number in range(8)), 0)
    over = asyncio.Event()

    async def count(actor: str) -> None:
        while not over.is_set():
            try:
                acknowledged[actor] = await replica.call("Tally", actor, "add", 1)
            except errors.Unavailable:
                await asyncio.sleep(0.05)

    async with asyncio.TaskGroup() as counting:
        for actor in acknowledged:
            counting.create_task(count(actor))
        for _ in range(3):
            before = dict(acknowledged)
            await eventually(lambda before=before: all(acknowledged[actor] > before[actor] + 2 for actor in before))
            await replica.sidecar.kill()
            await replica.sidecar.start()
        over.set()
    for actor, count_ in acknowledged.items():
        assert await stored(replica, actor) >= count_


async def test_a_caller_that_leaves_does_not_let_two_turns_mix(replica: Replica) -> None:
    left = asyncio.create_task(replica.call("Tally", "left", "add_at_gate", "left"))
    await reached["left"].wait()
    left.cancel()
    following = asyncio.create_task(replica.call("Tally", "left", "add", 10))
    # daprd has let the second turn in: it waits here, for the first.
    await eventually(lambda: replica.host.busy == 2)
    gates["left"].set()
    assert await following == 11


async def test_an_app_that_is_asked_for_its_types_by_others_keeps_its_memory(replica: Replica) -> None:
    await replica.call("Tally", "curious", "add", 1)
    epoch = replica.client.epoch
    status, _ = await replica.get("/dapr/config")
    assert status == 200
    assert replica.client.epoch == epoch
