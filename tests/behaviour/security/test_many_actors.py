"""Callers that name thousands of queues: memory and the event loop are for all."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from holdfast.kinds import QUEUE_TYPE
from tests.behaviour.security.event_loop_holds import REPEATS, Holds
from tests.behaviour.security.guarded import OnEmbedded

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.behaviour.security.guarded import Guarded

# One worker starts what they share.
pytestmark = pytest.mark.xdist_group("attacks-actors")

#: How many idle actors may stay in memory.
IDLE = 4_000
QUEUES = 6_000
CALLERS = 16
#: Turns that have not ended when the actors are counted.
BUSY = 100


@pytest.fixture(scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Guarded]:
    async with OnEmbedded(tmp_path_factory.mktemp("actors")) as guarded:
        yield guarded


async def name_queues(server: Guarded, prefix: str) -> None:
    numbers = iter(range(QUEUES))

    async def caller() -> None:
        for number in numbers:
            answer = await server.ask("GET", f"/queue/{prefix}-{number}", token="acme-user")
            assert answer.status == 200

    await asyncio.gather(*(caller() for _ in range(CALLERS)))


async def active_queues(server: Guarded) -> int:
    status = (await server.ask("GET", "/status", token="operator")).ok()
    return next(int(actors["active"]) for actors in status["actors"] if actors["type"] == QUEUE_TYPE)


async def test_queues_that_are_only_named_stay_neither_in_memory_nor_in_the_store(server: Guarded) -> None:
    before = server.stored()
    waiting = asyncio.create_task(server.ask("POST", "/queue/spare/pop?wait_seconds=300", token="user"))
    holds = Holds(server)
    for attempt in range(REPEATS):
        await holds.too_long()
        await name_queues(server, f"named-{attempt}")
        assert await active_queues(server) <= IDLE + BUSY
        # Only a collection of garbage whose time follows the number of actors holds the event loop each time.
        if await holds.too_long() == 0:
            break
    else:
        raise AssertionError("the event loop was held each time")
    assert server.stored() == before
    # Another tenant's poll is answered at once, though the actor that it waits for made room meanwhile.
    (await server.ask("POST", "/queue/spare/push", {"item": "for who waits"}, token="user")).ok()
    assert (await waiting).ok()["items"] == ["for who waits"]
