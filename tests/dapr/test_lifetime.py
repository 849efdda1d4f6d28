"""How long actors, their timers and their host last."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from holdfast import errors
from tests.dapr.actors import fired, gates, reached
from tests.dapr.cluster import Cluster
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.dapr.cluster import Replica

# One worker starts what they share.
pytestmark = pytest.mark.xdist_group("dapr-lifetime")


@pytest.fixture
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    async with Cluster(tmp_path_factory.mktemp("lifetime")) as cluster:
        yield cluster


async def in_memory(replica: Replica, actor_type: str) -> int:
    return (await replica.host.active_counts())[actor_type]


async def test_idle_actors_leave_and_a_turn_may_take_longer_than_they_stay(cluster: Cluster) -> None:
    replica = await cluster.add(idle_timeout=0.5)
    await replica.ready()
    held = asyncio.create_task(replica.call("Tally", "long", "add_at_gate", "long"))
    await asyncio.gather(*(replica.call("Tally", f"short-{number}", "add", 1) for number in range(20)))

    async def only_one_is_left() -> bool:
        return await in_memory(replica, "Tally") == 1

    await eventually(only_one_is_left)
    gates["long"].set()
    assert await held == 1
    assert await replica.call("Tally", "short-7", "add", 1) == 2


async def test_timers_go_with_their_actor(cluster: Cluster) -> None:
    replica = await cluster.add(idle_timeout=1.0)
    await replica.ready()
    await replica.call("Ticking", "soon", "start", {"name": "main", "due": 0.2})
    await replica.call("Ticking", "late", "start", {"name": "main", "due": 2.5})
    await eventually(lambda: fired["soon"] == ["main"])

    async def none_is_left() -> bool:
        return await in_memory(replica, "Ticking") == 0

    await eventually(none_is_left)
    # This one is started later and due later: by then the other has had its chance.
    await replica.call("Ticking", "marker", "start", {"name": "main", "due": 0.9})
    await eventually(lambda: fired["marker"] == ["main"])
    await replica.call("Ticking", "marker-2", "start", {"name": "main", "due": 0.9})
    await eventually(lambda: fired["marker-2"] == ["main"])
    assert fired["late"] == []


async def test_the_stop_waits_for_turns_and_takes_no_more(cluster: Cluster) -> None:
    replica = await cluster.add()
    await replica.ready()
    held = asyncio.create_task(replica.call("Tally", "last", "add_at_gate", "last"))
    await reached["last"].wait()
    stopping = asyncio.create_task(replica.host.stop())
    await eventually(lambda: replica.host.stopping)
    assert "stopping" in (await replica.host.readiness()).reason
    with pytest.raises(errors.Unavailable):
        await replica.call("Tally", "another", "add", 1)
    assert not stopping.done()
    gates["last"].set()
    assert await held == 1
    await stopping
    await replica.host.stop()


async def test_the_stop_does_not_wait_for_ever(cluster: Cluster) -> None:
    replica = await cluster.add(drain_timeout=0.2)
    await replica.ready()
    held = asyncio.create_task(replica.call("Tally", "stuck", "add_at_gate", "stuck"))
    await reached["stuck"].wait()
    async with asyncio.timeout(10):
        await replica.host.stop()
    gates["stuck"].set()
    with pytest.raises(errors.Unavailable):
        await held


@pytest.mark.parametrize("begun", [False, True], ids=["before the stop", "during the stop"])
async def test_the_stop_waits_for_no_turn_after_an_abort(cluster: Cluster, begun: bool) -> None:
    replica = await cluster.add(drain_timeout=3600)
    await replica.ready()
    name = f"aborted-{begun}"
    held = asyncio.create_task(replica.call("Tally", name, "add_at_gate", name))
    await reached[name].wait()
    stopping = asyncio.create_task(replica.host.stop()) if begun else None
    if begun:
        await eventually(lambda: replica.host.stopping)
    replica.host.abort_turns()
    async with asyncio.timeout(20):
        await (stopping or replica.host.stop())
    gates[name].set()
    with pytest.raises(errors.Unavailable):
        await held


PROBES = [
    "--enable-app-health-check",
    *("--app-health-probe-interval", "1"),
    *("--app-health-probe-timeout", "400"),
    *("--app-health-threshold", "1"),
]


@pytest.mark.parametrize("actor_type", ["Tally", "Plain"])
async def test_nothing_in_memory_outlives_a_health_probe_that_failed(cluster: Cluster, actor_type: str) -> None:
    """daprd takes the actors away and does not say so."""
    replica = await cluster.add(serve=False, sidecar_arguments=PROBES)
    healthy = replica.add_health()
    await replica.start_app()
    await replica.ready()
    assert await replica.call(actor_type, "probed", "add", 1) == 1
    assert await replica.call(actor_type, "probed", "add", 1) == 2

    healthy.clear()
    await replica.waits_for("does not run this app's actors")
    with closing(sqlite3.connect(cluster.database)) as database, database:
        database.execute("UPDATE state SET value = '50' WHERE key LIKE '%||probed||count'")
    healthy.set()
    await replica.ready()
    assert await replica.call(actor_type, "probed", "add", 1) == 51


async def test_under_health_probes_memory_is_kept_between_turns(cluster: Cluster) -> None:
    replica = await cluster.add(serve=False, sidecar_arguments=PROBES)
    replica.add_health()
    await replica.start_app()
    await replica.ready()
    await replica.call("Tally", "kept", "add", 1)

    async def is_kept() -> bool:
        epoch = replica.client.epoch
        await replica.call("Tally", "kept", "get")
        return replica.client.epoch == epoch

    await eventually(is_kept)
