"""The quotas of instances and schedules: new ones are refused over REST, what exists goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.behaviour.stacks import on_every_stack
from tests.support.runs import Run
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.rest import Answer, Server


@on_every_stack
async def test_instances_beyond_the_quota_are_refused(server: Server) -> None:
    us = server.of("three-instances")
    runs = [await Run(us, str(number)).begin("echo", number) for number in range(3)]
    for number, run in enumerate(runs):
        assert await run.output() == number
    # Ended instances count as well.
    (await Run(us, "more").start("echo")).refused_for_now(429, "CAPACITY")
    (await us.request("POST", "/orchestrations/echo/start")).refused(429, "CAPACITY")
    (await us.request("POST", f"/orchestrations/{runs[0].id}/rerun")).refused(429, "CAPACITY")
    assert not await Run(us, "more").is_found()
    again = await runs[0].start("echo", 0)
    assert (again.status, again.body["created"]) == (200, False)
    await Run(server, "other").begin("echo")
    (await runs[1].delete()).ok()

    async def is_started() -> bool:
        answer = await Run(us, "more").start("echo")
        assert answer.status in (202, 429), answer.text
        return answer.status == 202

    await eventually(is_started)
    (await Run(us, "one-more").start("echo")).refused(429, "CAPACITY")


@on_every_stack
async def test_schedules_beyond_the_quota_are_refused(server: Server) -> None:
    us = server.of("two-schedules")

    async def put(caller: Server, name: str) -> Answer:
        return await caller.request("PUT", f"/schedules/{name}", b'{"orchestration": "echo", "every_seconds": 86400}')

    for name in ("a", "b", "a"):
        (await put(us, name)).ok()
    (await put(us, "c")).refused_for_now(429, "CAPACITY")
    assert (await us.request("GET", "/schedules/c")).status == 404
    (await put(server.of(f"{server.name}-other"), "c")).ok()
    # What is there already can be replaced.
    (await put(us, "b")).ok()
    assert (await us.request("DELETE", "/schedules/a")).status == 202

    async def is_made() -> bool:
        answer = await put(us, "c")
        assert answer.status in (200, 429), answer.text
        return answer.status == 200

    await eventually(is_made)
    (await put(us, "d")).refused(429, "CAPACITY")
