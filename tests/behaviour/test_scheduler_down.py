"""Dapr's scheduler is down while the store is up: what is saved is answered so, and reminders come late."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.behaviour.stacks import DAPR, KILLED, on_stacks
from tests.support.runs import Run, delivered
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.rest import Queue, Server

ITEMS = 6


@on_stacks(*DAPR, part=KILLED)
async def test_nothing_that_is_saved_is_answered_as_failed(server: Server) -> None:
    used, new = server.queue("used"), server.queue("new")
    (await used.push("before")).ok()
    run = await Run(server).begin("reading", 1)
    await run.waits_for("EventSubscribed")
    await server.stack.kill_scheduler()
    try:
        for queue, first in ((used, ["before"]), (new, [])):
            for item in range(ITEMS):
                (await queue.push(item)).ok()
            # Every item once: none was popped and answered with an error, none was pushed twice.
            for expected in [*first, *range(ITEMS - 2)]:
                assert (await queue.pop()).ok()["items"] == [expected]
            taken = await queue.lock()
            assert taken["items"] == [ITEMS - 2]
            (await queue.acknowledge(taken["lock_id"])).ok()
            assert (await queue.lock(ttl_seconds=1))["items"] == [ITEMS - 1]
        delivered(await run.raise_event("go"))
        delivered(await run.raise_event("letters", "a letter"))
        assert await run.output() == ["a letter"]
    finally:
        await server.stack.start_scheduler()
    # By the reminder: nothing calls these queues meanwhile.
    for queue in (used, new):

        async def expired(queue: Queue = queue) -> bool:
            return not await queue.locked_in_store()

        await eventually(expired, within=120)
        assert (await queue.pop()).ok()["items"] == [ITEMS - 1]
