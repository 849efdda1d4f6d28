"""Calls of another app in the same placement, which has a daprd of its own, and of replicas with another secret."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aiohttp
import pytest

from holdfast.errors import Unauthorized, Unavailable
from holdfast.runtime.dapr.admission import Admission
from holdfast.runtime.serialization import dump
from tests.dapr.actors import ACTORS, Tally, fired
from tests.dapr.cluster import Cluster
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from holdfast.local import Sidecar
    from tests.dapr.cluster import Replica

pytestmark = pytest.mark.xdist_group("dapr-other-apps")

TOKEN = "one of the callers"


class Private(Tally):
    """Like Holdfast's own: some of it is for its own processes."""

    @classmethod
    def is_public(cls, actor_id: str, method: str) -> bool:
        return method == "get"


async def call(sidecar: Sidecar, actor: str, method: str, **headers: str) -> tuple[int, str]:
    url = f"{sidecar.url}/v1.0/actors/{actor}/method/{method}"
    async with aiohttp.ClientSession() as session, session.post(url, data=b"1", headers=headers) as answer:
        return answer.status, await answer.text()


def _check(token: str, _type: str, _method: str) -> None:
    if token != TOKEN:
        raise Unauthorized


@pytest.fixture(params=["public", "token", "none"])
async def reached(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[str, Replica, Sidecar]]:
    async with Cluster(tmp_path) as cluster:
        replica = await cluster.add(actors=[*ACTORS, Private], admission=Admission(request.param, _check))
        await replica.ready()
        other = await cluster.dapr.sidecar(app_id="neighbour")
        await other.wait_ready()
        yield request.param, replica, other


async def test_other_apps_call_what_they_may(reached: tuple[str, Replica, Sidecar]) -> None:
    other_apps, replica, neighbour = reached
    assert await replica.call("Private", "a", "add", 3) == 3
    for sidecar in (replica.sidecar, neighbour):
        status, text = await call(sidecar, "Private/a", "get")
        assert status == (200 if other_apps == "public" else 500), text
        # daprd hands this header on.
        status, text = await call(sidecar, "Private/a", "get", authorization=f"Bearer {TOKEN}")
        assert status == (500 if other_apps == "none" else 200), text
        status, text = await call(sidecar, "Private/a", "add", authorization=f"Bearer {TOKEN}")
        assert (status, "FORBIDDEN" in text) == (500, True), text
        status, text = await call(sidecar, "Tally/a", "get")
        assert status == (200 if other_apps == "public" else 500), text
    assert await replica.call("Private", "a", "get") == 3


async def test_reminders_and_timers_of_daprd_itself_are_taken_all_the_same(
    reached: tuple[str, Replica, Sidecar],
) -> None:
    _, replica, _ = reached
    key = f"other-apps-{replica.sidecar.http_port}"
    await replica.call("Reminded", key, "register", {"name": "now"})
    await eventually(lambda: fired[key] == ["fired"])
    await replica.call("Ticking", key + "-t", "start", {"name": "tick", "due": 0})
    await eventually(lambda: fired[key + "-t"] == ["tick"])


async def test_replicas_with_different_secrets_say_so(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        first = await cluster.add(actors=[Private], actor_secret="that of the first")
        second = await cluster.add(actors=[Private], actor_secret="that of the second")
        await first.ready()
        await second.ready()

        async def sentence() -> str:
            """As soon as placement has given one of these to the second."""
            for number in range(50):
                try:
                    await first.client.invoke_method("Private", str(number), "add", dump(1))
                except Unavailable as error:
                    if "HOLDFAST_ACTOR_SECRET" in str(error):
                        return str(error)
            return ""

        assert await eventually(sentence)
