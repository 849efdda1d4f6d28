"""Calls on instances: cancel, suspend, resume, delete, wait, list."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from tests.behaviour.stacks import on_every_stack
from tests.support.runs import Run, accepted, delivered
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.rest import Server

CONTROLS = ("cancel", "suspend", "resume")


@on_every_stack
async def test_a_cancelled_one_may_clean_up(server: Server) -> None:
    run = await Run(server).begin("cleaning_up")
    accepted(await run.tell("cancel", reason="not wanted"))
    status = await run.ended()
    assert (status["status"], status["reason"], status["output"]) == ("CANCELLED", "not wanted", None)
    assert status["custom_status"] == 42
    events = await run.history()
    assert [event["type"] for event in events] == [
        "OrchestrationStarted",
        "EventSubscribed",
        "CancelRequested",
        "ActivityScheduled",
        "ActivityCompleted",
        "OrchestrationCancelled",
    ]
    assert (events[2]["reason"], events[5]["reason"]) == ("not wanted", "not wanted")


@on_every_stack
async def test_cancelling_reaches_children_that_somebody_waits_for(server: Server) -> None:
    run = await Run(server, "of").begin("parent", "cleaning_up")
    await eventually(run.child.is_found)
    accepted(await run.tell("cancel", reason="not wanted"))
    assert (await run.ended())["status"] == "CANCELLED"
    child = await run.child.ended()
    assert (child["status"], child["reason"], child["custom_status"]) == ("CANCELLED", "not wanted", 42)

    detached = await Run(server, "without").begin("starter", "waiting")
    await detached.output()
    await eventually(detached.child.is_found)
    (await detached.tell("cancel")).refused(409, "CONFLICT")
    assert (await detached.child.status())["status"] == "RUNNING"


@on_every_stack
async def test_an_abandoned_child_goes_on_without_its_parent(server: Server) -> None:
    cancelled, deleted, awaiting = (Run(server, name) for name in ("cancelled", "deleted", "awaiting"))
    for run in (cancelled, deleted, awaiting):
        await run.begin("abandoning", "waiting")
        await eventually(run.child.is_found)
    accepted(await cancelled.tell("cancel", reason="not wanted"))
    assert (await cancelled.ended())["status"] == "CANCELLED"
    assert (await deleted.delete(force="true")).status == 200
    for run in (cancelled, deleted, awaiting):
        await run.child.raise_event("go", 7)
        assert await run.child.output() == 7
    assert await awaiting.output() == 7


@on_every_stack
async def test_a_child_that_is_cancelled_fails_its_parent(server: Server) -> None:
    run = await Run(server).begin("parent", "waiting")
    await eventually(run.child.is_found)
    accepted(await run.child.tell("cancel", reason="not this one"))
    error = await run.error()
    assert (error["type"], "not this one" in error["message"]) == ("SubOrchestrationFailed", True)
    failed = next(event for event in await run.history() if event["type"] == "SubOrchestrationFailed")
    assert failed["error"]["kind"] == "cancelled"


@on_every_stack
async def test_a_suspended_one_rests_until_it_is_resumed(server: Server) -> None:
    run = await Run(server).begin("waiting")
    accepted(await run.tell("suspend", reason="maintenance"))
    accepted(await run.tell("suspend"))
    assert (await run.status())["status"] == "SUSPENDED"
    delivered(await run.raise_event("go", "meanwhile"))
    status = (await run.get("/wait", timeout_seconds=0.2)).ok()
    assert (status["status"], status["ended_at"]) == ("SUSPENDED", None)
    accepted(await run.tell("resume"))
    assert await run.output() == "meanwhile"
    assert await run.types() == [
        "OrchestrationStarted",
        "EventSubscribed",
        "OrchestrationSuspended",
        "EventRaised",
        "OrchestrationResumed",
        "OrchestrationCompleted",
    ]


@on_every_stack
async def test_a_timer_that_falls_due_meanwhile_fires_when_it_is_resumed(server: Server) -> None:
    run = await Run(server).begin("napping", 0.2)
    accepted(await run.tell("suspend"))
    assert (await run.get("/wait", timeout_seconds=0.5)).ok()["status"] == "SUSPENDED"
    accepted(await run.tell("resume"))
    assert await run.output() >= 0.2


@on_every_stack
async def test_a_suspended_one_can_be_cancelled(server: Server) -> None:
    run = await Run(server).begin("cleaning_up")
    accepted(await run.tell("suspend"))
    accepted(await run.tell("cancel"))
    status = await run.ended()
    assert (status["status"], status["custom_status"]) == ("CANCELLED", 42)


@on_every_stack
async def test_what_has_ended_or_never_was_takes_no_orders(server: Server) -> None:
    ended, unknown = await Run(server).begin("echo"), Run(server, "unknown")
    await ended.output()
    before = await ended.stored()
    for order in CONTROLS:
        (await ended.tell(order)).refused(409, "CONFLICT")
        (await unknown.tell(order)).refused(404, "NOT_FOUND")
    (await ended.raise_event("go")).refused(409, "CONFLICT")
    (await unknown.raise_event("go")).refused(404, "NOT_FOUND")
    for path in ("", "/history", "/wait"):
        (await unknown.get(path)).refused(404, "NOT_FOUND")
    (await unknown.delete()).refused(404, "NOT_FOUND")
    (await unknown.delete(force=True)).refused(404, "NOT_FOUND")
    assert await unknown.stored() == {}
    assert await ended.stored() == before


@on_every_stack
async def test_a_deleted_one_leaves_its_id_free_and_nothing_in_the_store(server: Server) -> None:
    run = await Run(server).begin("fan_out", 40)
    await run.output()
    (await run.delete()).ok()
    for path in ("", "/history", "/wait"):
        (await run.get(path)).refused(404, "NOT_FOUND")

    async def gone() -> bool:
        return await run.stored() == {}

    await eventually(gone)
    await run.begin("echo", "again")
    assert await run.output() == "again"
    assert await run.types() == ["OrchestrationStarted", "OrchestrationCompleted"]


@on_every_stack
async def test_one_that_runs_is_deleted_only_by_force(server: Server) -> None:
    run = await Run(server).begin("waiting")
    (await run.delete()).refused(409, "CONFLICT")
    (await run.delete(force=False)).refused(409, "CONFLICT")
    assert (await run.status())["status"] == "RUNNING"
    (await run.delete(force=True)).ok()
    (await run.raise_event("go")).refused(404, "NOT_FOUND")
    # What was told to the one before does not reach the one after.
    await run.begin("waiting")
    assert (await run.status())["events"] == 2


@on_every_stack
async def test_waiting_ends_with_the_instance(server: Server) -> None:
    run = await Run(server).begin("waiting")
    clock = asyncio.get_running_loop().time
    waits = [server.begin(run.get("/wait", timeout_seconds=60)) for _ in range(5)]
    short = (await run.get("/wait", timeout_seconds=0.3)).ok()
    assert (short["status"], short["ended_at"]) == ("RUNNING", None)
    assert not any(wait.done() for wait in waits)
    began = clock()
    delivered(await run.raise_event("go", 1))
    for wait in waits:
        status = (await wait).ok()
        assert (status["status"], status["output"]) == ("COMPLETED", 1)
    # Far below the time after which one who waits asks again of itself.
    assert clock() - began < 5
    assert (await run.get("/wait", timeout_seconds=60)).ok() == await run.status()
    (await run.get("/wait", timeout_seconds=0)).ok()


@on_every_stack
async def test_waiting_for_one_that_is_deleted_ends(server: Server) -> None:
    run = await Run(server).begin("waiting")
    wait = server.begin(run.get("/wait", timeout_seconds=60))
    assert (await run.get("/wait", timeout_seconds=0.2)).ok()["status"] == "RUNNING"
    (await run.delete(force=True)).ok()
    async with asyncio.timeout(5):
        (await wait).refused(404, "NOT_FOUND")


async def listed(server: Server, limit: int = 100, **filters: Any) -> dict[str, Any]:
    """Returns the listed instances of this test, page by page, the newest first."""
    found: dict[str, Any] = {}
    query: dict[str, Any] = {"limit": limit, **filters}
    while True:
        page = (await server.request("GET", "/orchestrations", query=query)).ok()
        assert len(page["orchestrations"]) <= limit
        for entry in page["orchestrations"]:
            assert entry.keys() == {"instance_id", "name", "version", "status", "tags", "created_at", "ended_at"}
            assert entry["instance_id"] not in found
            found[entry["instance_id"]] = entry
        if "next_cursor" not in page:
            times = [entry["created_at"] for entry in found.values()]
            assert times == sorted(times, reverse=True)
            return {name: entry for name, entry in found.items() if name.startswith(server.name)}
        query["cursor"] = page["next_cursor"]


@on_every_stack
async def test_lists(server: Server) -> None:
    running = [await Run(server, f"r{number}").begin("waiting") for number in range(7)]
    done = [await Run(server, f"d{number}").begin("echo") for number in range(5)]
    failed = [await Run(server, f"f{number}").begin("broken") for number in range(3)]
    cancelled = await Run(server, "c").begin("waiting")
    accepted(await cancelled.tell("cancel"))
    suspended = await Run(server, "s").begin("waiting")
    accepted(await suspended.tell("suspend"))
    everyone = {run.id for run in (*running, *done, *failed, cancelled, suspended)}

    async def right() -> bool:
        states = {name: entry["status"] for name, entry in (await listed(server)).items()}
        return states == {
            **{run.id: "RUNNING" for run in running},
            **{run.id: "COMPLETED" for run in done},
            **{run.id: "FAILED" for run in failed},
            cancelled.id: "CANCELLED",
            suspended.id: "SUSPENDED",
        }

    await eventually(right)
    whole = await listed(server)
    assert whole.keys() == everyone
    assert await listed(server, limit=4) == whole
    assert (await listed(server, status="RUNNING")).keys() == {run.id for run in running}
    assert (await listed(server, limit=1, status="FAILED")).keys() == {run.id for run in failed}
    assert (await listed(server, name="echo")).keys() == {run.id for run in done}
    assert (await listed(server, name="waiting", status="CANCELLED")).keys() == {cancelled.id}
    assert await listed(server, name="waiting", status="FAILED") == {}
    assert whole[done[0].id]["created_at"] == (await done[0].status())["created_at"]
    assert whole[done[0].id]["name"] == "echo"

    for run in done:
        (await run.delete()).ok()

    async def shorter() -> bool:
        return (await listed(server)).keys() == everyone - {run.id for run in done}

    await eventually(shorter)


@pytest.mark.parametrize(
    "query", [{"status": "running"}, {"status": ""}, {"limit": 0}, {"limit": 101}, {"limit": "x"}, {"state": "RUNNING"}]
)
@on_every_stack
async def test_a_list_that_cannot_be_asked_for(server: Server, query: dict[str, Any]) -> None:
    (await server.request("GET", "/orchestrations", query=query)).refused(400, "INVALID_REQUEST")
