"""Readiness says what is waited for, and comes back by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.dapr.actors import ACTORS, Shelf, Tally
from tests.dapr.cluster import Cluster

if TYPE_CHECKING:
    from pathlib import Path

# One worker starts what they share.
pytestmark = pytest.mark.xdist_group("dapr-readiness")


async def test_it_follows_the_sidecar_and_placement(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        replica = await cluster.add(serve=False)
        await replica.waits_for("does not run this app's actors")
        await replica.start_app()
        await replica.ready()

        await cluster.dapr.placement.kill()
        await replica.waits_for("placement")
        await cluster.dapr.placement.start()
        await replica.ready()
        assert await replica.call("Tally", "a", "add", 1) == 1

        await replica.sidecar.kill()
        await replica.waits_for("cannot be reached")
        await replica.sidecar.start()
        await replica.ready()
        assert await replica.call("Tally", "a", "add", 1) == 2


async def test_a_sidecar_that_starts_before_placement_is_waited_for(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        await cluster.dapr.placement.kill()
        replica = await cluster.add()
        await replica.waits_for("placement")
        await cluster.dapr.placement.start()
        await replica.ready()


async def test_types_the_sidecar_has_not_heard_of_are_named(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        replica = await cluster.add(actors=[Tally])
        await replica.ready()
        await replica.host.register(Shelf)
        await replica.waits_for("Shelf")
        await replica.sidecar.restart()
        await replica.ready()


async def test_the_counts_follow_the_actors_in_memory(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        replica = await cluster.add()
        await replica.ready()
        for number in range(3):
            await replica.call("Tally", f"t-{number}", "get")
        counts = await replica.host.active_counts()
        assert counts == {actor.__name__: 3 if actor is Tally else 0 for actor in ACTORS}


async def test_a_store_that_is_not_for_actors_is_named(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        for component in (tmp_path / "resources").iterdir():
            component.unlink()
        replica = await cluster.add()
        await replica.waits_for("actorStateStore")
