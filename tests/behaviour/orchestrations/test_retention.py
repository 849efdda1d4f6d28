"""An orchestration with ``retention_seconds``, on every stack."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from tests.behaviour.stacks import on_every_stack
from tests.support.runs import Run
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.rest import Server


@on_every_stack
async def test_nothing_is_left_of_it_and_its_id_is_free(server: Server) -> None:
    run = await Run(server).begin("forgotten", Run(server).child.id)
    assert await run.output() == 42

    async def is_gone() -> bool:
        return not await run.is_found() and await run.stored() == {}

    await eventually(is_gone)
    (await run.get("/history")).refused(404, "NOT_FOUND")
    key = quote(f"activity/{run.id}:1:3", safe="")

    async def record_is_gone() -> bool:
        return (await server.request("GET", f"/idempotency/default/{key}")).status == 404

    await eventually(record_is_gone)

    async def is_unlisted() -> bool:
        page = (await server.request("GET", "/orchestrations", query={"id_prefix": run.id})).ok()
        return [entry["instance_id"] for entry in page["orchestrations"]] == [run.child.id]

    await eventually(is_unlisted)
    # A child that it did not wait for is an instance of its own.
    assert (await run.child.status())["status"] == "RUNNING"
    assert (await run.start("echo", 1)).status == 202
    assert await run.output() == 1
