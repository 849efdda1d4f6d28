from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.dapr.cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.dapr.cluster import Replica


@pytest.fixture(scope="module")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    """Placement and scheduler, without a replica."""
    async with Cluster(tmp_path_factory.mktemp("dapr")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
async def replica(cluster: Cluster) -> Replica:
    """A ready replica for the tests of a module that leave it as it was."""
    replica = await cluster.add()
    await replica.ready()
    return replica
