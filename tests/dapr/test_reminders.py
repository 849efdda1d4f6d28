"""Reminders on the real scheduler."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.dapr.actors import fired
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.dapr.cluster import Replica

# One worker starts what they share.
pytestmark = pytest.mark.xdist_group("dapr-reminders")


async def register(replica: Replica, actor: str, **reminder: Any) -> None:
    await replica.call("Reminded", actor, "register", {"name": "main", **reminder})


async def test_one_that_fails_is_tried_as_its_policy_says(replica: Replica) -> None:
    await register(replica, "policy", failures=5, retry_every=0.1)
    await eventually(lambda: fired["policy"] == ["failed"] * 5 + ["fired"])


async def test_one_without_a_policy_is_tried_until_it_succeeds(replica: Replica) -> None:
    await register(replica, "default", failures=5)
    await eventually(lambda: fired["default"] == ["failed"] * 5 + ["fired"])


@pytest.mark.parametrize("key", ["failurePolicy", "failure_policy"])
async def test_over_http_daprd_reads_no_policy(replica: Replica, key: str) -> None:
    """Why reminders go over gRPC. When this fails, daprd has learnt it."""
    data = base64.b64encode(json.dumps({"failures": 99}).encode()).decode()
    body = {"dueTime": "0s", "data": data, key: {"constant": {"interval": "0.1s"}}}
    answer = await replica.client.http.ask("PUT", f"/actors/Reminded/{key}/reminders/main", json.dumps(body).encode())
    assert answer.ok
    await eventually(lambda: len(fired[key]) == 4)
    # The scheduler hears of the fourth failure a moment after the app has raised it; then it is gone.
    async with asyncio.timeout(30):
        while (await replica.client.http.ask("GET", f"/actors/Reminded/{key}/reminders/main")).status != 404:
            await asyncio.sleep(0.05)
    assert len(fired[key]) == 4


@pytest.mark.parametrize("due", [0, 0.01, 0.2])
async def test_one_that_registers_itself_again_is_not_lost_with_the_first(replica: Replica, due: float) -> None:
    """The scheduler acknowledges a revision of a job; the next one has another."""
    actor, times = f"again-{due}", 10 if due == 0.2 else 100
    await register(replica, actor, again=times, due=due)
    await eventually(lambda: len(fired[actor]) == times + 1, within=60)


async def test_one_registered_right_after_it_fired_is_not_lost(replica: Replica) -> None:
    """While the acknowledgement of the first is under way."""
    for times in range(1, 51):
        await register(replica, "after")
        await eventually(lambda times=times: len(fired["after"]) == times)


async def test_one_that_registers_itself_again_and_then_fails_fires_once_for_that(replica: Replica) -> None:
    await register(replica, "both", again=1, due=0.5, fail_after=1)
    await eventually(lambda: fired["both"] == ["fired", "fired"])
    await register(replica, "marker-of-both", due=2)
    await eventually(lambda: fired["marker-of-both"] == ["fired"])
    assert fired["both"] == ["fired", "fired"]


async def test_one_that_is_registered_anew_replaces_the_first(replica: Replica) -> None:
    await register(replica, "replaced", due=0.5)
    await register(replica, "replaced", due=1.0)
    await register(replica, "marker-of-replaced", due=2)
    await eventually(lambda: fired["marker-of-replaced"] == ["fired"])
    assert fired["replaced"] == ["fired"]


async def test_many_actors_register_at_once(replica: Replica) -> None:
    await asyncio.gather(*(register(replica, f"crowd-{number}", due=0.1) for number in range(50)))
    await eventually(lambda: all(fired[f"crowd-{number}"] == ["fired"] for number in range(50)))
