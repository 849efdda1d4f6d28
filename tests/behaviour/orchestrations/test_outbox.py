"""Effects reach queues, children and parents although targets refuse them and processes end."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from tests.behaviour import crash_points
from tests.behaviour.queues.test_acks import AFTER, crash_and_restart, is_not_answered
from tests.behaviour.stacks import ALL, KILLED, on_every_stack, on_stacks
from tests.support.runs import ACTOR_TYPE, Run
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.rest import Server


@on_stacks(*ALL, part=KILLED)
async def test_a_full_queue_repeats_nothing_in_another_one(server: Server) -> None:
    full = server.queue()
    full.name = "refusing"
    (await full.configure(capacity=1)).ok()
    # No worker takes it, and it counts.
    filler = (await full.push("in the way", delay_seconds=3600)).ok()
    run = await Run(server).begin("charging")

    async def left() -> list[Any]:
        return await _queues_in_outbox(run)

    async def only_the_full_one_is_left() -> bool:
        return await left() == ["refusing"] and (await healthy.stats())["locked"] == 0

    # What a worker has begun when its process ends, another one may run again.
    healthy = server.queue()
    healthy.name = "counted"
    await run.waits_for("ActivityCompleted")
    await eventually(only_the_full_one_is_left)
    for _ in range(2):
        await server.stack.kill_app()
        await server.stack.start_app()
        assert await left() == ["refusing"]
    (await full.revoke(filler["ids"][0])).ok()
    assert await run.output(within=120) == [1, 2]
    assert Counter(run.effects()) == {1: 1, 2: 1}


async def _queues_in_outbox(run: Run) -> list[Any]:
    """The queues of all activities that the store has in the instance's outbox."""
    boxes = (await run.stored())["instance"]["outbox_entries"]
    return [effect["queue"] for box in boxes.values() for effect in box["effects"]]


@on_stacks(*ALL, part=KILLED)
async def test_a_fan_out_of_a_long_id_that_was_saved_and_not_sent(server: Server) -> None:
    run = Run(server)
    run.id = f"{run.id}-".ljust(240, "x")
    crash_points.arm(server.stack.folder, ACTOR_TYPE, run.id, AFTER, holding="ActivityScheduled")
    await is_not_answered(run.start("fan_out", 20))
    await crash_and_restart(server)
    assert await run.output() == 2 * sum(range(20))
    assert Counter(run.effects()) == Counter(range(20))
    assert set(run.effect_keys()) == {f"{run.id}:1:{seq}" for seq in range(2, 22)}


@on_stacks(*ALL, part=KILLED)
async def test_a_parent_that_gives_up_leaves_an_instance_alone_that_is_not_its_child(server: Server) -> None:
    stranger = await Run(server, "stranger").begin("waiting")
    run = Run(server)
    # So that it gives up before it hears that there is such an instance already.
    crash_points.arm(server.stack.folder, ACTOR_TYPE, run.id, AFTER, holding="SubOrchestrationScheduled")
    await is_not_answered(run.start("giving_up", stranger.id))
    await crash_and_restart(server)
    assert await run.output() == "gave up"

    async def all_is_sent() -> bool:
        return not (await run.stored())["instance"]["outbox_entries"]

    await eventually(all_is_sent)
    assert (await stranger.status())["status"] == "RUNNING"
    (await stranger.delete(force=True)).ok()


@on_every_stack
async def test_forced_deletion_cancels_the_child_that_was_awaited(server: Server) -> None:
    run = await Run(server).begin("parent", "waiting")
    starter = await Run(server, "starter").begin("starter", "waiting")
    await eventually(run.child.is_found)
    await starter.output()
    for one in (run, starter):
        (await one.delete(force=True)).ok()
    status = await run.child.ended()
    assert (status["status"], status["reason"]) == ("CANCELLED", "Its parent was deleted.")
    # A detached child has nothing to do with the one that started it.
    assert (await starter.child.status())["status"] == "RUNNING"
    (await starter.child.delete(force=True)).ok()


@on_every_stack
async def test_a_step_has_a_limit_that_every_store_takes(server: Server) -> None:
    # Each takes one megabyte, in the history and in the outbox.
    assert await (await Run(server, "fits").begin("heavy", 16)).output() == 16 * 500_000
    run = await Run(server).begin("heavy", 40)
    error = await run.error()
    assert error["type"] == "TooLarge"
    assert "its first 17 activities" in error["message"]
    assert "one step may take 16,777,216" in error["message"]
    assert await run.types() == ["OrchestrationStarted", "OrchestrationFailed"]
