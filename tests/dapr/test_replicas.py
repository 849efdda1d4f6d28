"""Two replicas of one app share its actors, and hand them to each other."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from holdfast import errors
from tests.dapr.actors import gates, reached
from tests.dapr.cluster import Cluster
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.dapr.cluster import Replica

# One worker starts what they share.
pytestmark = pytest.mark.xdist_group("dapr-replicas")

ACTORS = [f"shared-{number}" for number in range(24)]


@pytest.fixture
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    async with Cluster(tmp_path_factory.mktemp("replicas")) as cluster:
        yield cluster


async def both(cluster: Cluster) -> tuple[Replica, Replica]:
    # One after the other: of two that make a SQLite file at once, one finds it locked, and ends.
    first = await cluster.add()
    await first.ready()
    second = await cluster.add()
    await second.ready()
    return first, second


async def add_to_each(replica: Replica, actor_type: str = "Tally") -> set[int]:
    return set(await asyncio.gather(*(replica.call(actor_type, actor, "add", 1) for actor in ACTORS)))


async def has(replica: Replica, actor_type: str = "Tally") -> int:
    return (await replica.host.active_counts())[actor_type]


@pytest.mark.parametrize("actor_type", ["Tally", "Plain"])
async def test_actors_move_and_come_back_with_their_state(cluster: Cluster, actor_type: str) -> None:
    first = await cluster.add()
    await first.ready()
    assert await add_to_each(first, actor_type) == {1}
    assert await has(first, actor_type) == len(ACTORS)

    second = await cluster.add()
    await second.ready()
    assert await add_to_each(first, actor_type) == {2}
    assert await add_to_each(second, actor_type) == {3}
    assert 0 < await has(first, actor_type) < len(ACTORS)
    assert await has(first, actor_type) + await has(second, actor_type) == len(ACTORS)

    # What was in the first one's memory is old by now.
    await second.sidecar.stop()
    await eventually(lambda: came_back(first, actor_type))
    assert await add_to_each(first, actor_type) == {4}
    assert await has(first, actor_type) == len(ACTORS)


async def came_back(replica: Replica, actor_type: str) -> bool:
    """Once all of them can be called; nothing is changed by it."""
    try:
        await asyncio.gather(*(replica.call(actor_type, actor, "add", 0) for actor in ACTORS))
    except errors.Unavailable:
        return False
    return True


async def test_under_load_a_replica_comes_and_goes_and_nothing_acknowledged_is_lost(cluster: Cluster) -> None:
    first = await cluster.add()
    await first.ready()
    counts = dict.fromkeys(ACTORS, 0)
    over = asyncio.Event()

    async def count(actor: str) -> None:
        while not over.is_set():
            try:
                answer = await first.call("Tally", actor, "add", 1)
            except errors.Unavailable:
                continue
            assert answer > counts[actor]
            counts[actor] = answer

    async def all_went_on() -> None:
        before = dict(counts)
        await eventually(lambda: all(counts[actor] > before[actor] + 2 for actor in ACTORS), within=60)

    async with asyncio.TaskGroup() as counting:
        for actor in ACTORS:
            counting.create_task(count(actor))
        await all_went_on()
        second = await cluster.add()
        await second.ready()
        await all_went_on()
        assert await has(second) > 0
        await second.sidecar.kill()
        await all_went_on()
        over.set()
    for actor in ACTORS:
        assert await first.call("Tally", actor, "get") >= counts[actor]


async def test_turns_that_actors_move_away_from_save_nothing_and_calls_made_again_are_done_once(
    cluster: Cluster,
) -> None:
    first = await cluster.add()
    await first.ready()
    held = [asyncio.create_task(first.call("Tally", actor, "add_at_gate", "taken")) for actor in ACTORS]
    await reached["taken"].wait()
    await eventually(lambda: first.host.busy == len(ACTORS))
    # The turns stand still, so daprd gives up waiting for them and makes the calls again: here, where the first turn
    # of an actor that stays still runs, and there, where the moved ones begin anew.
    second = await cluster.add()
    await second.ready()
    await eventually(lambda: second.host.busy > 0)
    gates["taken"].set()
    assert await asyncio.gather(*held) == [1] * len(ACTORS)
    await eventually(lambda: not first.host.busy and not second.host.busy)
    assert await add_to_each(first) == {2}
    for actor in ACTORS:
        assert await first.client.load_state("Tally", actor, ["count"]) == {"count": b"2"}


async def test_a_turn_whose_actor_went_and_came_back_does_not_save(cluster: Cluster) -> None:
    first = await cluster.add()
    await first.ready()
    for actor in ACTORS:
        left = asyncio.create_task(first.call("Tally", actor, "add_at_gate", actor))
        await reached[actor].wait()
        # The call is not repeated; its turn goes on here.
        left.cancel()
    assert first.host.busy == len(ACTORS)

    second = await cluster.add()
    await second.ready()
    asked = {actor: asyncio.create_task(first.call("Tally", actor, "where")) for actor in ACTORS}

    async def gone() -> list[str]:
        """Returns the actors that answered elsewhere, once all that moved have: the others are in a turn."""
        answered = [actor for actor, answer in asked.items() if answer.done()]
        there = (await first.host.active_counts())["Tally"]
        return answered if len(answered) == len(ACTORS) - there else []

    moved = await eventually(gone)
    for actor in moved:
        assert asked[actor].result() == id(second.client)
        assert await second.call("Tally", actor, "add", 10) == 10
    await second.sidecar.kill()
    for actor in moved:
        assert await eventually(lambda actor=actor: added(first, actor)) == 20
    for actor in ACTORS:
        gates[actor].set()
    await eventually(lambda: first.host.busy == 0)
    for actor in moved:
        assert await first.client.load_state("Tally", actor, ["count"]) == {"count": b"20"}
    await asyncio.gather(*asked.values())


async def added(replica: Replica, actor: str) -> int:
    try:
        answer: int = await replica.call("Tally", actor, "add", 10)
    except errors.Unavailable:
        return 0
    return answer


async def test_a_replica_that_dies_leaves_its_actors_to_the_other(cluster: Cluster) -> None:
    first, second = await both(cluster)
    assert await add_to_each(first) == {1}
    await second.sidecar.kill()
    await second.stop_app()
    await eventually(lambda: came_back(first, "Tally"))
    assert await add_to_each(first) == {2}


async def test_an_error_of_an_actor_elsewhere_keeps_its_code(cluster: Cluster) -> None:
    first, second = await both(cluster)
    for actor in ACTORS:
        with pytest.raises(errors.NotFound) as caught:
            await first.call("Grumpy", actor, "refuse", "NOT_FOUND")
        assert caught.value.details == {"thing": {"id": 7}, "hint": "kept"}
    assert await has(second, "Grumpy") > 0


async def test_another_app_with_the_same_actors_is_reported(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    first = await cluster.add(app_id="ours")
    await first.ready()
    await add_to_each(first)
    assert "ANOTHER APP" not in caplog.text
    second = await cluster.add(app_id="theirs")
    await second.ready()
    await add_to_each(first)
    assert "ANOTHER APP HAS Tally ACTORS TOO: theirs." in caplog.text
    assert caplog.text.count("ANOTHER APP") == 1
