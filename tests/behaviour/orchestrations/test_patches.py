"""Code that changes between two starts in ways that are safe: patches, versions, types that fit again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.behaviour.orchestrations.redeployment import blocked, deploys, release
from tests.behaviour.stacks import ALL, KILLED, on_stacks
from tests.support.runs import Run, delivered

if TYPE_CHECKING:
    from tests.support.rest import Server


@on_stacks(*ALL, part=KILLED)
async def test_a_patch_is_taken_by_new_instances_and_not_by_old_ones(server: Server) -> None:
    old = await Run(server, "old").begin("quote_patched", "apple")
    await old.waits_for("ActivityScheduled")
    async with deploys(server) as changing:
        await changing.deploy(patched=True, kill=True)
        new, later = [await Run(server, name).begin("quote_patched", "pear") for name in ("new", "later")]
        for run in (new, later):
            await run.waits_for("ActivityCompleted", "ActivityScheduled")
        for run in (old, new):
            release(run)
        assert await old.output() == "price of apple"
        assert await new.output() == "price of price of pear"
        assert "PatchMarked" not in await old.types()
        assert (await new.types())[:3] == ["OrchestrationStarted", "PatchMarked", "ActivityScheduled"]
        # A rollback: the old code does not know the path that was taken.
        await changing.deploy()
        release(later)
        assert (await blocked(later))["kind"] == "non_determinism"
        await changing.deploy(patched=True)
        assert await later.output() == "price of price of pear"


@on_stacks(*ALL, part=KILLED)
async def test_a_value_that_no_longer_fits_its_type_names_the_event_and_the_field(server: Server) -> None:
    run = await Run(server).begin("order", {"item": "apple"})
    await run.waits_for("EventSubscribed")
    async with deploys(server) as changing:
        await changing.deploy(required=True)
        reason = await blocked(run)
        assert (reason["kind"], reason["expected"], reason["found"]) == (
            "unfit_value",
            "event 1, OrchestrationStarted (order)",
            "it does not fit its type: day: Field required",
        )
        assert "changing_definitions.py:" in reason["line"]
        await changing.deploy()
        delivered(await run.raise_event("go"))
        assert await run.output() == "apple"


@on_stacks(*ALL, part=KILLED)
async def test_the_next_execution_has_another_version_as_soon_as_that_is_deployed(server: Server) -> None:
    run, latest = Run(server), Run(server, "latest")
    for one in (run, latest):
        await one.start("perpetual", 7, version="1")
        await one.waits_for("EventSubscribed")
    async with deploys(server) as changing:
        await changing.deploy(without=["perpetual"])
        # It is blocked in the step that this begins, and keeps the event.
        delivered(await run.raise_event("go", "2"), is_so=False)
        assert (await blocked(run))["kind"] == "missing_orchestration"
        assert (await run.status())["version"] == "1"
        await changing.deploy()
        assert await run.output() == [2, 7, 2]
        assert (await run.status())["version"] == "2"
        delivered(await latest.raise_event("go", "latest"))
        assert await latest.output() == [2, 7, 2]
