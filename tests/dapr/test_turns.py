"""An actor runs one turn at a time, also with calls that come past daprd's own turn locks."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import aiohttp
import pytest

from tests.dapr.actors import gates, reached
from tests.dapr.cluster import APP_ID
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.dapr.cluster import Replica

pytestmark = pytest.mark.xdist_group("dapr-turns")


async def put(url: str) -> bytes:
    async with aiohttp.ClientSession() as session, session.put(url, data=b"10") as answer:
        return await answer.read()


@pytest.mark.parametrize("kind", ["Tally", "Plain"])
@pytest.mark.parametrize("way", ["to the app itself", "by service invocation"])
async def test_a_call_that_comes_past_daprds_locks_waits_for_its_turn(replica: Replica, way: str, kind: str) -> None:
    actor = f"{kind}-{way.replace(' ', '-')}"
    callback = f"/actors/{kind}/{actor}/method/add"
    # Of its own app daprd marks an invocation by nothing.
    around = {
        "to the app itself": f"{replica.url}{callback}",
        "by service invocation": f"{replica.sidecar.url}/v1.0/invoke/{APP_ID}/method{callback}",
    }
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        first = group.create_task(replica.call(kind, actor, "add_at_gate", actor))
        await reached[actor].wait()
        second = group.create_task(put(around[way]))
        await eventually(lambda: replica.host.busy == 2 or second.done())
        # One that did not wait would be done before these, which come later.
        for number in range(5):
            await put(around[way].replace(actor, f"{actor}-{number}"))
        assert not second.done()
        gates[actor].set()
    assert (first.result(), second.result()) == (1, b"11")
    assert await replica.call(kind, actor, "add", 1) == 12


async def test_a_call_that_waits_when_its_actor_is_taken_away_has_no_turn(replica: Replica) -> None:
    actor = "taken-away"
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        first = group.create_task(_outcome(replica, actor))
        await reached[actor].wait()
        second = group.create_task(put(f"{replica.url}/actors/Tally/{actor}/method/add"))
        await eventually(lambda: replica.host.busy == 2)
        async with aiohttp.ClientSession() as session, session.delete(f"{replica.url}/actors/Tally/{actor}") as answer:
            assert answer.status == 200
        # What comes after that does not wait for a turn that may change nothing more.
        assert await put(f"{replica.url}/actors/Tally/{actor}/method/add") == b"10"
        gates[actor].set()
    assert "moved to another host during its turn" in first.result()
    assert b"moved to another host during its turn" in second.result()
    assert await replica.call("Tally", actor, "get") == 10


async def _outcome(replica: Replica, actor: str) -> str:
    try:
        return str(await replica.call("Tally", actor, "add_at_gate", actor))
    except Exception as error:
        return str(error)
